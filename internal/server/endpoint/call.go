package endpoint

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
)

// Call is one request on its way through the table.
type Call struct {
	Request  id.Request
	Identity Identity
	// Decision is what admission said; empty on faces without one.
	Decision admission.Decision

	table *Table
	op    *Operation
	// request is as the guard saw it, and body what it read of it.
	request *http.Request
	body    []byte
	header  http.Header
	// id is the request's as a header has it.
	id      [1]string
	written *recorder
	source  string
	started time.Time
	// account is empty if the call concerns none, or names it in a way that no account has.
	account id.Account
	quota   admission.Quota
	// name stands for the operation where one request of it is another's than the next; empty for the operation's own.
	name string
	// changes and repeatable are as in Terms.
	changes, repeatable bool
	// upstream is what the platform took, upstreamCode its own code if it refused.
	upstream     time.Duration
	upstreamCode int
	// keyed is nil for a call without an Idempotency-Key.
	keyed   *keyed
	problem string
	// reason is which limit refused the call; empty if none did.
	reason string
	// fields are those that the problem points at.
	fields requestlog.Fields
	// retryable says whether the problem is.
	retryable bool
	fault     error
	span      trace.Span
	// uncompress takes the compressor of the answer away; nil if there is none.
	uncompress func()
	// working means that the call has one of the node's places.
	working bool
	// detached means that the request goes on although it is no longer handled: whoever has it ends it.
	detached bool
}

type callKey struct{}

// From finds the call in a context. There is one in every request that a table serves.
func From(ctx context.Context) *Call {
	call, _ := ctx.Value(callKey{}).(*Call)
	return call
}

// Caller is the customer key that calls.
func Caller(ctx context.Context) *apikey.Principal { return From(ctx).Identity.Principal }

// By is who acts, for the audit log.
func By(ctx context.Context) audit.By {
	call := From(ctx)
	return audit.By{
		Kind: call.Identity.Kind, ID: call.Identity.ID, Label: call.Identity.Label,
		Action: call.op.Audit, Request: call.Request, IPHash: call.table.HashIP(call.source),
	}
}

// Source is where a call comes from: an IPv4 address, or the /64 of an IPv6 one.
func Source(ctx context.Context) string { return From(ctx).source }

// Started is when the request arrived.
func (c *Call) Started() time.Time { return c.started }

// staleTries bounds how often an identity is read again for one call.
const staleTries = 3

// admit lets a call pass or says why not. An identity that has changed meanwhile is read again and judged anew: this is
// where a revoked key is noticed.
func (t *Table) admit(ctx context.Context, call *Call) error {
	if t.Admit == nil || call.op.Public {
		return nil
	}
	for range staleTries {
		p := call.Identity.Principal
		d, err := t.Admit.Admit(ctx, admission.Call{
			Org: p.Org.ID, Account: call.account, Quota: call.quota, Epoch: p.Org.Epoch, Limits: &p.Org.Limits,
			Started: call.started, ReadAt: p.ReadAt(),
		})
		if err != nil {
			return err
		}
		if d.Stale {
			who, err := t.Auth.Refresh(ctx, call.Identity)
			if err != nil {
				return err
			}
			call.Identity = who
			if err := allowed(call.op.Scope, call.Identity.Scopes); err != nil {
				return err
			}
			continue
		}
		call.Decision = d
		rateHeaders(call.header, d, call.quota)
		if d.Denied != nil {
			return d.Denied.Problem()
		}
		return nil
	}
	return problem.ServiceUnavailable.New("The organisation is being changed right now.").After(1)
}

// allowed checks the scope, before anything is looked up: a scope error must not tell what exists.
func allowed(needed scope.Scope, held scope.Set) error {
	if held.Has(needed) {
		return nil
	}
	return problem.ScopeMissing.Newf("The operation needs the scope %s, which this key does not hold.", needed).
		With("missingScope", needed.String()).With("requiredScopes", []string{needed.String()}).With("heldScopes", held.Names())
}

// rateHeaders tells how much is left, in the words of the IETF draft and in the older ones. A limit that is not enforced
// is left out. All values are parts of one text: this runs on every call.
func rateHeaders(h http.Header, d admission.Decision, quota admission.Quota) {
	name, own := admission.AccountRead, d.Account
	switch quota {
	case admission.Write:
		name = admission.AccountWrite
	case admission.Safety:
		name, own = admission.SafetyReason, d.Safety
	case admission.Free, admission.Plain, admission.Read:
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
		text, from, to = item(text, 0, w.name, ";q=", w.Limit)
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
		text, from, to = item(text, policy, w.name, ";r=", w.Remaining)
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

// item adds one member to a list that starts at a place in the text, and says where its number is.
func item(text []byte, start int, name admission.Reason, parameter string, value int) (longer []byte, from, to int) {
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
