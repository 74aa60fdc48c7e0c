// Package accounts is the part of the public face that lists accounts: all of them as they are read, or page by page, with what else is to
// be known of them, as JSON or as a sheet. What is done with one account is in package api.
package accounts

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/server/csvexport"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// lister is implemented by *account.Accounts.
type lister interface {
	List(ctx context.Context, owner id.Org, f account.Filter, each func(account.Account) error) error
	CountByState(ctx context.Context, owner id.Org, f account.Filter) (map[account.State]int, error)
}

// hooks is implemented by *webhook.Webhooks.
type hooks interface {
	States(ctx context.Context, org id.Org, accounts []id.Account) (map[id.Account]string, error)
}

// meter says how often accounts were called; *usage.Usage does.
type meter interface {
	Activity(ctx context.Context, org id.Org, accounts []id.Account) (map[id.Account][]int64, error)
}

// Deps is what the operation needs.
type Deps struct {
	Accounts lister
	Webhooks hooks
	Usage    meter
}

type accounts struct{ Deps }

type listInput struct {
	State     string `query:"state" enum:"connecting,active,degraded,reauthenticating,reconnect_required,restricted,paused,attention" doc:"Only accounts in this state. attention stands for reconnect_required, restricted and degraded."`
	Reference string `query:"reference_id" maxLength:"255" doc:"Only accounts with this id of yours."`
	Label     string `query:"label" maxLength:"120" doc:"Only accounts with this label."`
	Query     string `query:"q" maxLength:"120" doc:"Only accounts that have this in their label, names or ids, whatever its case."`
	Order     string `query:"order" enum:"created,label,lastSeen" default:"created" doc:"label and lastSeen (the newest first) come in pages: give limit as well."`
	Activity  bool   `query:"activity" doc:"Also how often each account was called: calls24h and activity."`
	Counts    bool   `query:"counts" doc:"Also how many accounts there are in each state, of all that the filters but state choose."`
	Limit     int    `query:"limit" minimum:"1" maximum:"100" doc:"How many accounts. Left out, all of them."`
	Cursor    string `query:"cursor" maxLength:"512" doc:"nextCursor of the page before, with the same order."`
}

type accountsBody struct {
	Accounts   []Listed       `json:"accounts" doc:"In the order in which they were first connected, unless order says otherwise."`
	NextCursor *string        `json:"nextCursor" doc:"Null on the last page, and whenever no limit is given."`
	Counts     map[string]int `json:"counts,omitempty" doc:"How many there are in each state, in those that need attention (attention), and in all of them (total); only with counts."`
}

// Listed is an account in a list.
type Listed struct {
	account.View
	Webhook  *accountWebhook `json:"webhook" doc:"How delivery to its webhook goes; null if it has none."`
	Calls24h *int64          `json:"calls24h,omitempty" doc:"Calls in the last 24 hours, the current one included; only with activity."`
	Activity []int64         `json:"activity,omitempty" doc:"The same by hour, the current one last; only with activity."`
}

type accountWebhook struct {
	State string `json:"state" enum:"healthy,failing,paused,disabled"`
}

// needAttention is what callers write for several states at once.
const needAttention = "attention"

// listTimeout is for an org with as many accounts as any has, and a reader that is not fast.
const listTimeout = time.Minute

// Routes adds the operation.
func Routes(t *endpoint.Table, d Deps) {
	a := &accounts{d}
	endpoint.Written(t, endpoint.Operation{
		ID: "listAccounts", Method: http.MethodGet, Path: "/v1/accounts", Tag: "Accounts", Status: http.StatusOK, Timeout: listTimeout,
		Scope: scope.AccountsRead, Quota: admission.Plain, Answer: accountsBody{}, Media: []string{csvexport.Media}, Problems: []problem.Kind{problem.InvalidRequest},
		Summary: "List accounts",
		Description: "The organisation's connected accounts. Without `limit` all of them come in one answer, written as they are read; with it they come in pages: " +
			"send `nextCursor` back as `cursor`. Filters can be combined. A key with `accountIds` sees only those. With `Accept: text/csv` it is a sheet.",
	}, a.list)
}

func (a *accounts) list(w http.ResponseWriter, r *http.Request, in *listInput) error {
	caller := endpoint.Caller(r.Context())
	f, err := in.filter()
	if err != nil {
		return err
	}
	f.Among = caller.Key.Allow.Accounts
	w.Header().Add("Vary", "Accept")
	p := &pages{accounts: a, org: caller.Org.ID, most: in.Limit, order: f.Order, calls: in.Activity}
	if in.Counts {
		if p.counts, err = a.Accounts.CountByState(r.Context(), p.org, f); err != nil {
			return err
		}
	}
	if csvexport.Wanted(r.Header) {
		p.calls = true
		p.out = newSheet(w)
	} else {
		p.out = newDocument(w)
	}
	err = a.Accounts.List(r.Context(), p.org, f, func(one account.Account) error { return p.add(r.Context(), one) })
	if err != nil {
		return err
	}
	return p.end(r.Context())
}

// filter reads what huma cannot check.
func (in *listInput) filter() (account.Filter, error) {
	f := account.Filter{ReferenceID: in.Reference, Label: in.Label, Query: strings.TrimSpace(in.Query)}
	switch in.State {
	case "":
	case needAttention:
		f.States = account.NeedAttention()
	default:
		f.States = []account.State{account.State(in.State)}
	}
	switch in.Order {
	case "label":
		f.Order = account.ByLabel
	case "lastSeen":
		f.Order = account.ByLastSeen
	}
	bad := problem.InvalidRequest.New("A query parameter is not what the operation expects.")
	for name, text := range map[string]string{"q": in.Query, "label": in.Label, "reference_id": in.Reference} {
		if strings.ContainsRune(text, 0) || !utf8.ValidString(text) { // the database has no such text
			bad.At("query/"+name, "format", "must be text")
		}
	}
	if f.Order != 0 && in.Limit == 0 {
		bad.At("query/limit", "required", "must be given with this order")
	}
	if in.Cursor != "" {
		var ok bool
		if f.After, ok = parseCursor(in.Cursor, f.Order); !ok {
			bad.Detail = "The cursor is not one that this list gave out."
			bad.At("query/cursor", "format", "must be the nextCursor of an earlier page")
		}
	}
	if len(bad.Fields) > 0 {
		return f, bad
	}
	if in.Limit > 0 {
		f.Limit = in.Limit + 1 // one more tells whether there is a next page
	}
	return f, nil
}

// cursor is the place behind an account, as callers see it: its id, and in another order what that goes by.
func cursor(m account.PageKey, order account.Order) string {
	switch order {
	case account.ByLabel:
		return base64.RawURLEncoding.EncodeToString([]byte(string(m.ID) + "." + m.Label))
	case account.ByLastSeen:
		return base64.RawURLEncoding.EncodeToString([]byte(string(m.ID) + "." + strconv.FormatInt(m.Seen.UnixMicro(), 36)))
	}
	return string(m.ID)
}

// parseCursor reads what cursor made.
func parseCursor(text string, order account.Order) (account.PageKey, bool) {
	if order == 0 {
		at, err := id.Parse[id.Account](text)
		return account.PageKey{ID: at}, err == nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return account.PageKey{}, false
	}
	name, rest, found := strings.Cut(string(raw), ".")
	at, err := id.Parse[id.Account](name)
	if err != nil || !found {
		return account.PageKey{}, false
	}
	if order == account.ByLabel {
		return account.PageKey{ID: at, Label: rest}, utf8.ValidString(rest) && !strings.ContainsRune(rest, 0)
	}
	micros, err := strconv.ParseInt(rest, 36, 64)
	if err != nil || micros > maxMicros || micros < minMicros {
		return account.PageKey{}, false
	}
	return account.PageKey{ID: at, Seen: time.UnixMicro(micros).UTC()}, true
}

// The years 1 and 9999, within which every part of the system can write a time.
const (
	minMicros = -62_135_596_800_000_000
	maxMicros = 253_370_764_800_000_000
)
