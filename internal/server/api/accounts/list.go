package accounts

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/server/csvexport"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

type listInput struct {
	State     string `query:"state" enum:"connecting,active,degraded,reauthenticating,reconnect_required,restricted,paused,attention" doc:"Only accounts in this state. attention stands for reconnect_required, restricted and degraded."`
	Reference string `query:"reference_id" maxLength:"255" doc:"Only accounts with this reference id (your own identifier)."`
	Label     string `query:"label" maxLength:"120" doc:"Only accounts with this label."`
	Platform  string `query:"platform" maxLength:"32" doc:"Only accounts on this platform."`
	Query     string `query:"q" maxLength:"120" doc:"Only accounts whose label, names or ids contain this text. Case is ignored."`
	Order     string `query:"order" enum:"created,label,lastSeen" default:"created" doc:"label and lastSeen (newest first) require limit."`
	Activity  bool   `query:"activity" doc:"Include how often each account was called: calls24h and activity."`
	Counts    bool   `query:"counts" doc:"Include the number of accounts in each state. All filters except state apply to it."`
	Limit     int    `query:"limit" minimum:"1" maximum:"100" doc:"The maximum number of accounts. Default: all."`
	Cursor    string `query:"cursor" maxLength:"512" doc:"nextCursor of the previous page, with the same order."`
}

type accountsBody struct {
	_          struct{}       `schema:"AccountPage" doc:"A page of accounts."`
	Accounts   []Listed       `json:"accounts" doc:"In the order in which they were first connected, unless order is set."`
	NextCursor *string        `json:"nextCursor" doc:"Null on the last page and without limit."`
	Counts     map[string]int `json:"counts,omitempty" doc:"Only with counts: the number of accounts in each state, in the states that need attention (attention), and in all states (total)."`
}

// Listed is an account in a list.
type Listed struct {
	_ struct{} `schema:"ListedAccount" doc:"An account in a list."`
	contract.Account
	Webhook  *accountWebhook `json:"webhook" doc:"The state of delivery to its webhook; null if it has none."`
	Calls24h *int64          `json:"calls24h,omitempty" doc:"Only with activity: calls in the last 24 hours, including the current hour."`
	Activity []int64         `json:"activity,omitempty" doc:"Only with activity: the same by hour, the current hour last."`
}

type accountWebhook struct {
	_     struct{} `doc:"The health of an account's webhook."`
	State string   `json:"state" enum:"healthy,failing,paused,disabled" doc:"How the deliveries go; none if the account has no webhook."`
}

// needAttention is the filter value for several states.
const needAttention = "attention"

// listTimeout is enough for the largest org and a slow reader.
const listTimeout = time.Minute

func (a *accounts) listRoute(t *endpoint.Table) {
	endpoint.Written(t, endpoint.Operation{
		ID: "listAccounts", Method: http.MethodGet, Path: "/v1/accounts", Tag: tag, Status: http.StatusOK, Timeout: listTimeout,
		Scope: scope.AccountsRead, Quota: admission.Plain, Answer: accountsBody{}, Media: []string{csvexport.Media}, Problems: []problem.Kind{problem.InvalidRequest},
		Summary: "List accounts",
		Description: "The organisation's connected accounts. Without `limit` one response has all of them; with `limit` it has one page: " +
			"send `nextCursor` as `cursor` for the next. Filters can be combined. A key with `accountIds` sees only those accounts. With `Accept: text/csv` the response is CSV.",
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
	p := &pager{accounts: a, org: caller.Org.ID, most: in.Limit, order: f.Order, calls: in.Activity}
	if in.Counts {
		if p.counts, err = a.Accounts.CountByState(r.Context(), p.org, f); err != nil {
			return err
		}
	}
	if csvexport.Requested(r.Header) {
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

// filter checks what huma cannot check.
func (in *listInput) filter() (account.Filter, error) {
	f := account.Filter{Platform: in.Platform, ReferenceID: in.Reference, Label: in.Label, Query: strings.TrimSpace(in.Query)}
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
	bad := problem.InvalidRequest.New("A query parameter is invalid.")
	if f.Order != 0 && in.Limit == 0 {
		bad.At("query/limit", "required", "must be given with this order")
	}
	if in.Cursor != "" {
		var ok bool
		if f.After, ok = parseCursor(in.Cursor, f.Order); !ok {
			bad.Detail = "The cursor is invalid."
			bad.At("query/cursor", "format", "must be the nextCursor of an earlier page")
		}
	}
	if len(bad.Fields) > 0 {
		return f, bad
	}
	if in.Limit > 0 {
		f.Limit = in.Limit + 1 // One more shows whether there is a next page.
	}
	return f, nil
}

// cursor encodes the position after an account: its id, and the value that the list is ordered by.
func cursor(m account.PageKey, order account.Order) string {
	switch order {
	case account.ByLabel:
		return base64.RawURLEncoding.EncodeToString([]byte(string(m.ID) + "." + m.Label))
	case account.ByLastSeen:
		return base64.RawURLEncoding.EncodeToString([]byte(string(m.ID) + "." + strconv.FormatInt(m.Seen.UnixMicro(), 36)))
	}
	return string(m.ID)
}

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

// The years 1 and 9999: every part of the system can encode times between them.
const (
	minMicros = -62_135_596_800_000_000
	maxMicros = 253_370_764_800_000_000
)
