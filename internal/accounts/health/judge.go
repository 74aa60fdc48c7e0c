package health

import (
	"errors"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

// found is what a probe found.
type found string

const (
	good found = "good"
	// dead is a session that the platform refused; it takes two in a row to believe it.
	dead       found = "dead"
	restricted found = "restricted"
	// trouble is everything that says nothing about the session.
	trouble found = "trouble"
)

// finding is a probe's outcome.
type finding struct {
	found  found
	reason string
	// wait is how long the platform wants to be left alone.
	wait time.Duration
	// code and message are what the platform said.
	code    int
	message string
}

// classify says what an answer of the platform's means for the account.
func classify(err error) finding {
	if err == nil {
		return finding{found: good}
	}
	if refused, ok := errors.AsType[*driver.Refused](err); ok {
		f := finding{wait: refused.RetryAfter, code: refused.Code, message: refused.Message}
		switch refused.Kind {
		case catalog.RefusedSession:
			f.found, f.reason = dead, account.ReasonSessionExpired
		case catalog.RefusedRestricted:
			f.found, f.reason = restricted, account.ReasonLocked
		case catalog.RefusedRateLimited:
			f.found, f.reason = trouble, account.ReasonUpstreamRateLimited
		case catalog.RefusedForbidden, catalog.RefusedCreatorOnly, catalog.RefusedNotFound, catalog.RefusedConflict,
			catalog.RefusedRejected, catalog.RefusedUnavailable, catalog.RefusedError:
			f.found, f.reason = trouble, account.ReasonUpstreamUnavailable
		}
		return f
	}
	if errors.Is(err, problem.EgressUnavailable.New("")) {
		return finding{found: trouble, reason: account.ReasonEgressDown}
	}
	return finding{found: trouble, reason: account.ReasonUpstreamUnavailable}
}

const (
	// troublesMax failures within troubleWindow are trouble that others should know of.
	troublesMax   = 3
	troubleWindow = time.Minute
)

// verdict is what a finding does: a trigger, or a look at another time.
type verdict struct {
	on     account.Trigger
	health account.Health
	// once is the trigger for when the account's listener is up; it is all that is missing.
	once account.Trigger
}

// awaited is what an account needs besides good probes.
type awaited struct {
	// listener means that its listener must come up, until when at most; the zero time is as long as it takes.
	listener bool
	until    time.Time
}

// decide judges a finding about an account in its state. A session that was found dead has been confirmed.
func decide(a account.Account, f finding, w awaited, now time.Time) verdict {
	switch f.found {
	case dead:
		return verdict{on: account.SessionLost}
	case restricted:
		if a.State != account.Restricted {
			return verdict{on: account.Banned}
		}
		return verdict{health: next(a.State, account.Health{}, f, now)}
	case good:
		return praise(a, f, w, now)
	case trouble:
	}
	return blame(a, f, now)
}

func praise(a account.Account, f finding, w awaited, now time.Time) verdict {
	on := account.Proved
	switch a.State {
	case account.Connecting, account.Restricted:
	case account.Degraded:
		on = account.Steadied
	case account.Active, account.Reauthenticating, account.ReconnectRequired, account.Paused, account.Disconnected, account.Unborn:
		return verdict{health: next(a.State, account.Health{}, f, now)}
	}
	need := account.GoodsNeeded(a.State)
	goods := min(a.Health.Goods+1, need)
	switch {
	case goods < need:
		return verdict{health: next(a.State, account.Health{Goods: goods}, f, now)}
	case !w.listener:
		return verdict{on: on}
	}
	// The session needs no more probes for this; the listener tells when it is up.
	h := account.Health{Goods: goods, ProbeAt: &w.until}
	if w.until.IsZero() {
		h.ProbeAt = next(a.State, account.Health{Troubles: manyTroubles}, f, now).ProbeAt
	}
	return verdict{health: h, once: on}
}

// manyTroubles is where an account in trouble is looked at as seldom as ever.
const manyTroubles = 8

func blame(a account.Account, f finding, now time.Time) verdict {
	h := account.Health{Troubles: a.Health.Troubles + 1, TroubledAt: a.Health.TroubledAt}
	switch a.State {
	case account.Connecting, account.Active:
		if h.TroubledAt == nil || now.Sub(*h.TroubledAt) > troubleWindow {
			h.Troubles, h.TroubledAt = 1, &now
		}
		if h.Troubles >= troublesMax {
			return verdict{on: account.Troubled, health: h}
		}
	case account.Degraded, account.Restricted, account.Reauthenticating, account.ReconnectRequired, account.Paused, account.Disconnected, account.Unborn:
	}
	return verdict{health: next(a.State, h, f, now)}
}

// next adds when the account is looked at again: as its state says, and not before the platform wants it.
func next(s account.State, h account.Health, f finding, now time.Time) account.Health {
	after, probed := account.ProbeAfter(s, h.Troubles)
	if !probed {
		return h
	}
	at := now.Add(max(after, f.wait))
	h.ProbeAt = &at
	return h
}
