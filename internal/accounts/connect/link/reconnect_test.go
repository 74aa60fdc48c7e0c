package link_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

func TestReconnectLinkIsStableForADayAndExpiresAfterTheNext(t *testing.T) {
	t.Parallel()
	links := link.NewLinks(keys{key: "one key for all nodes, 32 bytes."})
	org, account := id.New[id.Org](), id.New[id.Account]()
	morning := time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)
	made := func(at time.Time) string {
		t.Helper()
		token, err := links.MakeReconnect(t.Context(), org, account, at)
		must.OK(t, err)
		return token.Reveal()
	}
	text := made(morning)
	if text != made(morning.Add(24*time.Hour-time.Second)) || text == made(morning.Add(24*time.Hour)) {
		t.Error("the link must change exactly once a day")
	}
	for _, after := range []time.Duration{0, 24 * time.Hour, 48*time.Hour - time.Second} {
		if o, a, err := links.ReadReconnect(t.Context(), text, morning.Add(after)); err != nil || o != org || a != account {
			t.Errorf("after %s: %s %s %v", after, o, a, err)
		}
	}
	missing := func(what, token string, at time.Time) {
		t.Helper()
		if _, _, err := links.ReadReconnect(t.Context(), token, at); !errors.Is(err, problem.AccountNotFound.New("")) {
			t.Errorf("%s: %v", what, err)
		}
	}
	missing("too old", text, morning.Add(48*time.Hour))
	manage, err := links.Make(t.Context(), org, account)
	must.OK(t, err)
	missing("a manage link", strings.Replace(manage.Reveal(), "mng_", "rcn_", 1), morning)
	if _, _, err := links.Read(t.Context(), strings.Replace(text, "rcn_", "mng_", 1)); !errors.Is(err, problem.AccountNotFound.New("")) {
		t.Errorf("a reconnect link as a manage link: %v", err)
	}
	for i := 4; i < len(text); i++ {
		changed := []byte(text)
		if changed[i] = "ab"[(int(changed[i])+1)%2]; string(changed) != text {
			missing("changed", string(changed), morning)
		}
	}
	missing("truncated", text[:58], morning)
}

func TestReconnectingReusesAnOpenSession(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	account := id.New[id.Account]()
	// A link that a key made has a random token, which cannot be derived again.
	if _, _, err := r.Create(t.Context(), by("connect.session"), r.org, link.Draft{Account: account}); err != nil {
		t.Fatal(err)
	}
	reconnect := func() (link.Session, string) {
		t.Helper()
		d := link.ReconnectDraft(account, catalog.BySession)
		d.Platform, d.Site = "ghost", "https://maya.example.com"
		s, token, err := r.Reconnecting(t.Context(), by("connect.session"), r.org, d)
		must.OK(t, err)
		found, err := r.ByToken(t.Context(), token.Reveal())
		if err != nil || found.ID != s.ID || found.Account != account || found.Platform != d.Platform || found.Site != d.Site {
			t.Fatalf("%+v %v", found, err)
		}
		return s, token.Reveal()
	}
	first, token := reconnect()
	if again, same := reconnect(); again.ID != first.ID || same != token {
		t.Error("a second session was created while one is open")
	}
	r.Advance(link.ReconnectLife - 5*time.Minute)
	second, other := reconnect()
	if second.ID == first.ID || other == token {
		t.Error("a session that is about to end was used")
	}
	if _, err := r.Exit(t.Context(), r.org.ID, second.ID, second.Openings()); err != nil {
		t.Fatal(err)
	}
	if third, _ := reconnect(); third.ID == second.ID {
		t.Error("a session that has ended was used")
	}
}
