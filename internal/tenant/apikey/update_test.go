package apikey_test

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// A key with networks may be used from their addresses only, in whatever form the address is given. An unknown address is
// in no network, and a stored network that is not understood allows nothing.
func TestMayComeFrom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		networks []string
		addr     string
		want     bool
	}{
		{nil, "192.0.2.1", true},
		{nil, "", true},
		{[]string{"192.0.2.0/24"}, "192.0.2.255", true},
		{[]string{"192.0.2.0/24"}, "::ffff:192.0.2.1", true},
		{[]string{"192.0.2.0/24"}, "192.0.3.0", false},
		{[]string{"192.0.2.0/24"}, "2001:db8::1", false},
		{[]string{"192.0.2.0/24"}, "", false},
		{[]string{"192.0.2.0/24", "2001:db8::/32"}, "2001:db8::1%eth0", true},
		{[]string{"0.0.0.0/0"}, "::1", false},
		{[]string{}, "192.0.2.1", false},
		{[]string{"anywhere"}, "192.0.2.1", false},
	} {
		a := apikey.Allow{Networks: apikey.ParseStoredNetworks(c.networks)}
		var addr netip.Addr
		if c.addr != "" {
			addr = netip.MustParseAddr(c.addr)
		}
		if got := a.MayComeFrom(addr); got != c.want {
			t.Errorf("%v from %q: %t", c.networks, c.addr, got)
		}
	}
}

// MayComeFrom runs on every call.
func TestMayComeFromDoesNotAllocate(t *testing.T) { //nolint:paralleltest // it counts the allocations of the whole process
	a := apikey.Allow{Networks: apikey.ParseStoredNetworks([]string{"10.0.0.0/8", "2001:db8::/32"})}
	addr := netip.MustParseAddr("2001:db8::1")
	if n := testing.AllocsPerRun(100, func() { a.MayComeFrom(addr) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// mint creates a key and returns its id and secret.
func (f *fixture) mint(t *testing.T, caller *apikey.Principal, d apikey.Draft) (id.Key, string) {
	t.Helper()
	key, plain, err := f.keys.Mint(t.Context(), caller, by, d)
	must.OK(t, err)
	return key.ID, plain.Reveal()
}

// A change of a key advances the epoch of its org, so that every node reads the key again. A change that changes nothing
// does not.
func TestUpdateIsAnnounced(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, first := f.create(t, nil)
	caller, _ := f.verify(t, first)
	key, secret := f.mint(t, caller, apikey.Draft{Label: "x"})
	f.verify(t, secret)
	for i, networks := range [][]string{{"192.0.2.0/24"}, {"192.0.2.0/24"}, nil} {
		before := len(f.announcer.epochs)
		_, err := f.keys.Update(t.Context(), caller, by, string(key), apikey.Patch{Networks: &networks})
		must.OK(t, err)
		if announced := len(f.announcer.epochs) > before; announced != (i != 1) {
			t.Errorf("change %d: announced %t", i, announced)
		}
		if i == 1 {
			continue
		}
		f.keys.Heard(caller.Org.ID, f.announcer.epochs[len(f.announcer.epochs)-1])
		p, _ := f.verify(t, secret)
		if got := p.Key.Allow.NetworkTexts(); !slices.Equal(got, networks) {
			t.Errorf("change %d: %v", i, got)
		}
	}
}

// A replaced key works until the overlap is over, by the database's clock, and never longer than it would have.
func TestRotateEndsTheOldKeyAfterTheOverlap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, first := f.create(t, nil)
	caller, _ := f.verify(t, first)
	databaseTime := func() (now time.Time) {
		must.OK(t, f.db.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&now))
		return now
	}
	soon := f.now.Add(time.Minute).Truncate(time.Microsecond)
	for _, ends := range []*time.Time{nil, &soon} {
		key, old := f.mint(t, caller, apikey.Draft{Label: "x", ExpiresAt: ends})
		from := databaseTime()
		made, err := f.keys.Rotate(t.Context(), caller, by, string(key), time.Hour)
		must.OK(t, err)
		to := databaseTime()
		if ends == nil && (made.Ends.Before(from.Add(time.Hour)) || made.Ends.After(to.Add(time.Hour))) || ends != nil && !made.Ends.Equal(soon) {
			t.Errorf("rotated between %s and %s, it ends at %s", from, to, made.Ends)
		}
		if (made.Key.ExpiresAt == nil) != (ends == nil) || ends != nil && !made.Key.ExpiresAt.Equal(soon) {
			t.Errorf("the new key ends at %v, want %v", made.Key.ExpiresAt, ends)
		}
		start := f.now
		f.keys.Distrust()
		f.now = made.Ends.Add(-time.Millisecond)
		if _, code := f.verify(t, old); code != "" {
			t.Errorf("before the end: %s", code)
		}
		f.now = made.Ends
		if _, code := f.verify(t, old); code != "key-expired" {
			t.Errorf("at the end: %q", code)
		}
		f.now = start
	}
}

// Of concurrent rotations of a key, one succeeds.
func TestAKeyIsRotatedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, first := f.create(t, nil)
	caller, _ := f.verify(t, first)
	key, _ := f.mint(t, caller, apikey.Draft{Label: "x"})
	const tries = 8
	results := make(chan error, tries)
	for range tries {
		go func() {
			_, err := f.keys.Rotate(context.WithoutCancel(t.Context()), caller, by, string(key), time.Hour)
			results <- err
		}()
	}
	succeeded := 0
	for range tries {
		switch err := <-results; {
		case err == nil:
			succeeded++
		case problem.Of(err).Kind.Code != "key-ended":
			t.Error(err)
		}
	}
	if succeeded != 1 {
		t.Errorf("%d rotations succeeded", succeeded)
	}
}

// MintedBy is the person at the beginning of a chain of keys. A person who rotates a key takes it over.
func TestMintedByIsInherited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner, first := f.create(t, nil)
	operators, _ := f.verify(t, first)
	ada, ben := id.New[id.Person](), id.New[id.Person]()
	as := func(person id.Person) *apikey.Principal {
		p := *operators
		p.Key.Person, p.Key.Kind = person, apikey.KindSession
		return &p
	}
	_, root := f.mint(t, as(ada), apikey.Draft{Label: "root"})
	rooted, _ := f.verify(t, root)
	child, _ := f.mint(t, rooted, apikey.Draft{Label: "child"})
	if _, err := f.keys.Rotate(t.Context(), as(ben), by, string(child), time.Hour); err != nil {
		t.Fatal(err)
	}
	list, err := f.keys.List(t.Context(), owner.ID)
	must.OK(t, err)
	want := []id.Person{"", ada, ada, ben}
	if got := postgres.Convert(list, func(k apikey.Key) id.Person { return k.MintedBy }); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
