package route

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/apikey"
	"github.com/stagedoor/stagedoor/internal/audit"
	"github.com/stagedoor/stagedoor/internal/id"
	"github.com/stagedoor/stagedoor/internal/limit"
	"github.com/stagedoor/stagedoor/internal/problem"
	"github.com/stagedoor/stagedoor/internal/scope"
)

// Call is one request on its way through the table.
type Call struct {
	Request  id.Request
	Identity Identity
	// Decision is what admission said; empty on faces without one.
	Decision limit.Decision

	table   *Table
	op      *Operation
	header  http.Header
	source  string
	started time.Time
	problem string
	fault   error
	span    trace.Span
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
		d, err := t.Admit.Admit(ctx, limit.Call{
			Org: p.Org.ID, Quota: call.op.Quota, Epoch: p.Org.Epoch, Limits: &p.Org.Limits,
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
		rateHeaders(call.header, d)
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
func rateHeaders(h http.Header, d limit.Decision) {
	minute, month := d.Org.Limit > 0, d.Month.Limit > 0
	if !minute && !month {
		return
	}
	var buf [160]byte
	text := buf[:0]
	item := func(name string, value int, suffix string) (from, to int) {
		text = append(text, name...)
		from = len(text)
		text = strconv.AppendInt(text, int64(value), 10)
		to = len(text)
		text = append(text, suffix...)
		return from, to
	}
	both := func() {
		if minute && month {
			text = append(text, ", "...)
		}
	}
	var limitFrom, limitTo, leftFrom, leftTo int
	if minute {
		limitFrom, limitTo = item(`"org_rpm";q=`, d.Org.Limit, ";w=60")
	}
	both()
	if month {
		item(`"org_monthly";q=`, d.Month.Limit, "")
	}
	policy := len(text)
	if minute {
		leftFrom, leftTo = item(`"org_rpm";r=`, d.Org.Remaining, "")
	}
	both()
	if month {
		item(`"org_monthly";r=`, d.Month.Remaining, "")
	}
	left := len(text)
	text = strconv.AppendInt(text, d.Org.Reset, 10)
	whole := string(text)
	values := []string{whole[:policy], whole[policy:left], whole[limitFrom:limitTo], whole[leftFrom:leftTo], whole[left:]}
	names := [...]string{"Ratelimit-Policy", "Ratelimit", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}
	for i, name := range names {
		if i < 2 || minute {
			h[name] = values[i : i+1 : i+1]
		}
	}
}
