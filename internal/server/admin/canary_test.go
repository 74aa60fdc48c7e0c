package admin_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// Operators see objects and their states but never their contents: sessions, payloads, secrets and addresses of
// webhooks, the customer's names of accounts and notes on them, and passwords of proxies are in no response of any
// operation, present and future. The customer has not granted access.
func TestOperatorsNeverSeeWhatIsInside(t *testing.T) {
	t.Parallel()
	setup := withSandbox(t)
	n := testnode.Nodes(t, 1, setup)[0]
	o := n.NewOrg(t, nil)
	account, with := connect(t, n, o, map[string]any{
		"label": "canary-label", "reference_id": "canary-reference", "metadata": map[string]string{"note": "canary-metadata"},
	})
	canaries := []string{
		"canary-label", "canary-reference", "canary-metadata", "canary-payload-text", "canary-in-an-address", "canary-signing-secret-0001", "canary-header", with.Device, with.Agent,
		testnode.AdminToken, o.Key,
	}
	for pair := range strings.SplitSeq(with.Cookie, ";") {
		if _, value, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && len(value) >= 16 { // Shorter values are public ids.
			canaries = append(canaries, value)
		}
	}
	for part := range strings.FieldsFuncSeq(setup.Egress.Reveal(), func(r rune) bool { return r == '=' || r == ',' || r == ' ' || r == '@' }) {
		if strings.Contains(part, ":") {
			canaries = append(canaries, strings.TrimPrefix(part, "http://"))
		}
	}
	shown := n.Call(t, http.MethodGet, "/v1/accounts/"+account, o.Key, nil).JSON()["account"]
	for _, name := range []string{"username", "ofUserId"} {
		value, _ := part(t, shown, name).(string)
		canaries = append(canaries, `"`+value+`"`)
	}
	if len(canaries) < 17 || with.Device == "" {
		t.Fatalf("too few canaries: %v", canaries)
	}
	hook := map[string]any{"url": "http://127.0.0.1:9/canary-in-an-address?token=canary-in-an-address", "signingSecret": "canary-signing-secret-0001"}
	if r := n.Call(t, http.MethodPut, "/v1/accounts/"+account+"/webhook", o.Key, hook); r.Status != http.StatusOK {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	if r := n.Call(t, http.MethodPost, "/v1/sandbox/accounts/"+account+"/fire_event", o.Key, map[string]any{"event": "message", "data": map[string]any{"text": "canary-payload-text"}}); r.Status != http.StatusAccepted {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	testenv.Await(t, "the lane fails", func() bool {
		return len(n.Operate(t, http.MethodGet, "/admin/v1/webhooks/lanes?state=backoff", nil).JSON()["lanes"].([]any)) == 1
	})

	var seen strings.Builder
	ask := func(method, path string, body any) {
		t.Helper()
		r := n.Operate(t, method, path, body)
		if r.Status >= 500 {
			t.Errorf("%s %s: %d %s", method, path, r.Status, r.Body)
		}
		seen.WriteString(path + "\n")
		seen.Write(r.Body)
	}
	for _, path := range []string{
		"/admin/v1/accounts?names=true&org=" + o.ID, "/admin/v1/accounts?q=" + account, "/admin/v1/accounts?org=" + o.ID, "/admin/v1/audit?limit=100", "/admin/v1/audit?org=" + o.ID + "&limit=100",
		"/admin/v1/jobs?limit=100", "/admin/v1/webhooks/lanes?org=" + o.ID,
	} {
		ask(http.MethodGet, path, nil)
	}
	fill := strings.NewReplacer("{id}", o.ID, "{region}", "us", "{proxy}", "0")
	for _, op := range n.App.Admin().Operations() {
		path := fill.Replace(op.Path)
		if strings.Contains(op.Path, "/jobs/") || strings.Contains(op.Path, "/dead-letters/") {
			path = strings.ReplaceAll(op.Path, "{id}", "1")
		}
		if len(endpoint.Parameters(path)) > 0 {
			t.Fatalf("%s has a parameter that this test cannot fill", op.Path)
		}
		var body any
		if op.HasBody() {
			body = op.Example
		}
		ask(op.Method, path, body)
	}
	text := seen.String()
	for _, s := range canaries {
		quoted, _ := json.Marshal(s)
		for _, form := range []string{s, strings.Trim(string(quoted), `"`), hex.EncodeToString([]byte(s)), base64.StdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s))} {
			if at := strings.Index(text, form); at >= 0 {
				t.Errorf("%.16s… is in a response: …%s…", s, text[max(at-200, 0):min(at+50, len(text))])
			}
		}
	}
	// What operators need is shown.
	if !contains(text, account, `"host":"127.0.0.1:9"`, `http://127.0.0.1:9/…`) {
		t.Errorf("an expected value is missing: %s", text)
	}
}
