package listen

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// line is an account that this node listens to: one socket after the other.
type line struct {
	slot *slot
	l    *Listeners
	ref  account.Ref
	// poked means that the account may be another than it was, refill that the log was lost.
	poked, refill chan struct{}
	// version is the newest of the account that the line knows.
	version atomic.Int64

	// Only the line's own goroutine uses what follows.
	a account.Account
	// state is how the line stands, shown how the account's row says it does.
	state, shown account.ListenerState
	// since is when the line was last up, or began.
	since time.Time
	// lost is from when on events may be missing if they cannot be fetched; zero for an account that nobody has listened to.
	lost  time.Time
	first bool
	tries int
	// reached is the frame up to which all is in the log of this epoch; empty if it is not known.
	reached, epoch string
}

// Why a line does not go on with its socket.
var (
	// errStop means that the account is not to be listened to.
	errStop = errors.New("the account is not listened to")
	// errReopen means that it has another session or leaves by another way.
	errReopen = errors.New("the account has another session or another way")
)

// unable is trouble of our own: it says nothing about the account.
type unable struct{ error }

func (u unable) Unwrap() error { return u.error }

func newLine(s *slot, ref account.Ref) *line {
	return &line{slot: s, l: s.l, ref: ref, poked: make(chan struct{}, 1), refill: make(chan struct{}, 1), first: true, since: s.l.Now()}
}

func (n *line) poke() { signal(n.poked) }

// run listens until the context ends or the account is not to be listened to any more.
func (n *line) run(ctx context.Context) {
	n.stand(account.ListenerConnecting)
	defer n.stand("")
	for ctx.Err() == nil {
		began := n.l.Now()
		up, err := n.session(ctx)
		if now := n.l.Now(); up {
			if n.since, n.lost = now, now; now.Sub(began) >= n.l.Config.Steady {
				n.tries = 0
			}
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errStop):
			if n.stop(ctx) {
				return
			}
		case errors.Is(err, errReopen):
			n.tries = 0
		default:
			n.missed(ctx, up, err)
			if !n.rest(ctx, n.judge(ctx, up, err)) {
				return
			}
		}
	}
}

// stand counts the line where it stands now; nowhere for one that is over.
func (n *line) stand(state account.ListenerState) {
	if n.state != "" {
		n.l.metrics.sockets.WithLabelValues(string(n.state)).Dec()
	}
	if n.state = state; state != "" {
		n.l.metrics.sockets.WithLabelValues(string(state)).Inc()
	}
}

// stop ends the line, unless it was poked meanwhile. The row of an account that has stopped says so already; that of one whose org was
// suspended does not.
func (n *line) stop(ctx context.Context) bool {
	if n.a.Listenable() && n.shown != "" {
		n.show(ctx, account.ListenerOff)
	}
	return n.slot.leave(n)
}

// silence is how long a socket may have been dead before that was noticed.
const silence = time.Minute

// missed notes that there is no socket.
func (n *line) missed(ctx context.Context, up bool, err error) {
	if up {
		n.l.metrics.reconnects.Inc()
		if closed, ok := errors.AsType[*driver.Closed](err); ok && closed.Code < 0 {
			n.lost = n.lost.Add(-silence)
		}
	}
	level := slog.LevelDebug
	if _, ours := errors.AsType[unable](err); ours {
		level = slog.LevelWarn
	}
	n.l.Log.LogAttrs(ctx, level, "socket lost", slog.String("account", string(n.ref.Account)), slog.Bool("was_up", up), slog.Int("tries", n.tries), slog.Any("error", err))
	if up || n.shown == account.ListenerUp || n.shown == account.ListenerDown {
		n.stand(account.ListenerDown)
		n.show(ctx, account.ListenerDown)
	}
}

// show writes down how the listener stands, if the account's row says otherwise.
func (n *line) show(ctx context.Context, state account.ListenerState) {
	if n.shown == state {
		return
	}
	limited, cancel := context.WithTimeout(ctx, ownTimeout)
	defer cancel()
	if err := n.l.Accounts.Listened(limited, n.ref, n.slot.epoch, state); err != nil {
		if ctx.Err() == nil && !errors.Is(err, problem.AccountNotFound.New("")) {
			n.l.Log.LogAttrs(ctx, slog.LevelWarn, "listener not written down", slog.String("account", string(n.ref.Account)), slog.Any("error", err))
		}
		return // the next look at the account shows it
	}
	n.shown = state
}

// ownTimeout bounds what our own database is asked.
const ownTimeout = 5 * time.Second

// judge acts on why there is no socket, and says how long to wait.
func (n *line) judge(ctx context.Context, up bool, err error) time.Duration {
	wait := n.l.Config.backoff(n.tries)
	n.tries++
	if _, ours := errors.AsType[unable](err); ours {
		return wait
	}
	refused, isRefused := errors.AsType[*driver.Refused](err)
	closed, isClosed := errors.AsType[*driver.Closed](err)
	switch {
	case isRefused && refused.Kind == catalog.RefusedSession, isClosed && closed.Session:
		// Whether it is really over is for two looks to say; then the account moves, and pokes us.
		if alive, err := n.l.Health.Confirm(ctx, n.a); err != nil || !alive {
			n.poke()
		}
		return wait
	case isRefused:
		n.l.Health.Learn(ctx, n.a, err)
		return max(wait, refused.RetryAfter)
	case isClosed && up:
		return wait // sockets end
	}
	n.l.Health.Learn(ctx, n.a, err)
	return wait
}

// rest waits before the socket is opened again: no longer than it takes the account to have another session, or to be without a
// listener for too long. false if the line is over.
func (n *line) rest(ctx context.Context, wait time.Duration) bool {
	until := n.l.Now().Add(wait)
	for {
		n.complain(ctx)
		left := until.Sub(n.l.Now())
		if late := n.since.Add(account.ListenerPatience).Sub(n.l.Now()); late > 0 {
			left = min(left, late)
		}
		if left <= 0 {
			return true
		}
		timer := time.NewTimer(left)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		case <-n.poked:
			timer.Stop()
			before := n.a
			switch err := n.look(ctx); {
			case errors.Is(err, errStop):
				if n.stop(ctx) {
					return false
				}
			case err == nil && !n.a.SameWay(before):
				n.tries = 0
				return true
			}
		}
	}
}

var system = audit.By{Kind: audit.ActorSystem, ID: "listener", Label: "listener"}

// complain degrades an account that has had no listener for too long.
func (n *line) complain(ctx context.Context) {
	if n.l.Now().Sub(n.since) < account.ListenerPatience || n.a.State != account.Active && n.a.State != account.Connecting {
		return
	}
	limited, cancel := context.WithTimeout(ctx, ownTimeout)
	defer cancel()
	about := n.a
	a, err := n.l.Accounts.Trigger(limited, system, n.ref.Org, n.ref.Account, account.Cause{
		On: account.Troubled, Reason: account.ReasonListenerDown, About: &about, TroubledAt: &n.since,
	})
	if err != nil {
		if ctx.Err() == nil {
			n.l.Log.LogAttrs(ctx, slog.LevelWarn, "account without a listener not degraded", slog.String("account", string(n.ref.Account)), slog.Any("error", err))
		}
		return
	}
	n.know(a)
}

// know takes over the account as it was read.
func (n *line) know(a account.Account) {
	n.a = a
	n.version.Store(a.SessionVersion)
	n.shown = a.Listener.State
}

// look reads the account again: errStop if it is not to be listened to.
func (n *line) look(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, ownTimeout)
	defer cancel()
	a, err := n.l.Accounts.Get(limited, n.ref.Org, n.ref.Account)
	switch {
	case errors.Is(err, problem.AccountNotFound.New("")):
		return errStop
	case err != nil:
		return unable{err}
	}
	n.know(a)
	if !a.Listenable() || n.l.isSuspended(limited, n.ref.Org) {
		return errStop
	}
	return nil
}

// took notes what is known of the time before this line, when it reads the account for the first time.
func (n *line) took(a account.Account) {
	if !n.first {
		return
	}
	n.first = false
	// When somebody has last been known to listen.
	if since := a.Listener.Since; since != nil {
		n.lost = *since
		if last := a.Listener.LastEventAt; a.Listener.State == account.ListenerUp && last != nil && last.After(*since) {
			n.lost = *last
		}
		if a.Listener.State == account.ListenerDown {
			n.since = *since
		}
	}
}

// jitter spreads what many lines do at once.
func jitter(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return rand.N(most)
}
