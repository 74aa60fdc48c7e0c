package endpoint

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/base/effect"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/server/accesslog"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
)

// Call is the state of one request while the table serves it. Each part has one writer. It belongs to the goroutine
// that serves the request. A stream works on copies of it when it checks access concurrently.
type Call struct {
	// ID and Origin are set by assignID.
	ID     id.Request
	Origin Origin
	// Account is the account in the path; empty if there is none, if its id is malformed, or if the key may not use it.
	Account id.Account
	// Identity is set by authenticate, and by admit if it was stale.
	Identity Identity
	// Decision is the result of admission; empty on servers without admission.
	Decision admission.Decision

	// caused has the events that the call caused.
	caused *effects
	table  *Table
	// op is nil if no operation has the path.
	op *Operation
	// terms are those of the operation until resolve sets those of the request.
	terms   Terms
	outcome outcome
	// idempotent is nil for a call without an Idempotency-Key.
	idempotent *idempotentRun
	// body is what readBody read.
	body   []byte
	header http.Header
	// idHeader holds the request id as a header value, to save an allocation.
	idHeader [1]string
	written  *accesslog.Recorder
	span     trace.Span
	// uncompress removes the compressor from the response; nil if there is none.
	uncompress func()
	// working means that the call is counted in Table.inFlight, inside that it has a place at the door, as one of the org
	// entered.
	working, inside bool
	entered         id.Org
	// detached means that the handler has returned but the request goes on as a stream, which records the call.
	detached bool
}

// Origin says where and when a request arrived.
type Origin struct {
	// Source is the network that the request comes from: an IPv4 address, or the /64 of an IPv6 address.
	Source  string
	Started time.Time
	request *http.Request
}

// outcome is what became of a call. reply writes it, and RecordUpstream what the platform did.
type outcome struct {
	// problem is the code of the problem; empty if there was none.
	problem string
	// reason names the limit that refused the call; empty if none did.
	reason string
	// fields are the fields that the problem points at.
	fields requestlog.Fields
	// members are other members of the problem.
	members requestlog.Members
	// retryable is that of the problem.
	retryable bool
	// fault is the error on our side; nil for none.
	fault error
	// upstream is the time that the platform took, upstreamCode its own code if it refused.
	upstream     time.Duration
	upstreamCode string
	// platform is the platform of the called method; empty for other operations.
	platform string
}

// effects collects the events that a call causes.
type effects struct {
	mu   sync.Mutex
	list []effect.Event
}

// RecordEvent adds an event.
func (e *effects) RecordEvent(one effect.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, one)
}

// events returns the events that the call caused. After an internal error their transaction may have been rolled back, so
// there are none.
func (c *Call) events() requestlog.Events {
	if c.caused == nil || c.outcome.fault != nil && !problem.Of(c.outcome.fault).Kind.Upstream() {
		return ""
	}
	c.caused.mu.Lock()
	defer c.caused.mu.Unlock()
	return requestlog.EventsOf(c.caused.list)
}

type callKey struct{}

// From returns the call of a context. Every request that a table serves has one.
func From(ctx context.Context) *Call {
	call, _ := ctx.Value(callKey{}).(*Call)
	return call
}

// Caller returns the customer's key that calls; nil for an operator.
func Caller(ctx context.Context) *apikey.Principal { return From(ctx).Identity.Principal }

// By returns the actor of the call, for the audit log.
func By(ctx context.Context) audit.By {
	call := From(ctx)
	return audit.By{
		Kind: call.Identity.Kind, ID: call.Identity.ID, Label: call.Identity.Label,
		Action: call.op.Audit, Request: call.ID, IPHash: call.table.deps.HashIP(call.Origin.Source),
	}
}

// Header returns the header of the response, which is also sent if the response becomes a problem.
func (c *Call) Header() http.Header { return c.header }

// Body returns the JSON body of the request, for operations that distinguish null from an omitted member.
func (c *Call) Body() []byte { return c.body }

// Operation returns the id of the operation; empty if no operation has the path.
func (c *Call) Operation() string {
	if c.op == nil {
		return ""
	}
	return c.op.ID
}

// ServesWhileDeleting reports whether the operation declares WhileDeleting.
func (c *Call) ServesWhileDeleting() bool { return c.op != nil && c.op.WhileDeleting }

// RecordUpstream records the time that the platform took, and its own code if it refused.
func (c *Call) RecordUpstream(took time.Duration, code string) {
	c.outcome.upstream = took
	c.outcome.upstreamCode = code
}

// RecordPlatform records the platform of the called method.
func (c *Call) RecordPlatform(platform string) { c.outcome.platform = platform }

// staleTries bounds how often the identity is reloaded for one call.
const staleTries = 3

// checkLimits checks the limits of a call. Admission also compares the epoch of the identity; a stale identity is
// reloaded and checked again, which is how a revoked key is noticed on every node.
func (t *Table) checkLimits(ctx context.Context, call *Call) error {
	if t.deps.Admit == nil || call.op.Public {
		return nil
	}
	for range staleTries {
		p := call.Identity.Principal
		d, err := t.traceAdmission(ctx, admission.Call{
			Org: p.Org.ID, Account: call.Account, Quota: call.terms.Quota, Epoch: p.Org.Epoch, Limits: &p.Org.Limits,
			Started: call.Origin.Started, ReadAt: p.ReadAt(),
		})
		if err != nil {
			return err
		}
		if d.Stale {
			who, err := t.deps.Auth.Refresh(ctx, call.Identity)
			if err != nil {
				return err
			}
			call.Identity = who
			if err := call.requireRights(); err != nil {
				return err
			}
			continue
		}
		call.Decision = d
		rateHeaders(call.header, d, call.terms.Quota)
		if d.Denied != nil {
			return d.Denied.Problem()
		}
		if call.op.isLong() {
			call.goOut()
		}
		return nil
	}
	return problem.ServiceUnavailable.New("The organisation is being changed. Try again.").After(1)
}

// refreshLimits reloads an identity whose limits refuse a call, if they are outdated: limits can grow, and a call that is
// refused never reaches admission, which would notice. It reports whether the limits have changed.
func (t *Table) refreshLimits(ctx context.Context, call *Call) bool {
	p := call.Identity.Principal
	if t.deps.Admit == nil || p == nil || !p.Key.Allow.IsLimited() {
		return false
	}
	d, err := t.traceAdmission(ctx, admission.Call{
		Org: p.Org.ID, Quota: admission.Free, Epoch: p.Org.Epoch, Limits: &p.Org.Limits, Started: call.Origin.Started, ReadAt: p.ReadAt(),
	})
	if err != nil || !d.Stale {
		return false
	}
	who, err := t.deps.Auth.Refresh(ctx, call.Identity)
	if err != nil || who.Principal.Key.Allow.Equal(&p.Key.Allow) {
		return false // The call stays refused.
	}
	call.Identity = who
	return true
}

// requireRights checks that the caller may be where it is, holds the scope of the operation and may use the account.
func (c *Call) requireRights() error {
	p := c.Identity.Principal
	if p != nil && !p.Key.Allow.MayComeFrom(c.Address()) {
		c.Account = "" // The caller may have made the id up; it must not be logged.
		return problem.IPNotAllowed.New("This key may not be used from the address that the call comes from.")
	}
	if err := requireScope(c.op.Scope, c.Identity.Scopes); err != nil {
		return err
	}
	if c.Account == "" {
		return nil
	}
	err := MayUse(p, c.Account)
	if err != nil {
		c.Account = ""
	}
	return err
}

// Address returns the address that the request comes from; invalid if it is not known.
func (c *Call) Address() netip.Addr {
	if c.table.deps.Address == nil {
		return netip.Addr{}
	}
	return c.table.deps.Address(c.Origin.request)
}

// requireScope returns a problem if a scope is not held. Check it before anything is looked up, so that the refusal
// does not reveal what exists.
func requireScope(needed scope.Scope, held scope.Set) error {
	if held.Has(needed) {
		return nil
	}
	if role := needed.Role(); role != "" {
		return problem.RoleRequired.Newf("The operation needs the role %s.", role).With("requiredRole", role)
	}
	return problem.ScopeMissing.Newf("The operation needs the scope %s, which this key does not hold.", needed).
		With("missingScope", needed.String()).With("requiredScopes", []string{needed.String()}).With("heldScopes", held.Names())
}

// rateHeaders sets the remaining quotas, in the headers of the IETF draft and in the older X-RateLimit ones. Limits
// that are not enforced are omitted. All values are substrings of one string, because this runs on every call.
func rateHeaders(h http.Header, d admission.Decision, quota admission.Quota) {
	name, own := admission.AccountRead, d.Account
	switch quota {
	case admission.Write:
		name = admission.AccountWrite
	case admission.Safety:
		name, own = admission.SafetyReason, d.Safety
	case admission.Free, admission.Plain, admission.Read, admission.Jobs:
	}
	windows := [...]struct {
		name   admission.Reason
		suffix string
		admission.Window
	}{{admission.OrgPerMinute, ";w=60", d.Org}, {admission.OrgPerMonth, "", d.Month}, {name, ";w=60", own}}
	var buf [256]byte
	text := buf[:0]
	var from, to, limitFrom, limitTo, leftFrom, leftTo int
	for i, w := range windows {
		if w.Limit <= 0 {
			continue
		}
		text, from, to = appendItem(text, 0, w.name, ";q=", w.Limit)
		text = append(text, w.suffix...)
		if i == 0 {
			limitFrom, limitTo = from, to
		}
	}
	policy := len(text)
	if policy == 0 {
		return
	}
	for i, w := range windows {
		if w.Limit <= 0 {
			continue
		}
		text, from, to = appendItem(text, policy, w.name, ";r=", w.Remaining)
		if i == 0 {
			leftFrom, leftTo = from, to
		}
	}
	left := len(text)
	text = strconv.AppendInt(text, d.Org.Reset, 10)
	whole := string(text)
	values := []string{whole[:policy], whole[policy:left], whole[limitFrom:limitTo], whole[leftFrom:leftTo], whole[left:]}
	names := [...]string{"Ratelimit-Policy", "Ratelimit", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}
	for i, name := range names {
		if i < 2 || d.Org.Limit > 0 {
			h[name] = values[i : i+1 : i+1]
		}
	}
}

// appendItem appends one member to the list that starts at offset start of text, and returns the range of its number.
func appendItem(text []byte, start int, name admission.Reason, parameter string, value int) (longer []byte, from, to int) {
	if len(text) > start {
		text = append(text, ", "...)
	}
	text = append(text, '"')
	text = append(text, name...)
	text = append(text, '"')
	text = append(text, parameter...)
	from = len(text)
	text = strconv.AppendInt(text, int64(value), 10)
	return text, from, len(text)
}
