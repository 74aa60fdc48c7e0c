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
	reads  = "me.get"
	lists  = "fans.list"
	writes = "messages.send"
	sends  = `{"chatId":"1","text":"hello"}`
)

// What is sent a second time: reads, once, if the failure may be over in a moment. What the caller is told is the last of it.
func TestOnlyWhatIsSafeIsSentAgain(t *testing.T) {
	t.Parallel()
	broken := problem.UpstreamUnavailable.New("The connection broke.")
	for name, c := range map[string]struct {
		method, args string
		errs         []error
		requests     int
		code         string
	}{
		"a good read":               {reads, "", []error{nil}, 1, ""},
		"a read, broken once":       {reads, "", []error{broken, nil}, 2, ""},
		"a read, broken twice":      {reads, "", []error{broken, broken, nil}, 2, "upstream/unavailable"},
		"a read, bad gateway":       {reads, "", []error{refused(catalog.RefusedError, http.StatusBadGateway, 0), nil}, 2, ""},
		"a read, 500":               {reads, "", []error{refused(catalog.RefusedError, http.StatusInternalServerError, 0), nil}, 1, "upstream/error"},
		"a read, told to wait":      {reads, "", []error{refused(catalog.RefusedUnavailable, http.StatusServiceUnavailable, time.Second), nil}, 1, "upstream/unavailable"},
		"a read, too many":          {reads, "", []error{refused(catalog.RefusedRateLimited, http.StatusTooManyRequests, time.Second), nil}, 1, "upstream/rate-limited"},
		"a read, timed out":         {reads, "", []error{problem.UpstreamTimeout.New("late"), nil}, 1, "upstream/timeout"},
		"a write, broken":           {writes, sends, []error{broken, nil}, 1, "upstream/unavailable"},
		"a write, bad gateway":      {writes, sends, []error{refused(catalog.RefusedError, http.StatusBadGateway, 0), nil}, 1, "upstream/error"},
		"a write, rejected":         {writes, sends, []error{refused(catalog.RefusedRejected, http.StatusBadRequest, 0)}, 1, "upstream/rejected"},
		"a read of nothing":         {reads, "", []error{refused(catalog.RefusedNotFound, http.StatusNotFound, 0)}, 1, "upstream/not-found"},
		"a session refused once":    {writes, sends, []error{refused(catalog.RefusedSession, http.StatusUnauthorized, 0), nil}, 2, ""},
		"a session refused for one": {reads, "", []error{refused(catalog.RefusedSession, http.StatusUnauthorized, 0), refused(catalog.RefusedSession, http.StatusUnauthorized, 0)}, 2, "upstream/forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
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

// A session that is dead is told as what the account has become.
func TestADeadSessionIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.alive = false
	r.answer = func(context.Context, int, *catalog.Method) (driver.Answer, error) {
		return driver.Answer{}, refused(catalog.RefusedSession, http.StatusUnauthorized, 0)
	}
	_, err := r.do(t.Context(), call(t, writes, sends))
	if !errors.Is(err, errGone) || r.requests() != 1 || r.confirms != 1 {
		t.Errorf("%v after %d requests and %d looks", err, r.requests(), r.confirms)
	}
}

// Repetitions are kept to a tenth of the calls, so that a platform in trouble is not asked twice as much.
func TestRepetitionsHaveABudget(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.answer = func(context.Context, int, *catalog.Method) (driver.Answer, error) {
		return driver.Answer{}, problem.UpstreamUnavailable.New("down")
	}
	const calls = 400
	one := call(t, reads, "")
	for range calls {
		_, _ = r.do(t.Context(), one) // the account is one, so no breaker opens
	}
	if more := r.requests() - calls; more < calls/20 || more > calls/10+11 {
		t.Errorf("%d repetitions of %d calls", more, calls)
	}
}

// What a call tells of the account: what the platform objects to in the call proves the session.
func TestWhatACallTellsOfTheAccount(t *testing.T) {
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
		r := newRig(t)
		r.answer = func(context.Context, int, *catalog.Method) (driver.Answer, error) { return driver.Answer{}, c.err }
		_, _ = r.do(t.Context(), call(t, writes, sends))
		if len(r.learnt) != c.learnt || c.learnt == 1 && (r.learnt[0] == nil) != c.good {
			t.Errorf("%s: learnt %v", name, r.learnt)
		}
	}
}

// Cookies that an answer changed are stored before anybody sees the answer, also when the answer is a refusal.
func TestRotationsAreStoredFirst(t *testing.T) {
	t.Parallel()
	for _, err := range []error{nil, refused(catalog.RefusedConflict, http.StatusConflict, 0)} {
		r := newRig(t)
		r.answer = func(context.Context, int, *catalog.Method) (driver.Answer, error) {
			return driver.Answer{Result: []byte("1"), Changed: []string{"sess"}}, err
		}
		_, _ = r.do(t.Context(), call(t, writes, sends))
		if len(r.stored) != 1 || r.stored[0][0] != "sess" {
			t.Errorf("stored %v", r.stored)
		}
	}
}

// A pause that the platform asks for is passed on as long as it says, or longer each time if it does not say.
func TestPausesArePassedOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	asked := []time.Duration{7 * time.Second, 0, 0, 0, time.Hour, time.Millisecond}
	want := []time.Duration{7 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 15 * time.Minute, time.Second}
	one := call(t, reads, "")
	for i := range asked {
		r.answer = func(context.Context, int, *catalog.Method) (driver.Answer, error) {
			return driver.Answer{}, refused(catalog.RefusedRateLimited, http.StatusTooManyRequests, asked[i])
		}
		_, err := r.do(t.Context(), one)
		p := problem.Of(err)
		pause := r.pauses[i]
		if pause < want[i] || pause > want[i]*11/10+time.Millisecond {
			t.Errorf("pause %d is %s, want %s and a tenth at most", i, pause, want[i])
		}
		if got := time.Duration(p.RetryAfter) * time.Second; got < pause || got > pause+time.Second {
			t.Errorf("the caller is told %s of %s", got, pause)
		}
		text, _ := p.Document(problem.Place{})
		if !strings.Contains(string(text), `"upstreamCode":7`) || !p.Retryable() {
			t.Errorf("the caller is told %s", text)
		}
	}
}

// Who goes away breaks a read off, and not a write: its outcome must be known.
func TestWhoGoesAway(t *testing.T) {
	t.Parallel()
	for name, finished := range map[string]bool{reads: false, writes: true} {
		r := newRig(t)
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
			if name == writes {
				args = sends
			}
			ctx, leave := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, leave)
			_, _ = r.do(ctx, call(t, name, args))
			if got := <-done; got != finished {
				t.Errorf("%s: finished is %v", name, got)
			}
			if !finished && len(r.learnt) > 0 {
				t.Errorf("a call that was given up told %v of the account", r.learnt)
			}
		})
	}
}

// A platform that does not answer at all ends a write too.
func TestNothingTakesForEver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		r.answer = func(ctx context.Context, _ int, _ *catalog.Method) (driver.Answer, error) {
			<-ctx.Done()
			return driver.Answer{}, problem.UpstreamTimeout.New("late").Because(context.Cause(ctx))
		}
		began := time.Now()
		_, err := r.do(t.Context(), call(t, writes, sends))
		if took := time.Since(began); took > 61*time.Second || problem.Of(err).Kind.Code != "upstream/timeout" {
			t.Errorf("%v after %s", err, took)
		}
		if len(r.learnt) != 1 {
			t.Error("a timeout of ours is trouble, and nothing was learnt of it")
		}
	})
}

// Bytes are counted with every request that was sent.
func TestBytesAreCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.answer = func(_ context.Context, n int, _ *catalog.Method) (driver.Answer, error) {
		if n == 1 {
			return driver.Answer{Sent: 5, Received: 7}, problem.UpstreamUnavailable.New("broke")
		}
		return driver.Answer{Sent: 5, Received: 100, Result: []byte("1")}, nil
	}
	if _, err := r.do(t.Context(), call(t, reads, "")); err != nil {
		t.Fatal(err)
	}
	if r.bytes != 117 {
		t.Errorf("%d bytes", r.bytes)
	}
}
