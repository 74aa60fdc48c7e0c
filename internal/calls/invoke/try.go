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
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// try is one call on its way, with all the times it is sent.
type try struct {
	*Invoker
	call    Call
	driver  driver.Driver
	account account.Account
	session driver.Session
	answer  driver.Answer

	took           time.Duration
	sent, received int
}

// carry sends the call, and once more where that is safe and may help.
func (t *try) carry(ctx context.Context) error {
	t.budget.put()
	err := t.send(ctx)
	switch {
	case refusedSession(err):
		// A platform that refuses the session has done nothing, so this holds for writes too.
		if err = t.renew(ctx); err == nil {
			err = t.send(ctx)
		}
	case t.call.Method.Access == catalog.Read && passing(err) && ctx.Err() == nil && t.took < t.call.Method.Timeout && t.budget.take():
		t.metrics.retries.Inc()
		err = t.send(ctx)
	}
	return err
}

func refusedSession(err error) bool {
	refused, ok := errors.AsType[*driver.Refused](err)
	return ok && refused.Kind == catalog.RefusedSession
}

// passing says whether a failure may be over in a moment: a broken connection, a gateway without a platform behind it. A platform that
// says when to come back is not asked before.
func passing(err error) bool {
	if refused, ok := errors.AsType[*driver.Refused](err); ok {
		gateway := refused.Status == http.StatusBadGateway || refused.Status == http.StatusServiceUnavailable || refused.Status == http.StatusGatewayTimeout
		return gateway && refused.RetryAfter == 0
	}
	return err != nil && errors.Is(err, problem.UpstreamUnavailable.New(""))
}

// send sends the call once, unless its way is known to be broken, and takes in what the answer tells.
func (t *try) send(ctx context.Context) error {
	passage, err := t.ways.of(t.account).enter()
	if err != nil {
		return err
	}
	answer, err := t.driver.Call(ctx, t.account.Via(), t.session, t.call.Method, t.call.Args)
	gone := err != nil && errors.Is(context.Cause(ctx), context.Canceled)
	passage.leave(t.account.ID, err, gone)
	t.took += answer.Took
	t.sent += answer.Sent
	t.received += answer.Received
	t.answer = answer
	t.rotate(ctx)
	if gone {
		return err // nobody waits for it any more, and nothing is known of the account
	}
	t.learn(ctx, err)
	return err
}

// rotate stores the cookies that the answer changed, before anybody sees it: a call that follows must find them.
func (t *try) rotate(ctx context.Context) {
	if len(t.answer.Changed) == 0 {
		return
	}
	next, err := t.Accounts.Rotate(context.WithoutCancel(ctx), t.account, t.answer.Changed, t.answer.Session)
	if err != nil {
		// The session may end with this; the next call finds out and signs in again.
		t.metrics.lost.Inc()
		t.Log.LogAttrs(ctx, slog.LevelWarn, "rotation not stored", slog.String("account", string(t.account.ID)), slog.Any("error", err))
		return
	}
	t.account, t.session = next, t.answer.Session
}

// learn takes note of what the call tells of the account. What the platform objects to in the call itself proves the session.
func (t *try) learn(ctx context.Context, err error) {
	refused, ok := errors.AsType[*driver.Refused](err)
	if !ok {
		t.Health.Learn(ctx, t.account, err)
		return
	}
	switch refused.Kind {
	case catalog.RefusedSession, catalog.RefusedRateLimited: // looked at again; passed on
	case catalog.RefusedForbidden, catalog.RefusedCreatorOnly, catalog.RefusedNotFound, catalog.RefusedConflict, catalog.RefusedRejected:
		t.Health.Learn(ctx, t.account, nil)
	case catalog.RefusedRestricted, catalog.RefusedUnavailable, catalog.RefusedError:
		t.Health.Learn(ctx, t.account, err)
	}
}

// renew finds out whether a session that was refused is dead, and takes the one that there is by now if it is not.
func (t *try) renew(ctx context.Context) error {
	alive, err := t.Health.Confirm(ctx, t.account)
	if err != nil {
		return err
	}
	if !alive {
		return t.Health.Gone(ctx, t.call.Org, t.call.Account)
	}
	t.account, t.session, err = t.Accounts.Ready(ctx, t.call.Org, t.call.Account, admission.Decision{Degraded: true})
	return err
}

// trouble says whether a call failed because of the way or the platform, and not because of what was asked for.
func trouble(err error) bool {
	if refused, ok := errors.AsType[*driver.Refused](err); ok {
		return refused.Kind == catalog.RefusedUnavailable || refused.Kind == catalog.RefusedError
	}
	return err != nil
}

// unanswered says whether a call failed for want of an answer, as calls do when there are too many of them.
func unanswered(err error) bool {
	return err != nil && (errors.Is(err, problem.UpstreamTimeout.New("")) || errors.Is(err, problem.UpstreamUnavailable.New("")) || errors.Is(err, problem.EgressUnavailable.New("")))
}

// Pauses that a platform asks for.
const (
	pauseLeast = time.Second
	pauseMost  = 15 * time.Minute
	// A platform that does not say how long gets 5 s, and twice as long each time in a row, up to 5 minutes.
	paceFirst = 5 * time.Second
	paceMost  = 5 * time.Minute
	// paceForgotten is after how long without a pause they start again.
	paceForgotten = 10 * time.Minute
)

// pause is how long an account is left alone. A little is added, so that what waits does not come back all at once.
func (i *Invoker) pause(a account.Account, asked time.Duration) time.Duration {
	if asked == 0 {
		times := 0
		i.paces.Change(a.ID, func(n int, _ bool) (int, cache.Outcome) {
			times = n
			return n + 1, cache.Replace
		})
		asked = min(paceFirst<<min(times, 10), paceMost)
	}
	asked = min(max(asked, pauseLeast), pauseMost)
	return asked + time.Duration(rand.Int64N(int64(asked)/10+1))
}

// seconds rounds up, so that waiting always suffices.
func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
