package health

import (
	"errors"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

// result classifies what a probe or a call found. Its values are labels of a metric.
type result string

const (
	good result = "good"
	// dead means that the platform refused the session. Only two in a row count.
	dead       result = "dead"
	restricted result = "restricted"
	// failed means that the platform or the path to it failed, which says nothing about the session.
	failed result = "trouble"
)

// finding is the result of a probe or a call with its details.
type finding struct {
	result result
	reason string
	// wait is the platform's Retry-After.
	wait time.Duration
	// code and message are the platform's error.
	code, message string
}

// classifyError converts the error of a request to the platform; nil is good.
func classifyError(err error) finding {
	if err == nil {
		return finding{result: good}
	}
	if refused, ok := errors.AsType[*driver.Refused](err); ok {
		f := finding{wait: refused.RetryAfter, code: refused.Code, message: refused.Message}
		switch refused.Kind {
		case catalog.RefusedSession:
			f.result, f.reason = dead, account.ReasonSessionExpired
		case catalog.RefusedRestricted:
			f.result, f.reason = restricted, account.ReasonLocked
		case catalog.RefusedRateLimited:
			f.result, f.reason = failed, account.ReasonUpstreamRateLimited
		case catalog.RefusedForbidden, catalog.RefusedCreatorOnly, catalog.RefusedNotFound, catalog.RefusedConflict,
			catalog.RefusedRejected, catalog.RefusedUnavailable, catalog.RefusedError:
			f.result, f.reason = failed, account.ReasonUpstreamUnavailable
		}
		return f
	}
	if errors.Is(err, problem.EgressUnavailable.New("")) {
		return finding{result: failed, reason: account.ReasonEgressDown}
	}
	return finding{result: failed, reason: account.ReasonUpstreamUnavailable}
}

const (
	// maxFailures within failureWindow make an account degraded.
	maxFailures   = 3
	failureWindow = time.Minute
)

// outcome is what to do after a finding: fire the trigger on, or, if it is empty, only record health.
type outcome struct {
	on     account.Trigger
	health account.Health
	// onListenerUp is the trigger to fire when the account's listener is up, if that is all that is missing.
	onListenerUp account.Trigger
}

// listenerWait says whether the account needs its listener in addition to good probes.
type listenerWait struct {
	// listener means that the listener must come up first. After until it is no longer required; zero means no limit.
	listener bool
	until    time.Time
}

// decideOutcome decides what a finding means for an account in its state. The caller has confirmed a dead session with
// a second probe.
func decideOutcome(a account.Account, f finding, w listenerWait, now time.Time) outcome {
	switch f.result {
	case dead:
		return outcome{on: account.SessionLost}
	case restricted:
		if a.State != account.Restricted {
			return outcome{on: account.Banned}
		}
		return outcome{health: withNextProbe(a.State, account.Health{}, f, now)}
	case good:
		return afterSuccess(a, f, w, now)
	case failed:
	}
	return afterFailure(a, f, now)
}

// afterSuccess counts good probes until the account has as many as its state needs, and then lets it become active,
// unless it must still wait for its listener.
func afterSuccess(a account.Account, f finding, w listenerWait, now time.Time) outcome {
	on := account.ProbePassed
	switch a.State {
	case account.Connecting, account.Restricted:
	case account.Degraded:
		on = account.Recovered
	case account.Active, account.Reauthenticating, account.ReconnectRequired, account.Paused, account.Disconnected, account.Unborn:
		return outcome{health: withNextProbe(a.State, account.Health{}, f, now)}
	}
	need := account.SuccessesNeeded(a.State)
	successes := min(a.Health.Successes+1, need)
	switch {
	case successes < need:
		return outcome{health: withNextProbe(a.State, account.Health{Successes: successes}, f, now)}
	case !w.listener:
		return outcome{on: on}
	}
	// No more probes are needed. The account becomes active when the listener comes up (account.RecordListener). Until
	// then it is probed rarely.
	h := account.Health{Successes: successes, ProbeAt: &w.until}
	if w.until.IsZero() {
		h.ProbeAt = withNextProbe(a.State, account.Health{Failures: failuresForMaxInterval}, f, now).ProbeAt
	}
	return outcome{health: h, onListenerUp: on}
}

// failuresForMaxInterval is a number of failures after which account.ProbeAfter returns its longest interval.
const failuresForMaxInterval = 8

// afterFailure counts failures. A failure after failureWindow starts a new count.
func afterFailure(a account.Account, f finding, now time.Time) outcome {
	h := account.Health{Failures: a.Health.Failures + 1, FailingSince: a.Health.FailingSince}
	switch a.State {
	case account.Connecting, account.Active:
		if h.FailingSince == nil || now.Sub(*h.FailingSince) > failureWindow {
			h.Failures, h.FailingSince = 1, &now
		}
		if h.Failures >= maxFailures {
			return outcome{on: account.Failing, health: h}
		}
	case account.Degraded, account.Restricted, account.Reauthenticating, account.ReconnectRequired, account.Paused, account.Disconnected, account.Unborn:
	}
	return outcome{health: withNextProbe(a.State, h, f, now)}
}

// withNextProbe sets the time of the next probe: as the state demands, but not before the platform allows it.
func withNextProbe(s account.State, h account.Health, f finding, now time.Time) account.Health {
	after, probed := account.ProbeAfter(s, h.Failures)
	if !probed {
		return h
	}
	at := now.Add(max(after, f.wait))
	h.ProbeAt = &at
	return h
}
