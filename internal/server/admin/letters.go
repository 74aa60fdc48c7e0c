package admin

import (
	"context"
	"math"
	"net/http"
	"strconv"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

type listLettersInput struct {
	Limit  int   `query:"limit" minimum:"1" maximum:"100" default:"50"`
	Before int64 `query:"before" minimum:"1" doc:"Lists letters with a lower id; the last id of the previous page."`
}

type listLettersOutput struct {
	Body struct {
		DeadLetters []letterBody `json:"deadLetters" doc:"Newest first."`
	}
}

// letterBody is a dead letter without its record, which is a customer's.
type letterBody struct {
	ID        int64      `json:"id"`
	At        stamp.Time `json:"at"`
	OrgID     *string    `json:"orgId" doc:"Null if the record could not be read."`
	AccountID *string    `json:"accountId"`
	Kind      *string    `json:"kind"`
	Reason    string     `json:"reason" enum:"unreadable,refused" doc:"The error may quote the record, so it is only in the log of the node."`
	Requeued  bool       `json:"requeued" doc:"True while it waits to be stored again."`
	Bytes     int        `json:"bytes"`
}

type letterInput struct {
	ID int64 `path:"id" minimum:"1"`
}

type letterOutput struct {
	Body struct {
		DeadLetter letterBody `json:"deadLetter"`
	}
}

func (a *Admin) letterRoutes() {
	op := func(o endpoint.Operation) endpoint.Operation {
		o.Tag, o.Scope, o.Status = "Dead letters", leastRole(o), http.StatusOK
		return o
	}
	notFound := []problem.Kind{problem.LetterNotFound}
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "listDeadLetters", Method: http.MethodGet, Path: "/admin/v1/dead-letters", Summary: "List dead letters",
		Description: "Events that could not be stored, with the reason. Their contents are not shown. They are kept for 30 days.",
	}), a.listLetters)
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "requeueDeadLetter", Method: http.MethodPost, Path: "/admin/v1/dead-letters/{id}/requeue", Audit: "dead_letter.requeue", Problems: notFound,
		Summary:     "Store a dead letter again",
		Description: "The event gets the next sequence number of its account, within seconds. If it still cannot be stored, the letter stays.",
	}), a.requeueLetter)
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "deleteDeadLetter", Method: http.MethodDelete, Path: "/admin/v1/dead-letters/{id}", Audit: "dead_letter.delete", Problems: notFound,
		Summary: "Delete a dead letter",
	}), a.deleteLetter)
}

func (a *Admin) listLetters(ctx context.Context, in *listLettersInput) (*listLettersOutput, error) {
	before := in.Before
	if before == 0 {
		before = math.MaxInt64
	}
	list, err := a.deps.Events.DeadLetters(ctx, before, in.Limit)
	out := &listLettersOutput{}
	out.Body.DeadLetters = postgres.Convert(list, viewLetter)
	return out, err
}

func viewLetter(l event.DeadLetter) letterBody {
	reason := "refused"
	if l.Org == "" {
		reason = "unreadable"
	}
	return letterBody{
		ID: l.ID, At: stamp.Time(l.At), OrgID: endpoint.NilIfEmpty(string(l.Org)), AccountID: endpoint.NilIfEmpty(l.Source),
		Kind: endpoint.NilIfEmpty(l.Kind), Reason: reason, Requeued: l.Requeued, Bytes: l.Size,
	}
}

func (a *Admin) requeueLetter(ctx context.Context, in *letterInput) (*letterOutput, error) {
	return a.changeLetter(ctx, in.ID, a.deps.Events.RequeueLetter)
}

func (a *Admin) deleteLetter(ctx context.Context, in *letterInput) (*letterOutput, error) {
	return a.changeLetter(ctx, in.ID, a.deps.Events.DeleteLetter)
}

func (a *Admin) changeLetter(ctx context.Context, letter int64, do func(context.Context, postgres.Tx, int64) (event.DeadLetter, error)) (*letterOutput, error) {
	out := &letterOutput{}
	err := a.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		l, err := do(ctx, tx, letter)
		if err != nil {
			return err
		}
		out.Body.DeadLetter = viewLetter(l)
		return a.deps.Audit.Record(ctx, tx, audit.Operators, endpoint.By(ctx), "dead-letter/"+strconv.FormatInt(letter, 10),
			audit.Changes{"org": {To: string(l.Org)}, "account": {To: l.Source}})
	})
	return out, err
}
