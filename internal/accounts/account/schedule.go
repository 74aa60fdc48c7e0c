package account

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// Intervals between probes, by state.
const (
	// activeInterval is how long an active account may go without a call before it is probed.
	activeInterval = 15 * time.Minute
	// degradedMin doubles with every failed probe of a degraded account, up to degradedMax.
	degradedMin        = 30 * time.Second
	degradedMax        = 5 * time.Minute
	restrictedInterval = 6 * time.Hour
)

// jitter is the fraction by which intervals vary, so that accounts connected together are not probed together.
const jitter = 0.1

// ProbeAfter returns the time until the next probe of an account in a state after a number of consecutive failures.
// probed is false for a state without probes.
func ProbeAfter(s State, failures int) (after time.Duration, probed bool) {
	switch s {
	case Connecting:
		if failures == 0 {
			return 0, true
		}
		return addJitter(retryInterval), true
	case Active:
		if failures == 0 {
			return addJitter(activeInterval), true
		}
		return addJitter(retryInterval), true
	case Degraded:
		return addJitter(min(degradedMin<<min(failures, 8), degradedMax)), true
	case Restricted:
		return addJitter(restrictedInterval), true
	case Reauthenticating, ReconnectRequired, Paused, Disconnected, Unborn:
	}
	return 0, false
}

// retryInterval is the time between probes after a failure. Three of them fit into a minute, so that an outage makes
// the account degraded within it.
const retryInterval = 10 * time.Second

func addJitter(d time.Duration) time.Duration {
	return d + time.Duration((2*rand.Float64()-1)*jitter*float64(d))
}

// probeAt returns the time of the first probe in a state; nil for a state without probes.
func probeAt(s State, now time.Time) *time.Time {
	after, probed := ProbeAfter(s, 0)
	if !probed {
		return nil
	}
	at := now.Add(after)
	return &at
}

// Shards is the number of partitions of accounts for probing and listening, and so the number of nodes that can share
// that work. It divides the number of buckets.
const Shards = 64

func shardOf(account id.Account) int16 { return int16(id.Bucket(string(account)) % Shards) }

// reauthWaits[n] is the minimum time between the n-th automatic sign-in of a day and the one before. Its length is the
// maximum per reauthWindow. A creator must never be locked out because we kept trying a password.
var reauthWaits = []time.Duration{0, 15 * time.Minute, 2 * time.Hour}

const reauthWindow = 24 * time.Hour

// lease grants one attempt at a time the right to sign an account in with its remembered credentials.
type lease struct {
	owner id.Attempt
	until *time.Time
	// tries holds when sign-ins began, oldest first; those of more than reauthWindow ago do not count.
	tries []time.Time
}

func (l lease) isHeld(now time.Time) bool {
	return l.owner != "" && l.until != nil && l.until.After(now)
}

// recentTries returns the tries within reauthWindow, in a new slice.
func (l lease) recentTries(now time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(l.tries), func(t time.Time) bool { return !t.After(now.Add(-reauthWindow)) })
}

// nextTry returns when the account may be signed in automatically; ok is false if the tries are used up.
func (l lease) nextTry(now time.Time) (at time.Time, ok bool) {
	recent := l.recentTries(now)
	if len(recent) >= len(reauthWaits) {
		return time.Time{}, false
	}
	if len(recent) == 0 {
		return now, true
	}
	return latest(recent[len(recent)-1].Add(reauthWaits[len(recent)]), now), true
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// NextReauth returns when the account may be signed in automatically with its remembered credentials; ok is false
// without credentials or if the tries are used up.
func (a Account) NextReauth(now time.Time) (at time.Time, ok bool) {
	if !a.RememberCredentials {
		return time.Time{}, false
	}
	return a.reauth.nextTry(now)
}

// warnBefore lists how long before the end of a session its org is warned.
var warnBefore = []time.Duration{7 * 24 * time.Hour, 24 * time.Hour}

// nextWarning returns when to warn next that a session ends; nil if no warning is left. The time must be some way off:
// a platform that extends the session to just over a week with every response must not cause a warning each time.
func nextWarning(ends *time.Time, now time.Time) *time.Time {
	if ends == nil {
		return nil
	}
	for _, before := range warnBefore {
		if at := ends.Add(-before); at.After(now.Add(before / 10)) {
			return &at
		}
	}
	return nil
}
