package connect_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// fakeSites knows every site. The site of a host has the host as its id, and its API is below admin.
type fakeSites struct{}

func (fakeSites) FindSite(_ context.Context, via driver.Via, site string) (driver.Place, error) {
	if via.Region == "" || !strings.HasPrefix(via.Account, "att_") {
		return driver.Place{}, problem.Internal.New("the check has no route of its own")
	}
	host := strings.TrimPrefix(site, "https://")
	return driver.Place{Platform: "tiny", Site: site, Root: "https://admin." + host, SiteID: host, Title: "Maya"}, nil
}

func at(platform, site string) func(*connect.Start) {
	return func(s *connect.Start) { s.Platform, s.Site = platform, site }
}

// connectAt connects a login on a platform and returns the account.
func (r *fixture) connectAt(login, platform, site string) account.Account {
	r.t.Helper()
	f := r.waitFor(r.start(login, "good", at(platform, site)).ID, attempt.Success)
	a, err := r.accounts.Get(r.t.Context(), r.org.ID, id.Account(*f.AccountID))
	must.OK(r.t, err)
	return a
}

// One creator on two platforms, or on two sites, is two accounts. On the same site it is the same account.
func TestAccountBelongsToItsPlace(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{sites: fakeSites{}})
	login := login("ok")
	plain := r.connectAt(login, "", "")
	one := r.connectAt(login, "tiny", "https://one.example.com")
	two := r.connectAt(login, "tiny", "https://two.example.com")
	again := r.connectAt(login, "tiny", "https://one.example.com")
	if plain.ID == one.ID || one.ID == two.ID || one.ID != again.ID || one.UpstreamID != two.UpstreamID {
		t.Fatalf("%s %s %s %s", plain.ID, one.ID, two.ID, again.ID)
	}
	want := driver.Place{Platform: "tiny", Site: "https://one.example.com", Root: "https://admin.one.example.com", SiteID: "one.example.com"}
	if one.Place != want || plain.Place != (driver.Place{Platform: "sandbox"}) {
		t.Errorf("%+v and %+v", one.Place, plain.Place)
	}
	if via := one.Via(); via.Site != want.Root {
		t.Errorf("calls go to %q", via.Site)
	}
	if v := one.View(); v.Platform != "tiny" || v.Site == nil || *v.Site != want.Site || v.Credentials != "session" || plain.View().Site != nil {
		t.Errorf("%+v", v)
	}
	for account, platform := range map[id.Account]string{plain.ID: "sandbox", one.ID: "tiny"} {
		if got, err := r.accounts.PlatformOf(t.Context(), r.org.ID, account); err != nil || got != platform {
			t.Errorf("%s is on %q: %v", account, got, err)
		}
		if _, err := r.accounts.PlatformOf(t.Context(), "org_other", account); problem.Of(err).Kind.Code != problem.AccountNotFound.Code {
			t.Errorf("another org sees where %s is: %v", account, err)
		}
	}
}

// A reconnect uses the account's place, whatever the default is, and cannot move the account.
func TestReconnectStaysAtItsPlace(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{sites: fakeSites{}})
	login := login("ok")
	a := r.connectAt(login, "tiny", "https://one.example.com")
	reconnect := func(platform, site string) func(*connect.Start) {
		return func(s *connect.Start) { s.Account, s.Platform, s.Site = a.ID, platform, site }
	}
	for _, same := range []func(*connect.Start){
		reconnect("", ""), reconnect("tiny", ""), reconnect("", "https://one.example.com/"), reconnect("tiny", "https://One.example.com"),
	} {
		f := r.waitFor(r.start(login, "good", same).ID, attempt.Success)
		if *f.AccountID != string(a.ID) || f.Platform != "tiny" || f.Site == nil || *f.Site != "https://one.example.com" {
			t.Errorf("%s on %s at %v", *f.AccountID, f.Platform, f.Site)
		}
	}
	for pointer, other := range map[string]func(*connect.Start){
		"/platform": reconnect("sandbox", ""), "/site": reconnect("", "https://two.example.com"),
	} {
		_, err := r.tryStart(login, "good", other)
		if p := problem.Of(err); p.Kind.Code != problem.ValidationFailed.Code || p.Fields[0].Pointer != pointer {
			t.Errorf("%s: %v", pointer, err)
		}
	}
}

// Nothing is stored for an attempt whose platform or site is not valid.
func TestPlacesAreChecked(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{sites: fakeSites{}, idle: true})
	for _, c := range []struct{ platform, site, pointer string }{
		{"cows", "", "/platform"}, {"tiny", "", "/site"}, {"", "https://one.example.com", "/site"}, {"sandbox", "https://one.example.com", "/site"},
	} {
		_, err := r.tryStart(login("ok"), "good", at(c.platform, c.site))
		if p := problem.Of(err); p.Kind.Code != problem.ValidationFailed.Code || len(p.Fields) != 1 || p.Fields[0].Pointer != c.pointer {
			t.Errorf("%q %q: %v", c.platform, c.site, err)
		}
	}
	var attempts int
	must.OK(t, r.db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM attempt`).Scan(&attempts))
	if attempts != 0 {
		t.Errorf("%d attempts are stored", attempts)
	}
}
