package dashboard_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// propagation bounds how long a change may take to reach another node: milliseconds, and more on a busy machine.
var propagation = proof.Scale(2*time.Minute, 5*time.Second)

// A changed role, a removed member and a signed-out browser are noticed by the next call on another node, and open
// streams there end.
func TestChangesAreFeltOnOtherNodes(t *testing.T) {
	t.Parallel()
	nodes, org := fleet(t, 2, testnode.Setup{})
	here := nodes[0].Join(t, org.ID, "owner@example.test", "owner")
	bob := nodes[0].Join(t, org.ID, "bob@example.test", "developer").At(nodes[1])
	ask := func(path string) string {
		t.Helper()
		start := time.Now()
		r := bob.Do(t, http.MethodGet, path, nil)
		if took := time.Since(start); took > propagation {
			t.Errorf("%s took %s", path, took)
		}
		if r.Status == http.StatusOK {
			return "ok"
		}
		return r.Code()
	}
	call := func(method, path string, body any) {
		t.Helper()
		if r := here.Do(t, method, path, body); r.Status != http.StatusOK {
			t.Fatalf("%s %s: %d %s", method, path, r.Status, r.Body)
		}
	}
	mint := func() string {
		t.Helper()
		return bob.Do(t, http.MethodPost, "/v1/me/keys", map[string]any{"label": "bob's"}).Code()
	}
	if got := ask("/v1/me") + " " + mint(); got != "ok scope-missing" {
		t.Fatalf("a developer: %s", got)
	}
	call(http.MethodPatch, "/v1/org/members/"+bob.Person, map[string]any{"role": "admin"})
	// New rights are the only change that may take a moment.
	for start := time.Now(); mint() != ""; <-time.After(20 * time.Millisecond) {
		if time.Since(start) > 2*propagation { // A try takes time too.
			t.Fatal("the new admin cannot create a key")
		}
	}
	call(http.MethodPatch, "/v1/org/members/"+bob.Person, map[string]any{"role": "support"})
	if got := mint(); got != "scope-missing" {
		t.Errorf("a supporter: %s", got)
	}

	ended := follow(t, bob)
	call(http.MethodDelete, "/v1/org/members/"+bob.Person, nil)
	if got := ask("/v1/me"); got != "signed-out" && got != "membership-missing" {
		t.Errorf("removed: %s", got)
	}
	if got := ask("/v1/me"); got != "membership-missing" {
		t.Errorf("removed, and asked again: %s", got)
	}
	select {
	case <-ended:
	case <-time.After(propagation):
		t.Error("the stream of a removed member continues")
	}

	ada := nodes[1].Join(t, org.ID, "ada@example.test", "admin")
	bob = ada
	if got := ask("/v1/me"); got != "ok" {
		t.Fatalf("ada: %s", got)
	}
	list, _ := ada.Do(t, http.MethodGet, "/v1/me/sessions", nil).JSON()["sessions"].([]any)
	var browser string
	for _, one := range list {
		if s := one.(map[string]any); s["current"] == true {
			browser = s["id"].(string)
		}
	}
	ended = follow(t, ada)
	call(http.MethodDelete, "/v1/me/sessions/"+browser, nil)
	if got := ask("/v1/me"); got != "signed-out" {
		t.Errorf("signed out: %s", got)
	}
	select {
	case <-ended:
	case <-time.After(propagation):
		t.Error("the stream of a signed-out browser continues")
	}
}

// follow opens the org's stream and closes the channel when it ends.
func follow(t *testing.T, b *testnode.Browser) <-chan struct{} {
	t.Helper()
	req := b.Request(t, http.MethodGet, "/v1/events", nil)
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	must.OK(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		t.Fatalf("the stream: %d", res.StatusCode)
	}
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(res.Body)
		for started := false; lines.Scan(); {
			if !started && strings.HasPrefix(lines.Text(), "event:") {
				started = true
				close(ready)
			}
		}
	}()
	select {
	case <-ready:
	case <-ended:
		t.Fatal("the stream ended immediately")
	case <-time.After(propagation):
		t.Fatal("the stream sends nothing")
	}
	return ended
}
