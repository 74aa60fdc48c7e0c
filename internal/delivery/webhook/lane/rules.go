package lane

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Config holds the delays and limits of deliveries. The zero value is not usable; see Defaults.
type Config struct {
	// Delays are the waits after each failure of an endpoint in a row. The last one repeats.
	Delays []time.Duration
	// EventDelays are the waits between tries of an event that its receiver refuses. After the last one the event
	// becomes a side delivery.
	EventDelays []time.Duration
	// GiveUp is how long an endpoint may fail before its webhook is disabled.
	GiveUp time.Duration
	// NotifyAfter is how long an endpoint must have failed for its recovery to be reported by an event.
	NotifyAfter time.Duration
	// MaxRetryAfter limits the Retry-After of a receiver.
	MaxRetryAfter time.Duration
	// BlockFor and BlockTries are how long and how often the first event must have failed before the one after it is
	// tried.
	BlockFor   time.Duration
	BlockTries int
	// HoldFor is how long the events of an account may hold up the position of an endpoint before they get a row of their own.
	// After a crash, as much is delivered twice at most.
	HoldFor time.Duration
	// Window is how many events of an endpoint may be in memory, without those of accounts that have a row.
	Window int
	// LagAfter is the age of a pending event from which its lane has a row.
	LagAfter time.Duration
	// InMemory and InMemoryBytes limit the events that a lane holds, Page the events of one read.
	InMemory, InMemoryBytes, Page int
	// Permits limits the deliveries in flight on a node, Reads the concurrent reads of the event store.
	Permits, Reads int
	// Lanes is the number of lanes in memory from which idle ones are evicted.
	Lanes int
	// HostStart is the first limit on concurrent deliveries to a host, HostMax the highest.
	HostStart, HostMax int
	// A host counts as down after OpenAfter failures in a row from at least OpenLanes lanes.
	OpenAfter, OpenLanes int
}

// Defaults returns the values that the documentation promises.
func Defaults() Config {
	return Config{
		Delays: []time.Duration{
			5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
		},
		EventDelays: []time.Duration{5 * time.Second, 30 * time.Second},
		GiveUp:      72 * time.Hour, NotifyAfter: time.Hour, MaxRetryAfter: time.Hour,
		BlockFor: 15 * time.Minute, BlockTries: 3, LagAfter: time.Second, HoldFor: 20 * time.Second, Window: 2048,
		InMemory: 64, InMemoryBytes: 1 << 20, Page: 100, Permits: 4000, Reads: 8, Lanes: 100_000,
		HostStart: 16, HostMax: 256, OpenAfter: 5, OpenLanes: 3,
	}
}

// earlyDelays is the number of first delays that jitter reduces to no less than a half.
const earlyDelays = 2

// minDelay is the least that jitter leaves of the later delays.
const minDelay = 5 * time.Second

// Delay returns how long to wait after a number of failures in a row. chance is the random part, in [0,1).
func (c *Config) Delay(failures int, chance float64) time.Duration {
	at := min(max(failures, 1), len(c.Delays)) - 1
	whole := c.Delays[at]
	if at < earlyDelays {
		return whole/2 + time.Duration(chance*float64(whole/2))
	}
	return max(time.Duration(chance*float64(whole)), min(minDelay, whole))
}

// Result is the result of one delivery attempt.
type Result struct {
	// Status is the status of the response; 0 if there was none, and Failure then says why.
	Status  int
	Failure string
	Took    time.Duration
	// RetryAfter is the wait that the receiver asked for; zero if it asked for none.
	RetryAfter time.Duration
	// Aborted means that the service cancelled the attempt, so the result says nothing about the endpoint.
	Aborted bool
}

// Outcome is the class of a result.
type Outcome uint8

// The outcomes.
const (
	// Delivered is a 2xx response.
	Delivered Outcome = iota
	// Down means that the endpoint does not work, whatever it is sent.
	Down
	// Refused means that the endpoint rejects this event.
	Refused
	// Gone means that the receiver wants no more deliveries.
	Gone
	// Aborted means that the service cancelled the attempt.
	Aborted
)

// Classify returns the outcome of a result.
func Classify(r Result) Outcome {
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
	return Down // no response, a redirect, a 5xx
}

// isOverloaded reports whether a result suggests that the host gets too many requests.
func isOverloaded(r Result) bool {
	return r.Status == 0 && !r.Aborted || r.Status == http.StatusTooManyRequests || r.Status == http.StatusServiceUnavailable || r.Status == http.StatusGatewayTimeout
}

// RetryAfter parses the header of that name, which is a number of seconds or a date. It returns at most most, and 0 for
// anything else.
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
