package listen_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/events/listen"
	"github.com/stagedoor/stagedoor/internal/test/metric"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Two nodes listen to the same accounts concurrently, because one has not noticed that it has lost its leases.
func TestNodeThatHasLostItsLeasesChangesNothing(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	frozen := make(chan struct{})
	first := r.node("a", func(d *listen.Deps) { d.Leases = &frozenLeases{d.Leases, frozen} })
	a, login := r.connect()
	r.waitUp(a)
	r.generate(100, login)
	r.waitFor("events come", func() bool { _, ids := r.stored(a); return len(ids) > 20 })
	close(frozen)
	r.node("b")
	r.waitFor("both listen", func() bool { return r.sockets(login) == 2 })
	before := len(r.sentFrames(login))
	r.waitForFrames(before+200, login)
	r.wantAllStored(a, login, true)
	// The first node loses its socket, and its write that the listener is down is rejected.
	first.stop()
	if got := r.Get(a); got.Listener.State != account.ListenerUp {
		t.Fatal(got.Listener.State)
	}
}

// A node that takes over waits until the store has what the log has: before that it would fetch frames again that are
// in the log.
func TestTakeoverWaitsForTheStore(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	first := r.node("a")
	a, login := r.connect()
	r.waitUp(a)
	first.stop()
	r.waitFor("the socket is closed", func() bool { return r.sockets(login) == 0 })
	var (
		asked   = make(chan struct{}, 3)
		settled atomic.Bool
	)
	r.node("b", func(d *listen.Deps) {
		d.Settled = func(context.Context, int) (bool, error) {
			select {
			case asked <- struct{}{}:
			default:
			}
			return settled.Load(), nil
		}
	})
	for range 3 {
		<-asked
	}
	if r.sockets(login) != 0 {
		t.Fatal("the node listens before the store has settled")
	}
	settled.Store(true)
	r.waitFor("the node listens", func() bool { return r.sockets(login) == 1 })
}

// The contents of the log are deleted while events arrive.
func TestLostLogIsFilledAgain(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	n := r.node("a")
	type one struct {
		account.Account
		login string
	}
	var (
		all    []one
		logins []string
	)
	for range 6 {
		a, login := r.connect()
		all, logins = append(all, one{r.waitUp(a), login}), append(logins, login)
	}
	r.generate(40, logins...)
	for i := range 3 {
		r.waitFor("events come", func() bool { _, ids := r.stored(all[0].Account); return len(ids) > 60*(i+1) })
		r.nats.Kill()
		must.OK(t, os.RemoveAll(filepath.Join(r.nats.Dir, "jetstream")))
		r.nats.Start()
		fills := metric.Value(t, n.registry, "stagedoor_listener_fills_total")
		r.waitFor("it is filled again", func() bool {
			return metric.Value(t, n.registry, "stagedoor_listener_fills_total") >= fills+6
		})
	}
	r.waitForFrames(400, logins...)
	for _, o := range all {
		r.wantAllStored(o.Account, o.login, true)
	}
}
