package sdkjob

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/calls/invoke"
	"github.com/stagedoor/stagedoor/internal/jobs/job"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/idempotency"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
)

// request is one call of a job.
type request struct {
	who     job.Caller
	params  *params
	account id.Account
	args    json.RawMessage
	// once is the idempotency key of an item; empty for a read of an export.
	once string
}

// outcome is how a call ended: with a result, with a problem, or not yet.
type outcome struct {
	result []byte
	// failed is the document of a problem, and gone means that there is no such account any more.
	failed json.RawMessage
	gone   bool
	// wait is how long to wait before the call is repeated; 0 if it is over. byLimit says that it waits for a limit, and
	// counts that it was a try.
	wait            time.Duration
	byLimit, counts bool
	// stale means that who is out of date; read it again and repeat the call.
	stale bool
	// broken is why the run cannot go on, such as a database that does not answer.
	broken error
}

const (
	// maxTries is how often a call is made that fails for a reason that may pass, over about a quarter of an hour.
	maxTries = 11
	// minWait and maxWait bound the pause between two tries.
	minWait, maxWait = time.Second, 5 * time.Minute
	// lease is how long a call under an idempotency key is taken to be alive: longer than it can take.
	lease = idempotency.Lease + 15*time.Second
	// itemRoute names the idempotency keys of items.
	itemRoute = "job item"
)

// do makes a call once.
func (k *Kinds) do(ctx context.Context, r *request, tries int) outcome {
	a, err := k.deps.Accounts.Get(ctx, r.who.Org.ID, r.account)
	if err != nil {
		return k.after(err, tries)
	}
	platform, ok := k.deps.Platforms.Get(a.Place.Platform)
	if !ok {
		return k.after(registry.Unavailable(a.Place.Platform), tries)
	}
	m, ok := k.method(a.Place.Platform, r.params.Method)
	if !ok {
		return k.fail(problem.MethodNotFound.Newf("The platform of the account has no method %s.", r.params.Method))
	}
	if err := platform.Catalog.RefuseCredentials(m, a.Credentials); err != nil {
		return k.after(err, tries)
	}
	args, err := m.FromObject(r.args, false)
	if err != nil {
		return k.after(err, tries)
	}
	if r.once == "" {
		return k.send(ctx, r, m, args, tries)
	}
	return k.sendOnce(ctx, r, m, args, tries)
}

// sendOnce makes a call under an idempotency key. What an earlier run has done is not done again: its result is used, and
// if it died half-way, the outcome is unknown.
func (k *Kinds) sendOnce(ctx context.Context, r *request, m *catalog.Method, args catalog.Args, tries int) outcome {
	owner := r.who.Org.ID
	claim, known, err := k.deps.Keys.Begin(ctx, idempotency.Request{
		Org: owner, Account: r.account, Caller: itemRoute, Key: r.once, Route: itemRoute, Target: m.ID(), Body: r.args,
		Lease: lease, Repeatable: m.Access == catalog.Read,
	})
	switch {
	case errors.Is(err, problem.IdempotencyInProgress.New("")):
		return outcome{wait: minWait} // an earlier run may still be at it
	case err != nil:
		return k.after(err, tries)
	case known != nil:
		return fromStored(known)
	}
	o := k.send(ctx, r, m, args, tries)
	// What the job waits for was not carried out; everything else is what the item has come to.
	settle := context.WithoutCancel(ctx)
	if o.wait > 0 || o.stale || o.broken != nil {
		err = k.deps.Keys.Release(settle, claim)
	} else {
		err = k.deps.Keys.Finish(settle, claim, toStored(o))
	}
	if err != nil && !errors.Is(err, idempotency.ErrLost) {
		return k.after(err, tries)
	}
	return o
}

// storedProblem is the media type of a stored outcome that is a problem.
const storedProblem = "application/problem+json"

func toStored(o outcome) idempotency.Answer {
	if o.failed == nil {
		return idempotency.Answer{Status: http.StatusOK, Body: o.result}
	}
	return idempotency.Answer{Status: http.StatusUnprocessableEntity, Header: map[string]string{"Content-Type": storedProblem}, Body: o.failed}
}

func fromStored(a *idempotency.Answer) outcome {
	if a.Header["Content-Type"] == storedProblem {
		return outcome{failed: a.Body}
	}
	return outcome{result: a.Body}
}

// send makes a call if the limits allow it.
func (k *Kinds) send(ctx context.Context, r *request, m *catalog.Method, args catalog.Args, tries int) outcome {
	began := k.deps.Now()
	call := invoke.Call{Org: r.who.Org.ID, Account: r.account, Method: m, Args: args, Fresh: true}
	leave, err := k.deps.Invoke.Enter(ctx, &call, &r.who.Org.Limits)
	if err != nil {
		return k.after(err, tries)
	}
	defer leave()
	quota := admission.Read
	access := usage.Read
	if m.Access == catalog.Write {
		quota, access = admission.Write, usage.Write
	}
	var waits *outcome
	if call.Admission, waits = k.admit(ctx, r, quota); waits != nil {
		return *waits
	}
	a, err := k.deps.Invoke.Do(ctx, call)
	counted := usage.Call{
		Org: r.who.Org.ID, Account: r.account, Operation: m.ID(), Access: access, Outcome: usage.OK, Status: http.StatusOK, Took: k.deps.Now().Sub(began), Platform: m.Platform,
	}
	if err != nil {
		counted.Outcome, counted.Status = usage.Failed, problem.Of(err).Kind.Status
	}
	k.deps.Usage.Count(counted)
	if err != nil {
		return k.after(err, tries)
	}
	return outcome{result: a.Result}
}

// admit asks for a call's quota, after the jobs' share of each limit that it uses. It returns what the call waits for, if
// anything.
func (k *Kinds) admit(ctx context.Context, r *request, quota admission.Quota) (admission.Decision, *outcome) {
	limits := &r.who.Org.Limits
	own := limits.AccountReadPerMinute
	if quota == admission.Write {
		own = limits.AccountWritePerMinute
	}
	call := admission.Call{Org: r.who.Org.ID, Epoch: r.who.Org.Epoch, Limits: limits, Started: k.deps.Now(), ReadAt: r.who.ReadAt}
	asks := make([]admission.Call, 0, 3)
	if own > 0 {
		ask := call
		ask.Quota, ask.Account, ask.Of, ask.Most = admission.Jobs, r.account, quota, part(own, r.params.Share)
		asks = append(asks, ask)
	}
	if limits.CallsPerMinute > 0 {
		ask := call
		ask.Quota, ask.Of, ask.Most = admission.Jobs, admission.Plain, part(limits.CallsPerMinute, r.params.Share)
		asks = append(asks, ask)
	}
	call.Quota, call.Account = quota, r.account
	var d admission.Decision
	for _, ask := range append(asks, call) {
		var err error
		if d, err = k.deps.Limits.Admit(ctx, ask); err != nil {
			return d, &outcome{wait: minWait} // ctx has ended
		}
		switch {
		case d.Stale:
			return d, &outcome{stale: true}
		case d.Denied != nil:
			return d, &outcome{wait: max(d.Denied.Wait, minWait/10), byLimit: true}
		}
	}
	return d, nil
}

// part returns the part of a limit that jobs may use: at least one call a minute.
func part(limit int, share float64) int { return max(1, int(float64(limit)*share)) }

// after returns the outcome of an error: the call is repeated later if that may help, up to maxTries.
func (k *Kinds) after(err error, tries int) outcome {
	p, isProblem := errors.AsType[*problem.Error](err)
	switch {
	case !isProblem:
		return outcome{broken: err}
	case p.Kind.Code == problem.QuotaExceeded.Code || p.Kind.Code == problem.UpstreamRateLimited.Code:
		return outcome{wait: max(minWait, time.Duration(p.RetryAfter)*time.Second), byLimit: true}
	case p.Retryable() && tries+1 < maxTries:
		return outcome{wait: min(maxWait, max(minWait<<tries, time.Duration(p.RetryAfter)*time.Second)), counts: true}
	}
	return k.fail(p)
}

// fail returns the outcome of a problem that is final.
func (k *Kinds) fail(p *problem.Error) outcome {
	text, err := p.Document(problem.Place{ProblemsURL: k.deps.ProblemsURL})
	if err != nil {
		return outcome{broken: err}
	}
	return outcome{failed: text, gone: p.Kind.Code == problem.AccountNotFound.Code}
}

// onceKey returns the idempotency key of an item.
func onceKey(of id.Job, index int) string { return string(of) + "/" + strconv.Itoa(index) }
