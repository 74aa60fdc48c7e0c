// Package invoke carries one call of a method to the account's platform and its answer back.
//
// Start reading at Do. Around the driver's call it does what a caller of a platform must not be left alone with: it keeps an account, an
// org, a region and the node from being flooded (gate.go), leaves alone what is down (breaker.go), lets identical reads share one call
// (share.go), tries again what is safe to try again (try.go), stores cookies that the platform changed, and passes on a pause that the
// platform asked for. Who calls and whether they may is decided before; what the answer looks like is the catalog's.
package invoke

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// accounts is where sessions come from; *account.Accounts has it.
type accounts interface {
	Ready(ctx context.Context, owner id.Org, at id.Account, d admission.Decision) (account.Account, driver.Session, error)
	Remembered(owner id.Org, at id.Account) (account.Account, bool)
	Rotate(ctx context.Context, a account.Account, names []string, session driver.Session) (account.Account, error)
}

// watcher takes note of how accounts fare; *health.Health does.
type watcher interface {
	Learn(ctx context.Context, a account.Account, err error)
	Confirm(ctx context.Context, a account.Account) (alive bool, err error)
	Gone(ctx context.Context, owner id.Org, at id.Account) error
}

// limiter passes a pause on to every node; *admission.Limiter does.
type limiter interface {
	Cool(ctx context.Context, org id.Org, account id.Account, pause time.Duration) error
}

// meter counts bytes; *usage.Usage does.
type meter interface {
	Carried(org id.Org, region string, sent, received int64)
}

// Deps is what the flow needs.
type Deps struct {
	Accounts accounts
	Health   watcher
	Limits   limiter
	Meter    meter
	// Switches say whether calls that change something are taken; nil for always.
	Switches *switches.Control
	// Drivers are the platform of an environment.
	Drivers func(org.Environment) (driver.Driver, bool)
	Log     *slog.Logger
	Now     func() time.Time
}

// Invoker is the flow.
type Invoker struct {
	Deps
	gates   gates
	ways    *ways
	flights flights
	budget  budget
	// paces are how often in a row a platform asked an account to pause without saying for how long.
	paces   cache.Cache[id.Account, int]
	metrics metrics
}

// New makes the flow.
func New(d Deps) *Invoker {
	return &Invoker{
		Deps: d, gates: newGates(), ways: newWays(d.Now), flights: newFlights(), metrics: newMetrics(),
		paces: cache.NewFor[id.Account, int](100_000, paceForgotten),
	}
}

// Call is what is to be called.
type Call struct {
	Org     id.Org
	Account id.Account
	// Admission is what the limiter said of it.
	Admission admission.Decision
	Method    *catalog.Method
	Args      catalog.Args
	// Fresh means that the caller does not want to share another one's answer.
	Fresh bool

	// held means that the call has its place among those of the account and the org.
	held bool
	// key says which reads are identical; of others it is empty.
	key flightKey
}

// Answer is what it brought. Also beside an error it says what is known.
type Answer struct {
	// Result is JSON, Whole the object that callers are given, with the result in it. Several calls may share them, so they must not be
	// changed.
	Result, Whole []byte
	State         account.State
	// Took is how long the platform and the way to it took.
	Took time.Duration
	// Code is the platform's own if it refused; 0 for none.
	Code int
	// Via is how it left.
	Via driver.Via
}

// callAtMost bounds a write with everything around it. It goes on for so long after its caller has gone: its outcome must be known, to
// whoever asks later and to the meter. A read that may be shared ends with its caller, and each request of it within egress' own limits.
const callAtMost = 60 * time.Second

// Do calls a method. Its errors are problems.
func (i *Invoker) Do(ctx context.Context, c Call) (Answer, error) {
	began := i.Now()
	var (
		a   Answer
		err error
	)
	if c.key.method != nil && sharable(c.Admission) {
		a, err = i.shared(ctx, c)
	} else {
		if c.Method.Access == catalog.Write {
			ctx = context.WithoutCancel(ctx)
		}
		limited, cancel := context.WithTimeout(ctx, callAtMost)
		defer cancel()
		a, err = i.run(limited, c)
	}
	i.metrics.observe(c.Method, err, i.Now().Sub(began))
	return a, err
}

// run carries one call out.
func (i *Invoker) run(ctx context.Context, c Call) (Answer, error) {
	if !c.held {
		// It expected to share another one's answer, and there was none any more. It has been billed, so it is not turned away.
		leave, err := i.gates.wait(ctx, c.Account)
		if err != nil {
			return Answer{}, err
		}
		defer leave()
	}
	a, session, err := i.Accounts.Ready(ctx, c.Org, c.Account, c.Admission)
	if err != nil {
		return Answer{State: a.State}, err
	}
	drv, ok := i.Drivers(a.Environment)
	if !ok {
		return Answer{State: a.State}, noPlatform()
	}
	t := try{Invoker: i, call: c, driver: drv, account: a, session: session}
	err = t.carry(ctx)
	answer := Answer{Result: t.answer.Result, Whole: t.answer.Whole, State: t.account.State, Took: t.took, Via: t.account.Via()}
	if refused, ok := errors.AsType[*driver.Refused](err); ok {
		answer.Code = refused.Code
	}
	i.Meter.Carried(c.Org, a.Region, int64(t.sent), int64(t.received))
	if err != nil {
		return answer, i.told(ctx, c, t.account, err)
	}
	return answer, nil
}

func noPlatform() error {
	return problem.UpstreamUnavailable.New("This server has no way to the account's platform.").After(5)
}

// told is what the caller is told of a failure.
func (i *Invoker) told(ctx context.Context, c Call, a account.Account, err error) error {
	refused, ok := errors.AsType[*driver.Refused](err)
	switch {
	case !ok:
		return err
	case refused.Kind == catalog.RefusedRateLimited:
		pause := i.pause(a, refused.RetryAfter)
		if failed := i.Limits.Cool(context.WithoutCancel(ctx), a.Org, a.ID, pause); failed != nil {
			i.Log.LogAttrs(ctx, slog.LevelWarn, "pause not told to other nodes", slog.String("account", string(a.ID)), slog.Any("error", failed))
		}
		return refused.Problem(c.Method).After(seconds(pause))
	case refused.Kind == catalog.RefusedSession:
		// The probe says that the session is good, and yet this method is refused.
		return problem.UpstreamForbidden.New("The platform does not accept the account's session for this method.").From(refused.Code, refused.Message)
	}
	return refused.Problem(c.Method)
}
