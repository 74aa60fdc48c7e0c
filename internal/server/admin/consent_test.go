package admin_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// An operator opens a dashboard after an owner has granted access: read-only, and with an entry in the organisation's
// audit log about what they read. From the moment an owner revokes it, the operator's browser is refused on every node.
func TestOperatorsReadWithConsentOnly(t *testing.T) {
	t.Parallel()
	setup := withSandbox(t)
	nodes := testnode.Nodes(t, 2, setup)
	here, there := nodes[0], nodes[1]
	o := here.NewOrg(t, nil)
	account, _ := connect(t, here, o, map[string]any{"label": "Luna"})
	owner := here.Join(t, o.ID, "owner@acme.test", "owner")
	asked := here.Operate(t, http.MethodPost, "/admin/v1/orgs/"+o.ID+"/access", map[string]any{"reason": "Ticket 1423"})
	access, _ := part(t, asked.JSON(), "access", "id").(string)
	if r := here.Operate(t, http.MethodPost, "/admin/v1/orgs/"+o.ID+"/open", nil); r.Code() != "consent-required" {
		t.Fatalf("before the grant: %d %s", r.Status, r.Body)
	}
	if r := owner.Do(t, http.MethodPost, "/v1/org/support-access/"+access+"/grant", map[string]any{"hours": 1}); r.Status != http.StatusOK {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	link, err := url.Parse(here.Operate(t, http.MethodPost, "/admin/v1/orgs/"+o.ID+"/open", nil).JSON()["url"].(string))
	must.OK(t, err)
	looking := &testnode.Browser{Node: here, Org: o.ID}
	if page := looking.Page(t, link.Path); page.Status != http.StatusOK || !strings.Contains(string(page.Body), "Ticket 1423") {
		t.Errorf("%d %s", page.Status, page.Body)
	}
	r := looking.Form(t, link.Path, nil)
	if r.Status != http.StatusSeeOther {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	looking.Keep(t, r)
	read := func(b *testnode.Browser) testnode.Reply {
		t.Helper()
		return b.Do(t, http.MethodGet, "/v1/accounts/"+account, nil)
	}
	for _, b := range []*testnode.Browser{looking, looking.At(there)} {
		if r := read(b); r.Status != http.StatusOK {
			t.Errorf("%d %s", r.Status, r.Body)
		}
	}
	if r := looking.Do(t, http.MethodPost, "/v1/accounts/"+account+"/pause", nil); r.Code() != "scope-missing" {
		t.Errorf("a change: %d %s", r.Status, r.Body)
	}
	entries := here.Call(t, http.MethodGet, "/v1/me/audit?action=operator.read&limit=10", o.Key, nil).JSON()["entries"].([]any)
	found := false
	for _, e := range entries {
		found = found || part(t, e, "target") == account && part(t, e, "changes", "operation", "to") == "getAccount" &&
			part(t, e, "changes", "access", "to") == access && part(t, e, "actor", "label") == "token"
	}
	if !found {
		t.Errorf("the read is not in the log: %v", entries)
	}
	if r := owner.Do(t, http.MethodDelete, "/v1/org/support-access/"+access, nil); r.Status != http.StatusOK {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	for _, b := range []*testnode.Browser{looking, looking.At(there)} {
		if r := read(b); r.Code() != "signed-out" {
			t.Errorf("after it was revoked: %d %s", r.Status, r.Body)
		}
	}
	if r := here.Operate(t, http.MethodGet, "/admin/v1/accounts?names=true&org="+o.ID, nil); r.Code() != "consent-required" {
		t.Errorf("after it was revoked: %d %s", r.Status, r.Body)
	}
}
