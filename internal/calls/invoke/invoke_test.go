package invoke_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

const (
	readMethod  = "me.get"
	listMethod  = "fans.list"
	writeMethod = "messages.send"
	sendArgs    = `{"chatId":"1","text":"hello"}`
)

// Only reads are retried, once, and only after a transient failure. The caller gets the last result. A refused
// session is renewed for writes too.
func TestOnlySafeCallsAreRetried(t *testing.T) {
	t.Parallel()
	broken := problem.UpstreamUnavailable.New("The connection broke.")
	for name, c := range map[string]struct {
		method, args string
		errs         []error
		requests     int
		code         string
	}{
		"a good read":               {readMethod, "", []error{nil}, 1, ""},
		"a read, broken once":       {readMethod, "", []error{broken, nil}, 2, ""},
		"a read, broken twice":      {readMethod, "", []error{broken, broken, nil}, 2, "upstream/unavailable"},
		"a read, bad gateway":       {readMethod, "", []error{refused(catalog.RefusedError, http.StatusBadGateway, 0), nil}, 2, ""},
		"a read, 500":               {readMethod, "", []error{refused(catalog.RefusedError, http.StatusInternalServerError, 0), nil}, 1, "upstream/error"},
		"a read, told to wait":      {readMethod, "", []error{refused(catalog.RefusedUnavailable, http.StatusServiceUnavailable, time.Second), nil}, 1, "upstream/unavailable"},
		"a read, too many":          {readMethod, "", []error{refused(catalog.RefusedRateLimited, http.StatusTooManyRequests, time.Second), nil}, 1, "upstream/rate-limited"},
		"a read, timed out":         {readMethod, "", []error{problem.UpstreamTimeout.New("late"), nil}, 1, "upstream/timeout"},
		"a write, broken":           {writeMethod, sendArgs, []error{broken, nil}, 1, "upstream/unavailable"},
		"a write, bad gateway":      {writeMethod, sendArgs, []error{refused(catalog.RefusedError, http.StatusBadGateway, 0), nil}, 1, "upstream/error"},
		"a write, rejected":         {writeMethod, sendArgs, []error{refused(catalog.RefusedRejected, http.StatusBadRequest, 0)}, 1, "upstream/rejected"},
		"a read of nothing":         {readMethod, "", []error{refused(catalog.RefusedNotFound, http.StatusNotFound, 0)}, 1, "upstream/not-found"},
		"a session refused once":    {writeMethod, sendArgs, []error{refused(catalog.RefusedSession, http.StatusUnauthorized, 0), nil}, 2, ""},
		"a session refused for one": {readMethod, "", []error{refused(catalog.RefusedSession, http.StatusUnauthorized, 0), refused(catalog.RefusedSession, http.StatusUnauthorized, 0)}, 2, "upstream/forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t)
			r.answer = func(_ context.Context, n int, _ *catalog.Method) (driver.Answer, error) {
				return driver.Answer{Result: []byte("1")}, c.errs[n-1]
			}
			a, err := r.do(t.Context(), call(t, c.method, c.args))
			code := ""
			if err != nil {
				code = problem.Of(err).Kind.Code
			}
			if r.requests() != c.requests || code != c.code {
				t.Errorf("%d requests and %q (%v), want %d and %q", r.requests(), code, err, c.requests, c.code)
			}
			if a.State != account.Active {
				t.Errorf("the state is %q", a.State)
			}
		})
	}
}

// If the session has ended, the caller gets the new state of the account, without a retry.
func TestDeadSessionIsNotRetried(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.alive = false
	r.answer = func(context.Context, int, *catalog.Method) (driver.Answer, error) {
		return driver.Answer{}, refused(catalog.RefusedSession, http.StatusUnauthorized, 0)
	}
	_, err := r.do(t.Context(), call(t, writeMethod, sendArgs))
	if !errors.Is(err, errGone) || r.requests() != 1 || r.confirms != 1 {
		t.Errorf("%v after %d requests and %d checks", err, r.requests(), r.confirms)
	}
}

// Retries are limited to about a tenth of the calls.
func TestRetriesHaveABudget(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.answer = func(context.Context, int, *catalog.Method) (driver.Answer, error) {
		return driver.Answer{}, problem.UpstreamUnavailable.New("down")
	}
	const calls = 400
	one := call(t, readMethod, "")
	for range calls {
		_, _ = r.do(t.Context(), one) // one account only, so no breaker opens
	}
	if more := r.requests() - calls; more < calls/20 || more > calls/10+11 {
		t.Errorf("%d retries of %d calls", more, calls)
	}
}

// A refusal of the call itself proves that the session works; failures of the platform and the account are reported.
func TestCallsReportTheHealthOfTheAccount(t *testing.T) {
	t.Parallel()
	down := problem.UpstreamTimeout.New("late")
	for name, c := range map[string]struct {
		err    error
		learnt int
		good   bool
	}{
		"success":   {nil, 1, true},
		"not found": {refused(catalog.RefusedNotFound, http.StatusNotFound, 0), 1, true},
		"conflict":  {refused(catalog.RefusedConflict, http.StatusConflict, 0), 1, true},
		"error":     {refused(catalog.RefusedError, http.StatusInternalServerError, 0), 1, false},
		"banned":    {refused(catalog.RefusedRestricted, http.StatusForbidden, 0), 1, false},
		"timeout":   {down, 1, false},
		"too many":  {refused(catalog.RefusedRateLimited, http.StatusTooManyRequests, 0), 0, false},
	} {
		r := newFixture(t)
		r.answer = func(context.Context, int, *catalog.Method) (driver.Answer, error) { return driver.Answer{}, c.err }
		_, _ = r.do(t.Context(), call(t, writeMethod, sendArgs))
		if len(r.learnt) != c.learnt || c.learnt == 1 && (r.learnt[0] == nil) != c.good {
			t.Errorf("%s: learnt %v", name, r.learnt)
		}
	}
}

// Changed cookies are stored before the caller gets the response, also if it is a refusal.
func TestRotatedCookiesAreStoredBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	for _, err := range []error{nil, refused(catalog.RefusedConflict, http.StatusConflict, 0)} {
		r := newFixture(t)
		r.answer = func(context.Context, int, *catalog.Method) (driver.Answer, error) {
			return driver.Answer{Result: []byte("1"), Changed: []string{"sess"}}, err
		}
		_, _ = r.do(t.Context(), call(t, writeMethod, sendArgs))
		if len(r.stored) != 1 || r.stored[0][0] != "sess" {
			t.Errorf("stored %v", r.stored)
		}
	}
}

// A pause is announced for as long as the platform says, within bounds. If it does not say, the pause doubles each
// time.
func TestPausesAreAnnounced(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	asked := []time.Duration{7 * time.Second, 0, 0, 0, time.Hour, time.Millisecond}
	want := []time.Duration{7 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 15 * time.Minute, time.Second}
	one := call(t, readMethod, "")
	for i := range asked {
		r.answer = func(context.Context, int, *catalog.Method) (driver.Answer, error) {
			return driver.Answer{}, refused(catalog.RefusedRateLimited, http.StatusTooManyRequests, asked[i])
		}
		_, err := r.do(t.Context(), one)
		p := problem.Of(err)
		pause := r.pauses[i]
		if pause < want[i] || pause > want[i]*11/10+time.Millisecond {
			t.Errorf("pause %d is %s, want %s and at most a tenth more", i, pause, want[i])
		}
		if got := time.Duration(p.RetryAfter) * time.Second; got < pause || got > pause+time.Second {
			t.Errorf("retryAfter is %s for a pause of %s", got, pause)
		}
		text, _ := p.Document(problem.Place{})
		if !strings.Contains(string(text), `"upstreamCode":7`) || !p.Retryable() {
			t.Errorf("the problem is %s", text)
		}
	}
}

// If the caller goes away, a read is cancelled. A write continues, because its outcome must become known.
func TestACallerWhoGoesAwayCancelsReadsAndNotWrites(t *testing.T) {
	t.Parallel()
	for name, finished := range map[string]bool{readMethod: false, writeMethod: true} {
		r := newFixture(t)
		synctest.Test(t, func(t *testing.T) {
			done := make(chan bool, 1)
			r.answer = func(ctx context.Context, _ int, _ *catalog.Method) (driver.Answer, error) {
				select {
				case <-ctx.Done():
					done <- false
					return driver.Answer{}, context.Cause(ctx)
				case <-time.After(10 * time.Second):
					done <- true
					return driver.Answer{Result: []byte("1")}, nil
				}
			}
			args := ""
			if name == writeMethod {
				args = sendArgs
			}
			ctx, leave := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, leave)
			_, _ = r.do(ctx, call(t, name, args))
			if got := <-done; got != finished {
				t.Errorf("%s: finished is %v", name, got)
			}
			if !finished && len(r.learnt) > 0 {
				t.Errorf("a cancelled call reported %v about the account", r.learnt)
			}
		})
	}
}

// A write to a platform that never responds ends after callTimeout.
func TestWritesAreBoundedInTime(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	synctest.Test(t, func(t *testing.T) {
		r.answer = func(ctx context.Context, _ int, _ *catalog.Method) (driver.Answer, error) {
			<-ctx.Done()
			return driver.Answer{}, problem.UpstreamTimeout.New("late").Because(context.Cause(ctx))
		}
		began := time.Now()
		_, err := r.do(t.Context(), call(t, writeMethod, sendArgs))
		if took := time.Since(began); took > 61*time.Second || problem.Of(err).Kind.Code != "upstream/timeout" {
			t.Errorf("%v after %s", err, took)
		}
		if len(r.learnt) != 1 {
			t.Error("our own timeout was not reported to the account's health")
		}
	})
}

// The bytes of all requests are counted, including retries.
func TestBytesAreCounted(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.answer = func(_ context.Context, n int, _ *catalog.Method) (driver.Answer, error) {
		if n == 1 {
			return driver.Answer{Sent: 5, Received: 7}, problem.UpstreamUnavailable.New("broke")
		}
		return driver.Answer{Sent: 5, Received: 100, Result: []byte("1")}, nil
	}
	if _, err := r.do(t.Context(), call(t, readMethod, "")); err != nil {
		t.Fatal(err)
	}
	if r.bytes != 117 {
		t.Errorf("%d bytes", r.bytes)
	}
}
