package dashboard_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// tool makes a request of a tool, which has no cookie and no key.
func tool(t *testing.T, n *testnode.Node, path string, values url.Values) testnode.Reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.URL+path, strings.NewReader(values.Encode()))
	must.OK(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r, err := testnode.Send(req)
	must.OK(t, err)
	return r
}

type deviceCodes struct {
	Device   string `json:"device_code"`
	User     string `json:"user_code"`
	Page     string `json:"verification_uri"`
	Complete string `json:"verification_uri_complete"`
	Expires  int    `json:"expires_in"`
	Interval int    `json:"interval"`
}

func startTool(t *testing.T, n *testnode.Node, machine string) deviceCodes {
	t.Helper()
	r := tool(t, n, "/v1/device/code", url.Values{"client_id": {"stagedoor-cli"}, "machine": {machine}})
	var codes deviceCodes
	if err := json.Unmarshal(r.Body, &codes); err != nil || r.Status != http.StatusOK {
		t.Fatalf("start: %d %s %v", r.Status, r.Body, err)
	}
	return codes
}

func pollTool(t *testing.T, n *testnode.Node, code string) testnode.Reply {
	t.Helper()
	return tool(t, n, "/v1/device/token", url.Values{"client_id": {"stagedoor-cli"}, "grant_type": {deviceGrant}, "device_code": {code}})
}

// A tool is signed in by a person who types its code: the page shows the machine and warns, a decision needs a POST and,
// to approve, a recent sign-in. The key that the tool gets works and is listed with the machine's name.
func TestAToolIsSignedIn(t *testing.T) {
	t.Parallel()
	nodes, org := fleet(t, 2, testnode.Setup{})
	ada := nodes[0].Join(t, org.ID, "ada@example.test", "developer")
	codes := startTool(t, nodes[0], `<b>ada's</b> laptop`)
	if codes.Expires != 600 || codes.Interval != 5 || !strings.HasSuffix(codes.Page, "/app/device") || codes.Complete != codes.Page+"?user_code="+codes.User {
		t.Errorf("%+v", codes)
	}
	if r := pollTool(t, nodes[1], codes.Device); r.Status != http.StatusBadRequest || r.JSON()["error"] != "authorization_pending" {
		t.Errorf("before the decision: %d %s", r.Status, r.Body)
	}
	if r := pollTool(t, nodes[0], codes.Device); r.JSON()["error"] != "slow_down" {
		t.Errorf("too early: %d %s", r.Status, r.Body)
	}
	stranger := &testnode.Browser{Node: nodes[0]}
	if r := stranger.Page(t, "/app/device?user_code="+codes.User); r.Status != http.StatusSeeOther || r.Header.Get("Location") != "/app/sign-in?to=%2Fapp%2Fdevice%3Fuser_code%3D"+codes.User {
		t.Errorf("without a session: %d %v", r.Status, r.Header)
	}
	if r := ada.Page(t, "/app/device?user_code="+codes.User); r.Status != http.StatusOK || !strings.Contains(string(r.Body), codes.User) {
		t.Errorf("the page: %d %s", r.Status, r.Body)
	}
	if r := ada.Form(t, "/app/device", url.Values{"user_code": {"BBBB-BBBB"}}); r.Status != http.StatusNotFound || !strings.Contains(string(r.Body), "This code does not work") {
		t.Errorf("a wrong code: %d %s", r.Status, r.Body)
	}
	form := url.Values{"user_code": {strings.ToLower(codes.User)}}
	r := ada.Form(t, "/app/device", form)
	for _, want := range []string{"&lt;b&gt;ada&#39;s&lt;/b&gt; laptop", "127.0.0.1", "(developer)", "Approve only if you have started this yourself"} {
		if !strings.Contains(string(r.Body), want) {
			t.Errorf("the question does not have %q: %s", want, r.Body)
		}
	}
	form.Set("decision", "approve")
	form.Set("org", org.ID)
	ada.SetSignInAge(t, time.Hour)
	if r := ada.Form(t, "/app/device", form); r.Status != http.StatusSeeOther || !strings.HasPrefix(r.Header.Get("Location"), "/app/sign-in?fresh=1&to=%2Fapp%2Fdevice") {
		t.Errorf("with an old sign-in: %d %v", r.Status, r.Header)
	}
	ada.SetSignInAge(t, time.Second)
	other := nodes[0].NewOrg(t, nil)
	if r := ada.Form(t, "/app/device", url.Values{"user_code": {codes.User}, "decision": {"approve"}, "org": {other.ID}}); r.Status != http.StatusForbidden {
		t.Errorf("for an org of others: %d %s", r.Status, r.Body)
	}
	if r := ada.Form(t, "/app/device", form); r.Status != http.StatusOK || !strings.Contains(string(r.Body), "The tool is signed in to") {
		t.Fatalf("approve: %d %s", r.Status, r.Body)
	}
	nodes[0].RestTools(t)
	r = pollTool(t, nodes[1], codes.Device)
	key, _ := r.JSON()["access_token"].(string)
	if r.Status != http.StatusOK || key == "" || r.JSON()["token_type"] != "Bearer" || r.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("the key: %d %s", r.Status, r.Body)
	}
	if r := pollTool(t, nodes[1], codes.Device); r.JSON()["error"] != "invalid_grant" {
		t.Errorf("a second time: %d %s", r.Status, r.Body)
	}
	me := nodes[0].Call(t, http.MethodGet, "/v1/me", key, nil)
	if me.Status != http.StatusOK || !strings.Contains(string(me.Body), `ada@example.test on \u003cb\u003eada's\u003c/b\u003e laptop`) && !strings.Contains(string(me.Body), `ada@example.test on <b>ada's</b> laptop`) {
		t.Errorf("%d %s", me.Status, me.Body)
	}
	if strings.Contains(string(me.Body), "me:write") {
		t.Errorf("the key can do more than a developer: %s", me.Body)
	}
}

// Forms of tools that are not valid, refusals and unknown codes get the errors of RFC 8628. Pages of other sites cannot
// decide.
func TestToolsGetTheErrorsOfTheRFC(t *testing.T) {
	t.Parallel()
	nodes, org := fleet(t, 1, testnode.Setup{})
	node := nodes[0]
	codes := startTool(t, node, "")
	for want, values := range map[string]url.Values{
		"unsupported_grant_type": {"client_id": {"x"}, "grant_type": {"password"}, "device_code": {codes.Device}},
		"invalid_grant":          {"client_id": {"x"}, "grant_type": {deviceGrant}, "device_code": {strings.Repeat("x", 43)}},
		"invalid_request":        {"grant_type": {deviceGrant}, "device_code": {codes.Device}},
	} {
		if r := tool(t, node, "/v1/device/token", values); r.Status != http.StatusBadRequest || r.JSON()["error"] != want {
			t.Errorf("want %s: %d %s", want, r.Status, r.Body)
		}
	}
	if r := node.Call(t, http.MethodPost, "/v1/device/code", "", map[string]any{"client_id": "x"}); r.Status != http.StatusBadRequest || r.JSON()["error"] != "invalid_request" {
		t.Errorf("JSON: %d %s", r.Status, r.Body)
	}
	ada := node.Join(t, org.ID, "ada@example.test", "owner")
	values := url.Values{"user_code": {codes.User}, "decision": {"approve"}, "org": {org.ID}}
	req := ada.Request(t, http.MethodPost, "/app/device", []byte(values.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	if r := ada.Send(t, req); r.Code() != "cross-origin-refused" {
		t.Errorf("from another site: %d %s", r.Status, r.Body)
	}
	values.Set("decision", "deny")
	if r := ada.Form(t, "/app/device", values); r.Status != http.StatusOK || !strings.Contains(string(r.Body), "was refused") {
		t.Errorf("deny: %d %s", r.Status, r.Body)
	}
	node.RestTools(t)
	if r := pollTool(t, node, codes.Device); r.JSON()["error"] != "access_denied" {
		t.Errorf("after the refusal: %d %s", r.Status, r.Body)
	}
}
