// Package sdkjob has the jobs that call methods of the SDK on accounts. An export walks all pages of a read over one or many
// accounts; a bulk job makes one call for each of its items.
//
// Plan and PlanBulk check everything that can be checked before a job starts (plan.go). A run works on several accounts
// concurrently, and on each in order (run.go). Each call passes the limits of its account and organisation as a caller's
// would, after the jobs' own share of them (call.go). What is done is saved with the result, so that a run that dies is
// continued where it stood; an item of a bulk job also has an idempotency key, so that it is never carried out twice.
package sdkjob

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/calls/invoke"
	"github.com/stagedoor/stagedoor/internal/jobs/job"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/idempotency"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
)

// The names of the kinds.
const (
	Export = "export"
	Bulk   = "bulk"
)

const (
	// MaxItems is how many items a bulk job can have.
	MaxItems = 100_000
	// MaxAccounts is how many accounts an export can have.
	MaxAccounts = 10_000
	// DefaultShare is the part of each limit that a job uses unless it says otherwise.
	DefaultShare = 0.5
	// maxOpen is how many jobs of each kind an organisation can have waiting or running.
	maxOpen = 20
)

// invoker runs calls. *invoke.Invoker implements it.
type invoker interface {
	Enter(ctx context.Context, c *invoke.Call, limits *org.Limits) (leave func(), err error)
	Do(ctx context.Context, c invoke.Call) (invoke.Answer, error)
}

// accounts finds accounts. *account.Accounts implements it.
type accounts interface {
	Get(ctx context.Context, owner id.Org, at id.Account) (account.Account, error)
	List(ctx context.Context, owner id.Org, f account.Filter, each func(account.Account) error) error
}

// limiter admits calls. *admission.Limiter implements it.
type limiter interface {
	Admit(ctx context.Context, c admission.Call) (admission.Decision, error)
}

// keys makes calls happen once. *idempotency.Keys implements it.
type keys interface {
	Begin(ctx context.Context, r idempotency.Request) (*idempotency.Claim, *idempotency.Answer, error)
	Finish(ctx context.Context, c *idempotency.Claim, a idempotency.Answer) error
	Release(ctx context.Context, c *idempotency.Claim) error
}

// counter counts calls for usage. *usage.Usage implements it.
type counter interface{ Count(c usage.Call) }

// Deps are the dependencies of Kinds.
type Deps struct {
	Invoke    invoker
	Accounts  accounts
	Limits    limiter
	Keys      keys
	Usage     counter
	Platforms registry.Registry
	// ProblemsURL is the address of the pages about problems.
	ProblemsURL string
	Now         func() time.Time
}

// Kinds are the kinds of jobs. It is safe for concurrent use.
type Kinds struct{ deps Deps }

// New returns the kinds.
func New(d Deps) *Kinds { return &Kinds{d} }

// All returns the kinds for package job.
func (k *Kinds) All() []job.Kind {
	return []job.Kind{
		{Name: Export, MaxOpen: maxOpen, Check: k.check, Run: k.runExport},
		{Name: Bulk, MaxOpen: maxOpen, Check: k.check, Run: k.runBulk},
	}
}

// params are the parameters of a job. The accounts, or the items, are its input.
type params struct {
	Method string `json:"method"`
	// Args are the arguments of an export, without a cursor.
	Args json.RawMessage `json:"args,omitempty"`
	// Share is the part of each limit that the job may use.
	Share float64 `json:"share"`
	// Platforms are those of the accounts, which decide whether a key may call the method.
	Platforms []string `json:"platforms"`
	// Accounts are those of the job, unless they are more than a key can be limited to.
	Accounts []id.Account `json:"accounts,omitempty"`
	// Many means that there are more.
	Many bool `json:"many,omitempty"`
	// Count is how many accounts or items the input has.
	Count int `json:"count"`
}

// setAccounts notes the accounts of a job, as far as check needs them.
func (p *params) setAccounts(list []id.Account) {
	p.Accounts, p.Many = list, false
	if len(list) > apikey.MaxAccounts {
		p.Accounts, p.Many = nil, true
	}
}

// check permits callers that may call the method on all accounts of the job.
func (k *Kinds) check(text json.RawMessage, r job.Rights) error {
	var p params
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	if !r.Scopes.Has(scope.SDKCall) {
		return problem.ScopeMissing.New("The key needs the scope sdk:call.").With("missingScope", "sdk:call")
	}
	for _, platform := range p.Platforms {
		m, ok := k.method(platform, p.Method)
		if ok && !r.Allow.MayCall(keyMethod(m)) {
			return problem.MethodNotAllowedForKey.Newf("This key may not call %s.", p.Method).With("method", p.Method)
		}
	}
	i := slices.IndexFunc(p.Accounts, func(a id.Account) bool { return !r.Allow.MayUse(a) })
	switch {
	case i >= 0:
		return problem.AccountNotAllowedForKey.Newf("This key may not use %s.", p.Accounts[i]).With("accountId", p.Accounts[i])
	case p.Many && r.Allow.Accounts != nil:
		return problem.AccountNotAllowedForKey.New("The job has more accounts than this key may use.")
	}
	return nil
}

// keyMethod returns a method as the limits of a key name it.
func keyMethod(m *catalog.Method) apikey.Method {
	return apikey.Method{Platform: m.Platform, Resource: m.Resource, Name: m.Name, Sensitive: m.Sensitive}
}
