package route

import (
	"context"
	"net/http"
	"strconv"
	"time"

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
			if call.Identity, err = t.Auth.Refresh(ctx, call.Identity); err != nil {
				return err
			}
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

// rateHeaders tells how much is left, in the words of the IETF draft and in the older ones.
func rateHeaders(h http.Header, d limit.Decision) {
	if d.Org.Limit <= 0 {
		return
	}
	buf := make([]byte, 0, 96)
	buf = append(buf, `"org_rpm";q=`...)
	buf = strconv.AppendInt(buf, int64(d.Org.Limit), 10)
	buf = append(buf, ";w=60"...)
	if d.Month.Limit > 0 {
		buf = append(buf, `, "org_monthly";q=`...)
		buf = strconv.AppendInt(buf, int64(d.Month.Limit), 10)
	}
	policy := len(buf)
	buf = append(buf, `"org_rpm";r=`...)
	buf = strconv.AppendInt(buf, int64(d.Org.Remaining), 10)
	if d.Month.Limit > 0 {
		buf = append(buf, `, "org_monthly";r=`...)
		buf = strconv.AppendInt(buf, int64(d.Month.Remaining), 10)
	}
	text := string(buf)
	values := []string{text[:policy], text[policy:], strconv.Itoa(d.Org.Limit), strconv.Itoa(d.Org.Remaining), strconv.FormatInt(d.Org.Reset, 10)}
	for i, name := range []string{"Ratelimit-Policy", "Ratelimit", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"} {
		h[name] = values[i : i+1 : i+1]
	}
}
