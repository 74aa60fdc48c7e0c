package endpoint_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
)

// An operation on an account uses the account's limits and is counted for it, unless the id is malformed.
func TestAccountLimitsAreUsed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.admission.decide = func(c admission.Call) admission.Decision {
		d := admission.Decision{Org: admission.Window{Limit: 600, Remaining: 599, Reset: 9}, Month: admission.Window{Limit: 1000, Remaining: 7}}
		if c.Quota == admission.Read || c.Quota == admission.Write {
			d.Account = admission.Window{Limit: 60, Remaining: 58}
		}
		return d
	}
	for name, quota := range map[string]admission.Quota{"read": admission.Read, "write": admission.Write, "plain": admission.Plain} {
		endpoint.Typed(f.Table, endpoint.Operation{
			ID: name, Method: http.MethodGet, Path: "/accounts/{id}/" + name, Tag: "T", Summary: "S", Status: http.StatusOK, Quota: quota, Account: "id",
		}, func(_ context.Context, in *struct {
			ID string `path:"id"`
		}) (*nothing, error) {
			if strings.HasSuffix(in.ID, "zz") {
				return nil, problem.AccountNotFound.New("none")
			}
			return &nothing{}, nil
		})
	}
	account := id.New[id.Account]()
	made := account[:len(account)-2] + "zz"
	for _, c := range []struct {
		path            string
		quota           admission.Quota
		account         id.Account
		counted         usage.Call
		policy, limited string
	}{
		{"/accounts/" + string(account) + "/read", admission.Read, account, usage.Call{Account: account, Operation: "read", Access: usage.Read, Outcome: usage.OK}, `, "account_read_rpm";q=60;w=60`, `, "account_read_rpm";r=58`},
		{"/accounts/" + string(account) + "/write", admission.Write, account, usage.Call{Account: account, Operation: "write", Access: usage.Write, Outcome: usage.OK}, `, "account_write_rpm";q=60;w=60`, `, "account_write_rpm";r=58`},
		{"/accounts/" + string(account) + "/plain", admission.Plain, account, usage.Call{Account: account, Operation: "plain", Access: usage.Plain, Outcome: usage.OK}, "", ""},
		{"/accounts/nobody/read", admission.Plain, "", usage.Call{Operation: "read", Access: usage.Plain, Outcome: usage.OK}, "", ""},
		{"/accounts/" + string(made) + "/read", admission.Read, made, usage.Call{Operation: "read", Access: usage.Read, Outcome: usage.Failed}, `, "account_read_rpm";q=60;w=60`, `, "account_read_rpm";r=58`},
	} {
		w := f.do(t, http.MethodGet, c.path, nil)
		asked := f.admission.calls()
		if got := asked[len(asked)-1]; got.Quota != c.quota || got.Account != c.account {
			t.Errorf("%s was admitted as %d of %s", c.path, got.Quota, got.Account)
		}
		c.counted.Org, c.counted.Key = f.customer.principal.Org.ID, f.customer.principal.Key.ID
		got := f.counted.calls[len(f.counted.calls)-1]
		if got.Status != w.Code {
			t.Errorf("%s was counted with status %d", c.path, got.Status)
		}
		if got.Status, got.Took = 0, 0; got != c.counted {
			t.Errorf("%s was counted as %+v", c.path, got)
		}
		if got := w.Header().Get("RateLimit-Policy"); got != `"org_rpm";q=600;w=60, "org_monthly";q=1000`+c.policy {
			t.Errorf("%s: policy %s", c.path, got)
		}
		if got := w.Header().Get("RateLimit"); got != `"org_rpm";r=599, "org_monthly";r=7`+c.limited {
			t.Errorf("%s: %s", c.path, got)
		}
		if h := w.Header(); h.Get("X-RateLimit-Limit") != "600" || h.Get("X-RateLimit-Remaining") != "599" || h.Get("X-RateLimit-Reset") != "9" {
			t.Errorf("%s: %v", c.path, h)
		}
	}
}

// Limits that are not enforced are omitted from the headers, in any combination.
func TestUnenforcedLimitsAreOmitted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	var d admission.Decision
	f.admission.decide = func(admission.Call) admission.Decision { return d }
	endpoint.Typed(f.Table, endpoint.Operation{
		ID: "x", Method: http.MethodGet, Path: "/x/{id}", Tag: "T", Summary: "S", Status: http.StatusOK, Quota: admission.Write, Account: "id",
	}, func(context.Context, *struct {
		ID string `path:"id"`
	}) (*nothing, error) {
		return &nothing{}, nil
	})
	some, none := admission.Window{Limit: 5, Remaining: 4}, admission.Window{Limit: -1}
	for _, c := range []struct {
		org, month, account admission.Window
		policy, left        string
	}{
		{none, none, none, "", ""},
		{some, none, none, `"org_rpm";q=5;w=60`, `"org_rpm";r=4`},
		{none, some, none, `"org_monthly";q=5`, `"org_monthly";r=4`},
		{none, none, some, `"account_write_rpm";q=5;w=60`, `"account_write_rpm";r=4`},
		{some, none, some, `"org_rpm";q=5;w=60, "account_write_rpm";q=5;w=60`, `"org_rpm";r=4, "account_write_rpm";r=4`},
	} {
		d = admission.Decision{Org: c.org, Month: c.month, Account: c.account}
		h := f.do(t, http.MethodGet, "/x/"+string(id.New[id.Account]()), nil).Header()
		if h.Get("RateLimit-Policy") != c.policy || h.Get("RateLimit") != c.left || (h.Get("X-RateLimit-Limit") != "") != (c.org.Limit > 0) {
			t.Errorf("%+v: %v", c, h)
		}
	}
}

// An operation that uses an account's limits must name the account, with a parameter that its path has.
func TestAccountsMustBeNamed(t *testing.T) {
	t.Parallel()
	for what, op := range map[string]endpoint.Operation{
		"no account":      {Quota: admission.Read, Path: "/a/{id}"},
		"other parameter": {Quota: admission.Plain, Account: "account", Path: "/a/{id}"},
	} {
		op.ID, op.Method, op.Tag, op.Summary, op.Status = "x", http.MethodGet, "T", "S", http.StatusOK
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: served", what)
				}
			}()
			endpoint.Plain(newFixture(t, nil).Table, op, func(http.ResponseWriter, *http.Request) error { return nil })
		}()
	}
}
