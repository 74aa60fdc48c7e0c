package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/internal/audit"
	"github.com/stagedoor/stagedoor/internal/limit"
	"github.com/stagedoor/stagedoor/internal/problem"
	"github.com/stagedoor/stagedoor/internal/route"
	"github.com/stagedoor/stagedoor/internal/scope"
)

type auditInput struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"How many entries."`
	Cursor string `query:"cursor" maxLength:"32" doc:"nextCursor of the page before."`
}

type auditOutput struct{ Body auditBody }

type auditBody struct {
	Entries    []auditEntry `json:"entries" doc:"Newest first."`
	NextCursor *string      `json:"nextCursor" doc:"Null on the last page."`
}

type auditEntry struct {
	ID        string          `json:"id"`
	At        time.Time       `json:"at"`
	Actor     auditActor      `json:"actor"`
	Action    string          `json:"action"`
	Target    string          `json:"target" doc:"The id of what was changed."`
	Outcome   string          `json:"outcome" enum:"success" doc:"Changes that failed leave no entry."`
	RequestID string          `json:"requestId"`
	IPHash    string          `json:"ipHash" doc:"Equal for equal sources; the address cannot be read from it."`
	Changes   json.RawMessage `json:"changes" doc:"The fields that changed, each with from and to."`
}

type auditActor struct {
	Kind  string `json:"kind" enum:"key,operator,system,creator"`
	ID    string `json:"id"`
	Label string `json:"label"`
}

func (a *API) auditRoutes() {
	route.Typed(a.table, route.Operation{
		ID: "listAudit", Method: http.MethodGet, Path: "/v1/me/audit", Tag: "Audit", Status: http.StatusOK,
		Scope: scope.MeRead, Quota: limit.Plain,
		Summary: "Audit log", Description: "Who changed what in the organisation, newest first. A key with `accountIds` sees nothing of other accounts, so its pages can be shorter than `limit`.",
	}, a.listAudit)
}

func (a *API) listAudit(ctx context.Context, in *auditInput) (*auditOutput, error) {
	before, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	caller := route.Caller(ctx)
	entries, err := a.Audit.Page(ctx, caller.Org.ID, before, in.Limit)
	if err != nil {
		return nil, err
	}
	out := viewAudit(entries, in.Limit)
	out.Body.Entries = slices.DeleteFunc(out.Body.Entries, func(e auditEntry) bool { return !mayRead(&caller.Key.Allow, e.Target) })
	return out, nil
}

// viewAudit is a page of up to so many entries.
func viewAudit(entries []audit.Entry, limit int) *auditOutput {
	out := &auditOutput{auditBody{Entries: make([]auditEntry, len(entries))}}
	for i, e := range entries {
		out.Body.Entries[i] = auditEntry{
			string(e.ID), e.At, auditActor{string(e.By.Kind), e.By.ID, e.By.Label}, e.By.Action, e.Target, "success",
			string(e.By.Request), e.By.IPHash, e.Changes,
		}
	}
	if len(entries) == limit && entries[len(entries)-1].Seq > 1 {
		next := strconv.FormatInt(entries[len(entries)-1].Seq, 10)
		out.Body.NextCursor = &next
	}
	return out
}

// parseCursor reads a sequence number; it means nothing outside the caller's own org.
func parseCursor(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, problem.InvalidRequest.New("The cursor is not one that this list gave out.").
			At("query/cursor", "format", "must be the nextCursor of an earlier page")
	}
	return n, nil
}
