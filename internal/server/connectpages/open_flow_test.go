package connectpages_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// A creator starts on one device and continues on another, on another node. The first sign-in ends, the first browser is
// told, and the second one connects the account.
func TestALinkMovesToAnotherDevice(t *testing.T) {
	t.Parallel()
	f := newOAuthFixture(t)
	r := f.nodes[0].Call(t, http.MethodPost, "/v1/connect/sessions", f.org.Key, map[string]any{})
	made, _ := r.JSON()["session"].(map[string]any)
	link, _ := made["url"].(string)
	session := func() map[string]any {
		got, _ := f.get("/v1/connect/sessions/" + fmt.Sprint(made["id"]))["session"].(map[string]any)
		return got
	}
	for range 2 {
		if page := newCreatorBrowser(t, f.nodes[1]).open(link); page.status != http.StatusOK || session()["opened_at"] != nil {
			t.Fatalf("%d %s, opened at %v", page.status, page.body, session()["opened_at"])
		}
	}
	enter := func(b *creatorBrowser, do string) string {
		t.Helper()
		b.open(link)
		sent := b.post(link, url.Values{"do": {do}})
		if sent.status != http.StatusSeeOther || !strings.HasSuffix(sent.to, "/s/"+fmt.Sprint(made["id"])) {
			t.Fatalf("%d %s %s", sent.status, sent.to, sent.body)
		}
		return sent.to
	}
	see := func(b *creatorBrowser, page, text string) {
		t.Helper()
		testenv.Await(t, text, func() bool { return strings.Contains(b.open(page).body, text) })
	}
	desk, phone := newCreatorBrowser(t, f.nodes[0]), newCreatorBrowser(t, f.nodes[1])
	page := enter(desk, "open")
	desk.post(page, url.Values{"do": {"start"}, "email": {"sms+moves@sandbox.test"}, "password": {"good"}})
	see(desk, page, "Check your phone")
	if copied := phone.open(link); copied.status != http.StatusConflict || strings.Contains(copied.body, "Check your phone") {
		t.Fatalf("%d %s", copied.status, copied.body)
	}
	enter(phone, "again")
	if first := f.ended(fmt.Sprint(session()["attempts"].([]any)[0])); first["state"] != "completed_failed" {
		t.Errorf("%v", first)
	}
	for _, lost := range []opened{
		desk.open(page), desk.post(page, url.Values{"do": {"code"}, "code": {"123456"}}),
		desk.post(page, url.Values{"do": {"start"}, "email": {"ok+moves@sandbox.test"}, "password": {"good"}}),
	} {
		if lost.status != http.StatusConflict || !strings.Contains(lost.body, "no longer works in this browser") {
			t.Errorf("%d %s", lost.status, lost.body)
		}
	}
	if shown := phone.open(page); !strings.Contains(shown.body, `name="password"`) || strings.Contains(shown.body, "moves") {
		t.Errorf("%d %s", shown.status, shown.body)
	}
	phone.post(page, url.Values{"do": {"start"}, "email": {"ok+moved@sandbox.test"}, "password": {"good"}})
	see(phone, page, "You are connected")
	if got := session(); got["status"] != "success" || len(got["attempts"].([]any)) != 2 {
		t.Errorf("%v", got)
	}
	if old := desk.open(link); old.status != http.StatusGone || strings.Contains(old.body, "connected") {
		t.Errorf("%d %s", old.status, old.body)
	}
}
