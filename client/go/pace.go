package stagedoor

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

// pace says when to try again. Tests have one that does not really wait.
type pace struct {
	sleep func(ctx context.Context, d time.Duration) error
	// jitter is a number from 0 to 1.
	jitter func() float64
	// silence is how long a stream may say nothing; the service sends a heartbeat every 15 seconds.
	silence time.Duration
}

var realPace = pace{sleep: sleep, jitter: rand.Float64, silence: 45 * time.Second}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// after says whether an error goes away by itself, and how long to wait. Safe calls may also be repeated where nobody
// knows whether the first one arrived.
func (p pace) after(err error, try int, safe bool) (time.Duration, bool) {
	var problem *Problem
	if !errors.As(err, &problem) {
		var broken *ConnectionError
		return p.backoff(try), safe && errors.As(err, &broken) && !errors.Is(err, context.Canceled)
	}
	wait := time.Duration(problem.RetryAfterSec) * time.Second
	if problem.RetryAfterSec == 0 {
		wait = p.backoff(try)
	}
	return wait, problem.again(safe) && wait <= longestWait
}

// again says whether the same request may succeed later. What is not a problem of ours came from something in between,
// such as a load balancer; it is like no answer.
func (p *Problem) again(safe bool) bool {
	if p.Status == http.StatusGone {
		return false
	}
	if p.Code == "" {
		return safe && (p.Status == http.StatusBadGateway || p.Status == http.StatusServiceUnavailable || p.Status == http.StatusGatewayTimeout)
	}
	return p.Retryable && !p.inDoubt()
}

// inDoubt reports whether the server may have carried out the change. Such a call must not be sent again, even if the
// problem is retryable.
func (p *Problem) inDoubt() bool {
	var outcome string
	return p.Member("outcome", &outcome) && outcome == "unknown"
}

// backoff is half a second, doubled with every try, of which up to half is left to chance.
func (p pace) backoff(try int) time.Duration {
	d := 500 * time.Millisecond << min(try, 6)
	return d/2 + time.Duration(p.jitter()*float64(d)/2)
}
