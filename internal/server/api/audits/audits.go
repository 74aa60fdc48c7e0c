// Package audits has the operations of the public API that show who changed what, in the organisation and for one
// account.
package audits

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/server/csvexport"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

type audits struct {
	log      *audit.Log
	accounts *account.Accounts
}

type listInput struct {
	Action string    `query:"action" maxLength:"64" doc:"Only this action, for example key.mint."`
	Actor  string    `query:"actorId" maxLength:"64" doc:"Only changes by the key, member or operator with this id."`
	Target string    `query:"target" maxLength:"64" doc:"Only changes to the object with this id."`
	Since  time.Time `query:"since" doc:"Only entries from this time or later."`
	Until  time.Time `query:"until" doc:"Only entries from before this time."`
	Limit  int       `query:"limit" minimum:"1" maximum:"10000" doc:"The maximum number of entries. JSON: up to 100. Default: 50. CSV: up to 10000. Default: 10000."`
	Cursor string    `query:"cursor" maxLength:"32" doc:"nextCursor of the previous page."`
}

type accountInput struct {
	ID     string `path:"id" maxLength:"64" doc:"The account's id."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"The maximum number of entries."`
	Cursor string `query:"cursor" maxLength:"32" doc:"nextCursor of the previous page."`
}

type auditOutput struct{ Body auditBody }

type auditBody struct {
	_          struct{}     `schema:"AuditPage" doc:"A page of audit entries."`
	Entries    []auditEntry `json:"entries" doc:"Newest first."`
	NextCursor *string      `json:"nextCursor" doc:"Null on the last page."`
}

type auditEntry struct {
	_         struct{}        `doc:"An action in the organisation."`
	ID        string          `json:"id" doc:"The id of the entry."`
	At        stamp.Time      `json:"at" doc:"When it happened."`
	Actor     auditActor      `json:"actor" doc:"Who did it."`
	Action    string          `json:"action" doc:"What was done, such as webhook.put."`
	Target    string          `json:"target" doc:"The id of the changed object."`
	Outcome   string          `json:"outcome" enum:"success" doc:"Failed changes have no entry."`
	RequestID string          `json:"requestId" doc:"The request that did it."`
	IPHash    string          `json:"ipHash" doc:"A hash of the source address: equal for equal sources, and not reversible."`
	Changes   json.RawMessage `json:"changes" doc:"The fields that changed, each with from and to."`
}

type auditActor struct {
	_     struct{} `doc:"The person or key that did something."`
	Kind  string   `json:"kind" enum:"key,operator,system,creator,member" doc:"What kind of caller it was."`
	ID    string   `json:"id" doc:"The id of the key, member or operator."`
	Label string   `json:"label" doc:"The name of the key or person; may be empty."`
}

const (
	// defaultLimit and pageLimit are those of a JSON page. csvPage is the number of rows that a CSV export reads at a
	// time.
	defaultLimit, pageLimit, csvPage = 50, 100, 1000
	// listTimeout is enough for the largest CSV export.
	listTimeout = time.Minute
)

// Routes adds the operations.
func Routes(t *endpoint.Table, log *audit.Log, accounts *account.Accounts) {
	a := &audits{log, accounts}
	endpoint.Written(t, endpoint.Operation{
		ID: "listAudit", Method: http.MethodGet, Path: "/v1/me/audit", Tag: "Audit", Status: http.StatusOK, Timeout: listTimeout,
		Scope: scope.MeRead, Quota: admission.Plain, Answer: auditBody{}, Media: []string{csvexport.Media}, Problems: []problem.Kind{problem.InvalidRequest},
		Summary: "List audit entries", Description: "Who changed what in the organisation, newest first. Filters can be combined. A key with `accountIds` does not see entries of other accounts, so its pages " +
			"can be shorter than `limit`. With `Accept: text/csv` the response is CSV with up to 10,000 entries.",
	}, a.list)
	endpoint.Typed(t, endpoint.Operation{
		ID: "listAccountAudit", Method: http.MethodGet, Path: "/v1/accounts/{id}/audit", Tag: "Accounts", Status: http.StatusOK,
		Scope: scope.AccountsRead, Quota: admission.Plain, Account: "id", Problems: []problem.Kind{problem.InvalidRequest, problem.AccountNotFound},
		Summary: "List audit entries of an account", Description: "Who changed what for the account, newest first. The entries stay readable after the account is disconnected.",
	}, endpoint.OnAccount(a.listOfAccount))
}

func (a *audits) list(w http.ResponseWriter, r *http.Request, in *listInput) error {
	f, before, err := in.filter()
	if err != nil {
		return err
	}
	caller := endpoint.Caller(r.Context())
	w.Header().Add("Vary", "Accept")
	if csvexport.Requested(r.Header) {
		return a.writeCSV(w, r, in, f, before)
	}
	most := in.Limit
	switch {
	case most == 0:
		most = defaultLimit
	case most > pageLimit:
		return problem.InvalidRequest.New("A query parameter is invalid.").At("query/limit", "range", "expected number <= 100")
	}
	entries, err := a.log.Choose(r.Context(), caller.Org.ID, f, before, most)
	if err != nil {
		return err
	}
	return endpoint.WriteJSON(w, http.StatusOK, view(entries, most, &caller.Key.Allow).Body)
}

// filter checks what huma cannot check.
func (in *listInput) filter() (audit.Filter, int64, error) {
	bad := problem.InvalidRequest.New("A query parameter is invalid.")
	endpoint.CheckPeriod(bad, in.Since, in.Until)
	if len(bad.Fields) > 0 {
		return audit.Filter{}, 0, bad
	}
	before, err := parseCursor(in.Cursor)
	return audit.Filter{Action: in.Action, ActorID: in.Actor, Target: in.Target, Since: in.Since, Until: in.Until}, before, err
}

func (a *audits) writeCSV(w http.ResponseWriter, r *http.Request, in *listInput, f audit.Filter, before int64) error {
	caller := endpoint.Caller(r.Context())
	out := csvexport.New(w, "audit", "at", "id", "actorKind", "actorId", "actorLabel", "action", "target", "outcome", "requestId", "ipHash", "changes")
	left := cmp.Or(in.Limit, csvexport.MaxRows)
	for left > 0 {
		rows := min(left, csvPage)
		entries, err := a.log.Choose(r.Context(), caller.Org.ID, f, before, rows)
		if err != nil {
			return err
		}
		for _, e := range view(entries, rows, &caller.Key.Allow).Body.Entries {
			err := out.Row(csvexport.Time(&e.At), e.ID, e.Actor.Kind, e.Actor.ID, e.Actor.Label, e.Action, e.Target, e.Outcome, e.RequestID, e.IPHash, string(e.Changes))
			if err != nil {
				return err
			}
		}
		left -= len(entries)
		if len(entries) < rows {
			break
		}
		before = entries[len(entries)-1].Seq
	}
	return out.End()
}

// listOfAccount also works for a disconnected account: every account has at least the entry of its connection.
func (a *audits) listOfAccount(ctx context.Context, at id.Account, in *accountInput) (*auditOutput, error) {
	before, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	owner := endpoint.Caller(ctx).Org.ID
	entries, err := a.log.Choose(ctx, owner, audit.Filter{Target: string(at)}, before, in.Limit)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		if _, err := a.accounts.Get(ctx, owner, at); err != nil {
			return nil, err
		}
	}
	return view(entries, in.Limit, &apikey.Allow{}), nil
}

// view returns a page of up to limit entries, without those that a key may not read.
func view(entries []audit.Entry, limit int, allow *apikey.Allow) *auditOutput {
	out := &auditOutput{auditBody{Entries: make([]auditEntry, 0, len(entries))}}
	for _, e := range entries {
		if !mayRead(allow, e.Target) {
			continue
		}
		out.Body.Entries = append(out.Body.Entries, auditEntry{
			ID: string(e.ID), At: stamp.Time(e.At),
			Actor: auditActor{Kind: string(e.By.Kind), ID: e.By.ID, Label: e.By.Label}, Action: e.By.Action,
			Target: e.Target, Outcome: "success",
			RequestID: string(e.By.Request), IPHash: e.By.IPHash, Changes: e.Changes,
		})
	}
	if len(entries) == limit && entries[len(entries)-1].Seq > 1 {
		next := strconv.FormatInt(entries[len(entries)-1].Seq, 10)
		out.Body.NextCursor = &next
	}
	return out
}

// mayRead reports whether a key may read about an object. The id of an attempt or a link does not show whose it is, so
// a limited key sees neither.
func mayRead(allow *apikey.Allow, target string) bool {
	if allow.Accounts == nil {
		return true
	}
	if account, err := id.Parse[id.Account](target); err == nil {
		return allow.MayUse(account)
	}
	_, noAttempt := id.Parse[id.Attempt](target)
	_, noSession := id.Parse[id.Session](target)
	return noAttempt != nil && noSession != nil
}

// parseCursor parses a sequence number, which is meaningless outside the caller's org.
func parseCursor(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, endpoint.InvalidCursor("query/cursor")
	}
	return n, nil
}
