package lane

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Config are the times and bounds. The zero value is not usable; see Defaults.
type Config struct {
	// Delays are those between an endpoint's failures; the last one is repeated.
	Delays []time.Duration
	// EventDelays are those between the tries of an event that its receiver refuses; then it goes to the side.
	EventDelays []time.Duration
	// GiveUp is how long an endpoint fails until it is disabled.
	GiveUp time.Duration
	// TellAfter is how long an endpoint fails until its recovery is worth an event.
	TellAfter time.Duration
	// MaxRetryAfter bounds what a receiver may ask for.
	MaxRetryAfter time.Duration
	// BlockFor is how long a first event may fail, and BlockTries how often, until the one behind it is tried.
	BlockFor   time.Duration
	BlockTries int
	// LagAfter is how old an event gets until its lane has a row of its own.
	LagAfter time.Duration
	// InMemory and InMemoryBytes bound the events that a lane holds, Page what it reads at once.
	InMemory, InMemoryBytes, Page int
	// Slots is how many events are under way on a node, Reads how many lanes read the store at once.
	Slots, Reads int
	// Lanes is how many idle lanes are remembered.
	Lanes int
	// HostStart and HostMost bound what is under way to one host.
	HostStart, HostMost int
	// OpenAfter failures in a row, of at least OpenLanes lanes, mean that a host is down.
	OpenAfter, OpenLanes int
}

// Defaults are the promises of the documentation.
func Defaults() Config {
	return Config{
		Delays: []time.Duration{
			5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
		},
		EventDelays: []time.Duration{5 * time.Second, 30 * time.Second},
		GiveUp:      72 * time.Hour, TellAfter: time.Hour, MaxRetryAfter: time.Hour, BlockFor: 15 * time.Minute, BlockTries: 3, LagAfter: time.Second,
		InMemory: 64, InMemoryBytes: 1 << 20, Page: 100, Slots: 4000, Reads: 8, Lanes: 100_000, HostStart: 16, HostMost: 256, OpenAfter: 5, OpenLanes: 3,
	}
}

// gentle is how many of the first delays are never cut below their half.
const gentle = 2

// shortest is the least delay that jitter may make of the later ones.
const shortest = 5 * time.Second

// Delay is how long to wait after so many failures in a row. chance is in [0,1).
func (c *Config) Delay(failures int, chance float64) time.Duration {
	at := min(max(failures, 1), len(c.Delays)) - 1
	whole := c.Delays[at]
	if at < gentle {
		return whole/2 + time.Duration(chance*float64(whole/2))
	}
	return max(time.Duration(chance*float64(whole)), min(shortest, whole))
}

// Result is how a delivery went.
type Result struct {
	// Status is the answer's; 0 if there was none, and then Failure says why.
	Status  int
	Failure string
	Took    time.Duration
	// RetryAfter is what the receiver asked for; zero for nothing.
	RetryAfter time.Duration
	// Aborted means that we broke it off: it says nothing of the endpoint.
	Aborted bool
}

// Verdict is what a result means.
type Verdict uint8

// The verdicts.
const (
	// Delivered is a 2xx.
	Delivered Verdict = iota
	// Down means that the endpoint does not work, whatever it is sent.
	Down
	// Refused means that it does not like this event.
	Refused
	// Gone means that it shall not be tried again.
	Gone
	// Broken off by ourselves.
	Aborted
)

// Judge says what a result means.
func Judge(r Result) Verdict {
	switch s := r.Status; {
	case r.Aborted:
		return Aborted
	case s >= 200 && s < 300:
		return Delivered
	case s == http.StatusGone:
		return Gone
	case s == http.StatusRequestTimeout, s == http.StatusTooEarly, s == http.StatusTooManyRequests,
		s == http.StatusUnauthorized, s == http.StatusForbidden, s == http.StatusNotFound, s == http.StatusMethodNotAllowed, s == http.StatusProxyAuthRequired:
		return Down
	case s >= 400 && s < 500:
		return Refused
	}
	return Down // no answer, a redirect, a 5xx
}

// crowded says whether a result means that the host has too much to do.
func crowded(r Result) bool {
	return r.Status == 0 && !r.Aborted || r.Status == http.StatusTooManyRequests || r.Status == http.StatusServiceUnavailable || r.Status == http.StatusGatewayTimeout
}

// RetryAfter reads the header of that name: seconds, or a date. Anything else is nothing.
func RetryAfter(text string, now time.Time, most time.Duration) time.Duration {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > 64 {
		return 0
	}
	if strings.Trim(text, "0123456789") == "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n > int64(most/time.Second) {
			return most
		}
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), most)
}
