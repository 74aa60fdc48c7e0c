package listen_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/events/listen"
)

// Two nodes listen to the same accounts at once, because one has not noticed that its leases are gone.
func TestANodeThatDoesNotKnowThatItsLeasesAreGoneChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	frozen := make(chan struct{})
	first := r.node("a", func(d *listen.Deps) { d.Leases = &cutOff{d.Leases, frozen} })
	a, login := r.connect()
	r.up(a)
	r.generate(100, login)
	r.until("events come", func() bool { _, ids := r.stored(a); return len(ids) > 20 })
	close(frozen)
	r.node("b")
	r.until("both listen", func() bool { return r.sockets(login) == 2 })
	before := len(r.sent(login))
	r.happened(before+200, login)
	r.same(a, login, true)
	// The first one loses its socket, and its word that the listener is down is not taken.
	first.stop()
	if got := r.Get(a); got.Listener.State != account.ListenerUp {
		t.Fatal(got.Listener.State)
	}
}

// All that the log has is deleted while events come.
func TestALogThatIsLostIsFilledAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
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
		all, logins = append(all, one{r.up(a), login}), append(logins, login)
	}
	r.generate(40, logins...)
	for i := range 3 {
		r.until("events come", func() bool { _, ids := r.stored(all[0].Account); return len(ids) > 60*(i+1) })
		r.nats.Kill()
		if err := os.RemoveAll(filepath.Join(r.nats.Dir, "jetstream")); err != nil {
			t.Fatal(err)
		}
		r.nats.Start()
		fills := count(t, n, "stagedoor_listener_fills_total")
		r.until("it is filled again", func() bool { return count(t, n, "stagedoor_listener_fills_total") >= fills+6 })
	}
	r.happened(400, logins...)
	for _, o := range all {
		r.same(o.Account, o.login, true)
	}
}
