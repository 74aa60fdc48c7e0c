package listen

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// listener keeps the socket of one account open: it runs one session after the other.
type listener struct {
	shard *shardListener
	l     *Listeners
	ref   account.Ref
	// changed is signalled when the account may have changed, refill when the log was lost.
	changed, refill chan struct{}
	// version is the newest session version of the account that the listener has read.
	version atomic.Int64

	// Only the listener's own goroutine uses the fields below.

	a account.Account
	// state is the state of the listener, written the state in the account's row.
	state, written account.ListenerState
	// lastUp is when the listener was last up, or started.
	lastUp time.Time
	// gapFrom is the time from which events may be missing if they cannot be fetched; zero for an account that never had
	// a listener.
	gapFrom time.Time
	isFirst bool // no session has been tried yet
	tries   int
	// resumeFrom is the frame up to which everything is in the log with this epoch; empty if unknown.
	resumeFrom, epoch string
}

// Reasons why a session ends although its socket is fine.
var (
	// errStop means that the account should not have a listener.
	errStop = errors.New("the account should not have a listener")
	// errReopen means that the account has another session or region and needs a new socket.
	errReopen = errors.New("the account has another session or region")
)

// internalError is a failure on our side, which says nothing about the account.
type internalError struct{ error }

func (u internalError) Unwrap() error { return u.error }

func newListener(s *shardListener, ref account.Ref) *listener {
	return &listener{shard: s, l: s.l, ref: ref, changed: make(chan struct{}, 1), refill: make(chan struct{}, 1),
		isFirst: true, lastUp: s.l.deps.Now()}
}

func (n *listener) notifyChanged() { signal(n.changed) }

// run listens until ctx ends or the account should no longer have a listener.
func (n *listener) run(ctx context.Context) {
	n.setState(account.ListenerConnecting)
	defer n.setState("")
	for ctx.Err() == nil {
		began := n.l.deps.Now()
		up, err := n.session(ctx)
		if now := n.l.deps.Now(); up {
			if n.lastUp, n.gapFrom = now, now; now.Sub(began) >= n.l.deps.Config.Steady {
				n.tries = 0
			}
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errStop):
			if n.tryStop(ctx) {
				return
			}
		case errors.Is(err, errReopen):
			n.tries = 0
		default:
			n.recordLoss(ctx, up, err)
			if !n.waitBeforeRetry(ctx, n.handleFailure(ctx, up, err)) {
				return
			}
		}
	}
}

// setState sets the state and updates the metric; an empty state means that the listener has ended.
func (n *listener) setState(state account.ListenerState) {
	if n.state != "" {
		n.l.metrics.sockets.WithLabelValues(string(n.state)).Dec()
	}
	if n.state = state; state != "" {
		n.l.metrics.sockets.WithLabelValues(string(state)).Inc()
	}
}

// tryStop stops the listener and reports whether it did; false if the account has changed again. A change of the
// account's state has already set its listener to off, but a suspension of the org has not.
func (n *listener) tryStop(ctx context.Context) bool {
	if n.a.Listenable() && n.written != "" {
		n.writeState(ctx, account.ListenerOff)
	}
	return n.shard.remove(n)
}

// maxSilence bounds how long a dead socket may go unnoticed.
const maxSilence = time.Minute

// recordLoss records that a socket was lost or could not be opened.
func (n *listener) recordLoss(ctx context.Context, up bool, err error) {
	if up {
		n.l.metrics.reconnects.Inc()
		if closed, ok := errors.AsType[*driver.Closed](err); ok && closed.Code < 0 {
			n.gapFrom = n.gapFrom.Add(-maxSilence)
		}
	}
	level := slog.LevelDebug
	if _, ours := errors.AsType[internalError](err); ours {
		level = slog.LevelWarn
	}
	n.l.deps.Log.LogAttrs(ctx, level, "socket lost", slog.String(logkey.Account, string(n.ref.Account)), slog.Bool(logkey.WasUp, up), slog.Int(logkey.Tries, n.tries), slog.Any(logkey.Error, err))
	if up || n.written == account.ListenerUp || n.written == account.ListenerDown {
		n.setState(account.ListenerDown)
		n.writeState(ctx, account.ListenerDown)
	}
}

// writeState writes the listener's state to the account's row if it differs.
func (n *listener) writeState(ctx context.Context, state account.ListenerState) {
	if n.written == state {
		return
	}
	limited, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	if err := n.l.deps.Accounts.RecordListener(limited, n.ref, n.shard.epoch, state); err != nil {
		if ctx.Err() == nil && !errors.Is(err, problem.AccountNotFound.New("")) {
			n.l.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot write listener state", slog.String(logkey.Account, string(n.ref.Account)),
				slog.Any(logkey.Error, err))
		}
		return // the next change or loss tries again
	}
	n.written = state
}

// dbTimeout bounds a query of our own database.
const dbTimeout = 5 * time.Second

// handleFailure acts on the reason why there is no socket, and returns how long to wait before the next try.
func (n *listener) handleFailure(ctx context.Context, up bool, err error) time.Duration {
	wait := n.l.deps.Config.backoff(n.tries)
	n.tries++
	if _, ours := errors.AsType[internalError](err); ours {
		return wait
	}
	refused, isRefused := errors.AsType[*driver.Refused](err)
	closed, isClosed := errors.AsType[*driver.Closed](err)
	switch {
	case isRefused && refused.Kind == catalog.RefusedSession, isClosed && closed.Session:
		// Confirm probes the session before anything changes. If the session is dead, the account has changed.
		if alive, err := n.l.deps.Health.Confirm(ctx, n.a); err != nil || !alive {
			n.notifyChanged()
		}
		return wait
	case isRefused:
		n.l.deps.Health.Learn(ctx, n.a, err)
		return max(wait, refused.RetryAfter)
	case isClosed && up:
		return wait // a normal end of a socket is not a failure
	}
	n.l.deps.Health.Learn(ctx, n.a, err)
	return wait
}

// waitBeforeRetry waits before the socket is reopened, but not longer than until the account has another session or
// region. It degrades the account in time. It returns false if the listener has ended.
func (n *listener) waitBeforeRetry(ctx context.Context, wait time.Duration) bool {
	until := n.l.deps.Now().Add(wait)
	for {
		n.degradeIfDown(ctx)
		left := until.Sub(n.l.deps.Now())
		if late := n.lastUp.Add(account.ListenerPatience).Sub(n.l.deps.Now()); late > 0 {
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
		case <-n.changed:
			timer.Stop()
			before := n.a
			switch err := n.reload(ctx); {
			case errors.Is(err, errStop):
				if n.tryStop(ctx) {
					return false
				}
			case err == nil && !n.a.SameConnection(before):
				n.tries = 0
				return true
			}
		}
	}
}

var system = audit.By{Kind: audit.ActorSystem, ID: "listener", Label: "listener"}

// degradeIfDown degrades an account whose listener has been down for ListenerPatience.
func (n *listener) degradeIfDown(ctx context.Context) {
	if n.l.deps.Now().Sub(n.lastUp) < account.ListenerPatience || n.a.State != account.Active &&
		n.a.State != account.Connecting {
		return
	}
	limited, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	observed := n.a
	a, err := n.l.deps.Accounts.Trigger(limited, system, n.ref.Org, n.ref.Account, account.Cause{
		On: account.Failing, Reason: account.ReasonListenerDown, Observed: &observed, FailingSince: &n.lastUp,
	})
	if err != nil {
		if ctx.Err() == nil {
			n.l.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot degrade account without listener",
				slog.String(logkey.Account, string(n.ref.Account)), slog.Any(logkey.Error, err))
		}
		return
	}
	n.setAccount(a)
}

// setAccount sets the account as it was read.
func (n *listener) setAccount(a account.Account) {
	n.a = a
	n.version.Store(a.SessionVersion)
	n.written = a.Listener.State
}

// reload reads the account. It fails with errStop if the account should not have a listener.
func (n *listener) reload(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	a, err := n.l.deps.Accounts.Get(limited, n.ref.Org, n.ref.Account)
	switch {
	case errors.Is(err, problem.AccountNotFound.New("")):
		return errStop
	case err != nil:
		return internalError{err}
	}
	n.setAccount(a)
	if !a.Listenable() || n.l.isSuspended(limited, n.ref.Org) {
		return errStop
	}
	return nil
}

// initFrom initialises gapFrom and lastUp from the account's row, when the account is read for the first time.
func (n *listener) initFrom(a account.Account) {
	if !n.isFirst {
		return
	}
	n.isFirst = false
	// The last time at which a listener is known to have been up.
	if since := a.Listener.Since; since != nil {
		n.gapFrom = *since
		if last := a.Listener.LastEventAt; a.Listener.State == account.ListenerUp && last != nil && last.After(*since) {
			n.gapFrom = *last
		}
		if a.Listener.State == account.ListenerDown {
			n.lastUp = *since
		}
	}
}

// randomUpTo returns a random duration below most, to spread what many listeners would do at the same time.
func randomUpTo(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return rand.N(most)
}
