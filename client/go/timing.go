package stagedoor

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

// timing decides when to retry. Tests use one that does not wait.
type timing struct {
	sleep func(ctx context.Context, d time.Duration) error
	// jitter returns a random number from 0 to 1.
	jitter func() float64
	// silence is how long a stream may be silent before the client reconnects. The service sends a heartbeat every 15 s.
	silence time.Duration
}

var realTiming = timing{sleep: sleep, jitter: rand.Float64, silence: 45 * time.Second}

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

// retryAfter returns how long to wait before a retry, and whether to retry at all. Only safe calls are retried if the
// first request may have arrived.
func (p timing) retryAfter(err error, try int, safe bool) (time.Duration, bool) {
	var problem *Problem
	if !errors.As(err, &problem) {
		var broken *ConnectionError
		return p.backoff(try), safe && errors.As(err, &broken) && !errors.Is(err, context.Canceled)
	}
	wait := time.Duration(problem.RetryAfterSec) * time.Second
	if problem.RetryAfterSec == 0 {
		wait = p.backoff(try)
	}
	return wait, problem.mayRetry(safe) && wait <= maxRetryDelay
}

// mayRetry reports whether the same request may succeed later. A response without a code came from something in
// between, such as a load balancer, and counts as no response.
func (p *Problem) mayRetry(safe bool) bool {
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

// backoff returns half a second, doubled with every try, minus a random part of up to half.
func (p timing) backoff(try int) time.Duration {
	d := 500 * time.Millisecond << min(try, 6)
	return d/2 + time.Duration(p.jitter()*float64(d)/2)
}
