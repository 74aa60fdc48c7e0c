package account

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// How often an account is looked at.
const (
	// idleFor is how long an active account may go without a call before it is probed.
	idleFor = 15 * time.Minute
	// troubledFirst doubles with every probe of an account in trouble, up to troubledMost.
	troubledFirst = 30 * time.Second
	troubledMost  = 5 * time.Minute
	restrictedFor = 6 * time.Hour
)

// jitter spreads probes, so that accounts connected together are not probed together.
const jitter = 0.1

// ProbeAfter is how long after now an account in a state is probed next; troubles is how many failures in a row it had. None for a
// state without probes.
func ProbeAfter(s State, troubles int) (after time.Duration, probed bool) {
	switch s {
	case Connecting:
		if troubles == 0 {
			return 0, true
		}
		return spread(suspectAfter), true
	case Active:
		if troubles == 0 {
			return spread(idleFor), true
		}
		return spread(suspectAfter), true
	case Degraded:
		return spread(min(troubledFirst<<min(troubles, 8), troubledMost)), true
	case Restricted:
		return spread(restrictedFor), true
	case Reauthenticating, ReconnectRequired, Paused, Disconnected, Unborn:
	}
	return 0, false
}

// suspectAfter is how soon a failure is looked at again: three of them fit into a minute, so that trouble shows within it.
const suspectAfter = 10 * time.Second

func spread(d time.Duration) time.Duration {
	return d + time.Duration((2*rand.Float64()-1)*jitter*float64(d))
}

// probeAt is when an account that has just come to a state is probed.
func probeAt(s State, now time.Time) *time.Time {
	after, probed := ProbeAfter(s, 0)
	if !probed {
		return nil
	}
	at := now.Add(after)
	return &at
}

// Shards is into how many parts accounts are divided, for those who probe them and those who listen to them: as many nodes can share
// that work. It divides the number of buckets.
const Shards = 64

func shardOf(account id.Account) int16 { return int16(id.Bucket(string(account)) % Shards) }

// Sign-ins with remembered credentials: the n-th within a day waits so long after the one before. A creator must never be locked out
// because we kept trying a password.
var reauthWaits = []time.Duration{0, 15 * time.Minute, 2 * time.Hour}

const reauthWindow = 24 * time.Hour

// lease is who signs in again for an account, and how often that was tried.
type lease struct {
	owner id.Attempt
	until *time.Time
	tries []time.Time
}

func (l lease) held(now time.Time) bool { return l.owner != "" && l.until != nil && l.until.After(now) }

// recent are the tries of the last day.
func (l lease) recent(now time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(l.tries), func(t time.Time) bool { return !t.After(now.Add(-reauthWindow)) })
}

// next is when the account may be signed in again; not ok if the tries are used up.
func (l lease) next(now time.Time) (at time.Time, ok bool) {
	recent := l.recent(now)
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

// NextReauth is when the account may be signed in with its remembered credentials; not ok without credentials or without a try left.
func (a Account) NextReauth(now time.Time) (at time.Time, ok bool) {
	if !a.RememberCredentials {
		return time.Time{}, false
	}
	return a.reauth.next(now)
}

// warnings are how long before a session's end its org is told.
var warnings = []time.Duration{7 * 24 * time.Hour, 24 * time.Hour}

// nextWarning is when an org is told next that a session ends; nil if it has been told all. A session that is always prolonged to just a
// week is no news every time, so the moment must be some way off.
func nextWarning(ends *time.Time, now time.Time) *time.Time {
	if ends == nil {
		return nil
	}
	for _, before := range warnings {
		if at := ends.Add(-before); at.After(now.Add(before / 10)) {
			return &at
		}
	}
	return nil
}
