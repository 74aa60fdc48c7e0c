package invoke

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// attempt is one call in progress, with all of its requests.
type attempt struct {
	*Invoker
	call    Call
	driver  driver.Driver
	account account.Account
	session driver.Session
	answer  driver.Answer

	// took, sent and received are the sums over all requests.
	took           time.Duration
	sent, received int
}

// sendWithRetry sends the call, and sends it once more if that is safe and may help.
func (t *attempt) sendWithRetry(ctx context.Context) error {
	t.budget.deposit()
	err := t.sendOnce(ctx)
	switch {
	case isSessionRefused(err):
		// A platform that refuses the session has not processed the request, so writes may be resent too.
		if err = t.renewSession(ctx); err == nil {
			err = t.sendOnce(ctx)
		}
	// Retry a read only while its caller waits, before the method's timeout is used up, and within the budget.
	case t.call.Method.Access == catalog.Read && isTransient(err) && ctx.Err() == nil && t.took < t.call.Method.Timeout && t.budget.withdraw():
		t.metrics.retries.Inc()
		err = t.sendOnce(ctx)
	}
	return err
}

func isSessionRefused(err error) bool {
	refused, ok := errors.AsType[*driver.Refused](err)
	return ok && refused.Kind == catalog.RefusedSession
}

// isTransient reports whether a failure may be over in a moment: a broken connection, or a gateway that has lost the
// platform. If the platform says when to come back, it is not asked before.
func isTransient(err error) bool {
	if refused, ok := errors.AsType[*driver.Refused](err); ok {
		gateway := refused.Status == http.StatusBadGateway || refused.Status == http.StatusServiceUnavailable || refused.Status == http.StatusGatewayTimeout
		return gateway && refused.RetryAfter == 0
	}
	return err != nil && errors.Is(err, problem.UpstreamUnavailable.New(""))
}

// sendOnce sends the call once, unless a breaker of its route is open. It stores changed cookies and reports to the
// account's health.
func (t *attempt) sendOnce(ctx context.Context) error {
	permit, err := t.routes.of(t.account).acquire()
	if err != nil {
		return err
	}
	back := t.call.away()
	answer, err := t.driver.Call(ctx, t.account.Via(), t.session, t.call.Method, t.call.Args)
	back()
	// A deadline of ours counts as a failure of the platform. A caller that went away does not, nor does a call without a
	// response while this node is too slow itself or cannot open connections.
	gone := err != nil && errors.Is(context.Cause(ctx), context.Canceled)
	excused := isOverload(err) && t.deps.Starved() || err != nil && errors.Is(err, problem.ServiceUnavailable.New(""))
	permit.release(t.account.ID, err, gone || excused)
	t.took += answer.Took
	t.sent += answer.Sent
	t.received += answer.Received
	t.answer = answer
	t.storeRotation(ctx)
	if gone || excused {
		return err // it says nothing about the account
	}
	t.reportHealth(ctx, err)
	return err
}

// storeRotation stores the cookies that the response changed. This happens before the caller gets the response, so that
// the next call uses them.
func (t *attempt) storeRotation(ctx context.Context) {
	if len(t.answer.Changed) == 0 {
		return
	}
	next, err := t.deps.Accounts.Rotate(context.WithoutCancel(ctx), t.account, t.answer.Changed, t.answer.Session)
	if err != nil {
		// The stored session may be invalid now. The next call will notice.
		t.metrics.lost.Inc()
		t.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot store rotated cookies", slog.String(logkey.Account, string(t.account.ID)), slog.Any(logkey.Error, err))
		return
	}
	t.account, t.session = next, t.answer.Session
}

// reportHealth reports what the result says about the account. A refusal of the call itself (not found, conflict, …)
// proves that the session works.
func (t *attempt) reportHealth(ctx context.Context, err error) {
	refused, ok := errors.AsType[*driver.Refused](err)
	if !ok {
		t.deps.Health.Learn(ctx, t.account, err)
		return
	}
	switch refused.Kind {
	case catalog.RefusedSession, catalog.RefusedRateLimited: // handled by renewSession and callerError
	case catalog.RefusedForbidden, catalog.RefusedCreatorOnly, catalog.RefusedNotFound, catalog.RefusedConflict, catalog.RefusedRejected:
		t.deps.Health.Learn(ctx, t.account, nil)
	case catalog.RefusedRestricted, catalog.RefusedUnavailable, catalog.RefusedError:
		t.deps.Health.Learn(ctx, t.account, err)
	}
}

// renewSession checks whether a refused session has really ended. If it is alive, renewSession loads the current
// session, past every cache. Otherwise it returns the problem for the account's new state.
func (t *attempt) renewSession(ctx context.Context) error {
	alive, err := t.deps.Health.Confirm(ctx, t.account)
	if err != nil {
		return err
	}
	if !alive {
		return t.deps.Health.Gone(ctx, t.call.Org, t.call.Account)
	}
	// A degraded decision makes Ready read the row instead of the cache.
	t.account, t.session, err = t.deps.Accounts.Ready(ctx, t.call.Org, t.call.Account, admission.Decision{Degraded: true})
	return err
}

// isPlatformFailure reports whether a call failed because of the route or the platform, and not because of the request.
func isPlatformFailure(err error) bool {
	if refused, ok := errors.AsType[*driver.Refused](err); ok {
		return refused.Kind == catalog.RefusedUnavailable || refused.Kind == catalog.RefusedError
	}
	return err != nil
}

// isOverload reports whether a call got no response, which is typical of too many concurrent calls.
func isOverload(err error) bool {
	return err != nil && (errors.Is(err, problem.UpstreamTimeout.New("")) || errors.Is(err, problem.UpstreamUnavailable.New("")) || errors.Is(err, problem.EgressUnavailable.New("")))
}

// Bounds of the pauses that a platform asks for.
const (
	minPause = time.Second
	maxPause = 15 * time.Minute
	// If the platform does not say how long, the pause starts with firstPause and doubles each time in a row, up to
	// maxGrownPause.
	firstPause    = 5 * time.Second
	maxGrownPause = 5 * time.Minute
	// After pauseMemory without a pause, the next one starts with firstPause again.
	pauseMemory = 10 * time.Minute
)

// pause returns how long to pause an account. It adds up to a tenth at random, so that waiting callers do not all
// return at the same moment.
func (i *Invoker) pause(a account.Account, asked time.Duration) time.Duration {
	if asked == 0 {
		times := 0
		i.pauseCounts.Change(a.ID, func(n int, _ bool) (int, cache.Outcome) {
			times = n
			return n + 1, cache.Replace
		})
		asked = min(firstPause<<min(times, 10), maxGrownPause)
	}
	asked = min(max(asked, minPause), maxPause)
	return asked + time.Duration(rand.Int64N(int64(asked)/10+1))
}

// seconds rounds up, so that waiting this long is always enough.
func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
