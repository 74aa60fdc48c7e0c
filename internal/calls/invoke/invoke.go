// Package invoke calls a method on the platform of an account and returns the result.
//
// Start reading at Enter and Do. Around the driver's call, the package bounds the concurrent calls of an account, an
// org, a region and the node (gate.go), stops calling platforms and regions that are down (breaker.go), lets
// identical reads share one call (share.go), retries what is safe to retry (try.go), stores cookies that the platform
// changed, and pauses an account if the platform asks for it. It does not authenticate or authorise callers, and the
// catalog defines the form of results.
package invoke

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/tracing"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// accounts provides sessions. *account.Accounts implements it.
type accounts interface {
	Ready(ctx context.Context, owner id.Org, at id.Account, d admission.Decision) (account.Account, driver.Session, error)
	Remembered(owner id.Org, at id.Account) (account.Account, bool)
	Rotate(ctx context.Context, a account.Account, names []string, session driver.Session) (account.Account, error)
}

// watcher tracks the health of accounts. *health.Health implements it.
type watcher interface {
	Learn(ctx context.Context, a account.Account, err error)
	Confirm(ctx context.Context, a account.Account) (alive bool, err error)
	Gone(ctx context.Context, owner id.Org, at id.Account) error
}

// limiter announces a pause to all nodes. *admission.Limiter implements it.
type limiter interface {
	Cool(ctx context.Context, org id.Org, account id.Account, pause time.Duration) error
}

// meter counts bytes. *usage.Usage implements it.
type meter interface {
	Carried(org id.Org, region string, sent, received int64)
}

// Deps are the dependencies of an Invoker.
type Deps struct {
	Accounts accounts
	Health   watcher
	Limits   limiter
	Meter    meter
	// Switches decides whether writes are accepted. If it is nil, they always are.
	Switches  *switches.Control
	Platforms func(id string) (registry.Platform, bool)
	// Starved reports whether this node was too slow a moment ago. A call without a response then says nothing about its
	// route. If it is nil, the node never is.
	Starved func() bool
	// Registry registers the metrics. If it is nil, they are not registered.
	Registry prometheus.Registerer
	Log      *slog.Logger
	Now      func() time.Time
}

// Invoker calls methods. It is safe for concurrent use.
type Invoker struct {
	deps    Deps
	gates   gates
	routes  *routes
	flights flights
	budget  budget
	// pauseCounts holds how many consecutive times a platform asked an account to pause without saying for how long.
	pauseCounts cache.Cache[id.Account, int]
	metrics     metrics
}

// New returns an Invoker.
func New(d Deps) *Invoker {
	if d.Starved == nil {
		d.Starved = func() bool { return false }
	}
	return &Invoker{
		deps: d, gates: newGates(), routes: newRoutes(d.Now), flights: newFlights(), metrics: newMetrics(d.Registry),
		pauseCounts: cache.NewFor[id.Account, int](100_000, pauseMemory),
	}
}

// Call is one call of a method.
type Call struct {
	Org       id.Org
	Account   id.Account
	Admission admission.Decision
	Method    *catalog.Method
	Args      catalog.Args
	// Fresh means that the call must not share the result of another one.
	Fresh bool
	// Away is called before the call waits for its platform, and back when the wait has ended. Nil if the caller does not
	// need to know.
	Away func() (back func())

	// place is the place of the account that Enter has reserved; nil for none.
	place *place
	// key identifies identical reads. It is empty for writes and fresh reads.
	key flightKey
}

// away calls Away if there is one.
func (c *Call) away() (back func()) {
	if c.Away == nil {
		return func() {}
	}
	return c.Away()
}

// Answer is the outcome of a call. On error, it still contains what is known.
type Answer struct {
	// Result is JSON. Whole is the response body of the API, {"result": …}. Several calls may share them, so they
	// must not be modified.
	Result, Whole []byte
	State         account.State
	// Took is the time that the requests to the platform took, including egress.
	Took time.Duration
	// Code is the platform's error code if it refused the call, or empty.
	Code string
	// Via is the identity and region of the traffic.
	Via driver.Via
}

// callTimeout bounds a call that is not shared. A write continues for this long even after its caller has gone away,
// because its outcome must become known and its bytes must be counted. A read that may be shared ends with its caller
// instead; each of its requests is bounded by the limits of egress.
const callTimeout = 60 * time.Second

// Do calls a method. Call Enter first. Errors are problems.
func (i *Invoker) Do(ctx context.Context, c Call) (Answer, error) {
	began := i.deps.Now()
	ctx, span := startCallSpan(ctx, &c)
	var (
		a   Answer
		err error
	)
	if c.key.method != nil && sharable(c.Admission) {
		a, err = i.doShared(ctx, c)
	} else {
		if c.Method.Access == catalog.Write {
			ctx = context.WithoutCancel(ctx)
		}
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		a, err = i.run(limited, c)
	}
	i.metrics.observe(ctx, c.Method, err, i.deps.Now().Sub(began))
	endCallSpan(span, err)
	return a, err
}

func startCallSpan(ctx context.Context, c *Call) (context.Context, trace.Span) {
	ctx, span := tracing.Start(ctx, "call", trace.SpanKindInternal)
	if span.IsRecording() {
		span.SetAttributes(attribute.String("stagedoor.platform", c.Method.Platform), attribute.String("stagedoor.method", c.Method.ID()))
	}
	return ctx, span
}

func endCallSpan(span trace.Span, err error) {
	if !span.IsRecording() {
		return
	}
	reason := ""
	if err != nil {
		reason = problem.Of(err).Kind.Code
		span.SetAttributes(attribute.String("error.type", reason))
	}
	tracing.End(span, err, reason)
}

// run carries out one call.
func (i *Invoker) run(ctx context.Context, c Call) (Answer, error) {
	if !c.hasPlace() {
		// Enter expected the call to join a flight, which has ended since. The call was billed, so do not refuse it.
		leave, err := i.gates.acquireAccount(ctx, &c)
		if err != nil {
			return Answer{}, err
		}
		defer leave()
	}
	a, session, err := i.deps.Accounts.Ready(ctx, c.Org, c.Account, c.Admission)
	if err != nil {
		return Answer{State: a.State}, err
	}
	platform, ok := i.deps.Platforms(a.Place.Platform)
	if !ok {
		return Answer{State: a.State}, registry.Unavailable(a.Place.Platform)
	}
	// The attempt may replace account and session, if cookies rotate or the session is renewed.
	t := attempt{Invoker: i, call: c, driver: platform.Driver, account: a, session: session}
	err = t.sendWithRetry(ctx)
	answer := Answer{Result: t.answer.Result, Whole: t.answer.Whole, State: t.account.State, Took: t.took, Via: t.account.Via()}
	if refused, ok := errors.AsType[*driver.Refused](err); ok {
		answer.Code = refused.Code
	}
	i.deps.Meter.Carried(c.Org, a.Region, int64(t.sent), int64(t.received))
	if err != nil {
		return answer, i.callerError(ctx, c, t.account, err)
	}
	return answer, nil
}

// callerError turns an error into the problem for the caller. It also announces a pause that the platform asked for.
func (i *Invoker) callerError(ctx context.Context, c Call, a account.Account, err error) error {
	refused, ok := errors.AsType[*driver.Refused](err)
	switch {
	case !ok:
		return err
	case refused.Kind == catalog.RefusedRateLimited:
		pause := i.pause(a, refused.RetryAfter)
		if failed := i.deps.Limits.Cool(context.WithoutCancel(ctx), a.Org, a.ID, pause); failed != nil {
			i.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot announce pause to other nodes", slog.String(logkey.Account, string(a.ID)), slog.Any(logkey.Error, failed))
		}
		return refused.Problem(c.Method).After(seconds(pause))
	case refused.Kind == catalog.RefusedSession:
		// The session was confirmed as alive, but the platform refuses it for this method.
		return problem.UpstreamForbidden.New("The platform does not accept the account's session for this method.").From(refused.Code, refused.Message)
	}
	return refused.Problem(c.Method)
}
