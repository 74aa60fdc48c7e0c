package dashboard_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// felt is how long a change may take to reach another node: milliseconds, and more on a busy machine.
var felt = proof.Scale(2*time.Minute, 5*time.Second)

// A role that was changed, a member who was removed and a browser that was signed out on one node are noticed by the next call on
// another, and streams that are open there end.
func TestChangesAreFeltOnOtherNodes(t *testing.T) {
	t.Parallel()
	nodes, org := fleet(t, 2, testnode.Setup{})
	here := nodes[0].Join(t, org.ID, "owner@example.test", "owner")
	bob := nodes[0].Join(t, org.ID, "bob@example.test", "developer").At(nodes[1])
	ask := func(path string) string {
		t.Helper()
		began := time.Now()
		r := bob.Do(t, http.MethodGet, path, nil)
		if took := time.Since(began); took > felt {
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
	// What somebody may do now and could not before is the only thing that is not felt at once.
	for began := time.Now(); mint() != ""; <-time.After(20 * time.Millisecond) {
		if time.Since(began) > 2*felt { // a try itself takes time
			t.Fatal("an admin who may not mint")
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
	case <-time.After(felt):
		t.Error("the stream of a member who was removed goes on")
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
	case <-time.After(felt):
		t.Error("the stream of a browser that was signed out goes on")
	}
}

// follow opens the org's stream and closes the channel when it ends.
func follow(t *testing.T, b *testnode.Browser) <-chan struct{} {
	t.Helper()
	req := b.Request(t, http.MethodGet, "/v1/events", nil)
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		t.Fatalf("the stream: %d", res.StatusCode)
	}
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(res.Body)
		for told := false; lines.Scan(); {
			if !told && strings.HasPrefix(lines.Text(), "event:") {
				told = true
				close(ready)
			}
		}
	}()
	select {
	case <-ready:
	case <-ended:
		t.Fatal("the stream ended at once")
	case <-time.After(felt):
		t.Fatal("the stream says nothing")
	}
	return ended
}
