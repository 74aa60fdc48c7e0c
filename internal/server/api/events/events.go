// Package events is the part of the public face that gives out events: as a stream (stream.go), page by page (pull.go), the
// newest first (latest.go), one of them, and the tokens with which browsers open streams (token.go). What is read is package stream's.
package events

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/delivery/stream"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// accounts says whether there is an account; *account.Accounts does.
type accounts interface {
	Get(ctx context.Context, owner id.Org, at id.Account) (account.Account, error)
}

// finder finds single events, and the newest; *event.Store does.
type finder interface {
	Find(ctx context.Context, org id.Org, source string, event id.Event) (event.Stored, error)
	FindOne(ctx context.Context, org id.Org, event id.Event) (event.Stored, error)
	Newest(ctx context.Context, n event.Newest) (list []event.Stored, next event.Position, err error)
}

// meter counts events that were streamed; *usage.Usage does.
type meter interface {
	Streamed(org id.Org, n int64)
}

// Deps is what the operations need.
type Deps struct {
	Streams  *stream.Streams
	Store    finder
	Kinds    *event.Kinds
	Accounts accounts
	Meter    meter
	// Permit is asked before events are sent; it returns the problem org-suspended.
	Permit func(ctx context.Context, org id.Org) error
	Now    func() time.Time
}

type events struct{ Deps }

// Query is what both streams take.
type Query struct {
	Events      []string `query:"events,explode" maxItems:"64" doc:"Only these events: names, families such as message* and account.*, and !name for what to leave out. Repeat it, or separate names by commas."`
	LastEventID string   `query:"last_event_id" maxLength:"64" doc:"Stream: go on behind this event, as the header Last-Event-ID does, which wins. 0 is from the oldest."`
	LastHeader  string   `header:"Last-Event-ID" maxLength:"64" doc:"Stream: go on behind this event."`
	After       string   `query:"after" maxLength:"64" doc:"Pull: nextCursor of the page before. Left out, from the oldest."`
	Limit       int      `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"Pull: how many events at most."`
	Wait        int      `query:"wait" minimum:"0" maximum:"25" doc:"Pull: how many seconds to wait if there is none."`
}

type accountInput struct {
	ID string `path:"id" doc:"The account's id."`
	Query
	Token string `query:"token" maxLength:"128" doc:"A token of POST /v1/accounts/{id}/events/token, instead of a key."`
}

type orgInput struct {
	Query
	Account string `query:"accountId" maxLength:"64" doc:"Only events of this account."`
	Latest  int    `query:"latest" minimum:"1" maximum:"100" doc:"Pull: so many of the newest events, newest first, instead of a page behind after."`
	Before  string `query:"before" maxLength:"64" doc:"With latest: nextCursor of the page before, to go on to older events."`
}

type pullBody struct {
	Events     []envelope `json:"events" doc:"Oldest first."`
	NextCursor string     `json:"nextCursor" doc:"Send it as after to go on."`
	Gap        bool       `json:"gap" doc:"Whether events behind the cursor can no longer be read."`
}

type orgPullBody struct {
	Events     []envelope `json:"events" doc:"Oldest first; with latest, newest first."`
	NextCursor *string    `json:"nextCursor" doc:"Send it as after to go on; with latest, as before, and null if there are no older events. With a filter a page can have fewer events than asked for and yet not be the last."`
	Gap        bool       `json:"gap" doc:"Whether events behind the cursor can no longer be read."`
}

type eventBody struct {
	Event envelope `json:"event"`
}

// envelope describes an event. The bytes are those of the store.
type envelope struct {
	ID        string     `json:"id" doc:"The same wherever and however often the event is seen."`
	Event     string     `json:"event" doc:"Its kind."`
	AccountID *string    `json:"accountId" doc:"Null for an event of the organisation itself."`
	TS        stamp.Time `json:"ts" doc:"When it was stored."`
	Data      any        `json:"data" doc:"What happened, by kind. Null once the account was deleted."`
	Meta      meta       `json:"meta"`
}

type meta struct {
	Seq         *int64      `json:"seq" doc:"Counts the account's events without holes; null for an ephemeral one."`
	Class       string      `json:"class" enum:"durable,ephemeral"`
	OfUserID    *string     `json:"ofUserId" doc:"The account's id on the platform."`
	ReferenceID *string     `json:"referenceId" doc:"Your own id of the account, if you gave one."`
	Sandbox     bool        `json:"sandbox"`
	UpstreamAt  *stamp.Time `json:"upstreamAt" doc:"When it happened by the platform's clock, if it says."`
	Schema      int         `json:"schema" doc:"The version of this form."`
	Purged      bool        `json:"purged,omitempty" doc:"True if the account was deleted: data is null, and the event's id, kind and time are all that is left."`
}

const (
	tag  = "Events"
	path = "/v1/accounts/{id}/events"
)

const streamText = "Server-sent events. The first one is `ready`; then come events with `id`, `event` (the kind) and `data` (the envelope), and a `heartbeat` every " +
	"15 seconds. Without a last event id the stream begins now; with one everything behind it is sent first, in order. If that is no longer kept, `ready` says " +
	"`gap: true` and the stream begins with the oldest. A last event `problem` says why a stream ends; connect again with the last id that you have seen.\n\n" +
	"With `Accept: application/json` the same events come page by page: send `nextCursor` back as `after`, and `wait` to be answered when there is something new."

// Routes adds the operations.
func Routes(t *endpoint.Table, d Deps) {
	e := &events{d}
	endpoint.Written(t, endpoint.Operation{
		ID: "streamAccountEvents", Method: http.MethodGet, Path: path, Tag: tag, Status: http.StatusOK, Account: "id", Streams: true,
		Scope: scope.AccountsRead, Quota: admission.Plain, Media: []string{eventStream}, Answer: pullBody{}, Ticket: e.ticket,
		Problems: []problem.Kind{problem.AccountNotFound, problem.InvalidRequest, problem.UnknownEvent, problem.ServerDraining},
		Summary:  "Events of an account", Description: streamText + "\n\nA browser, which cannot send a key, opens the stream with `?token=`.",
	}, e.account)
	endpoint.Written(t, endpoint.Operation{
		ID: "streamEvents", Method: http.MethodGet, Path: "/v1/events", Tag: tag, Status: http.StatusOK, Streams: true,
		Scope: scope.AccountsRead, Quota: admission.Plain, Media: []string{eventStream}, Answer: orgPullBody{},
		Problems: []problem.Kind{problem.InvalidRequest, problem.UnknownEvent, problem.ServerDraining, problem.AccountNotFound, problem.AccountNotAllowedForKey},
		Summary:  "Events of all accounts, and of the organisation",
		Description: streamText + " With `latest` and `Accept: application/json` the newest events come first.\n\n" +
			"Events of one account are in their order. Cursors of this stream are not those of an account's. " +
			"A key that is limited to accounts sees events of these only.",
	}, e.org)
	endpoint.Written(t, endpoint.Operation{
		ID: "findEvent", Method: http.MethodGet, Path: "/v1/events/{eventId}", Tag: tag, Status: http.StatusOK,
		Scope: scope.AccountsRead, Quota: admission.Plain, Answer: eventBody{}, Problems: []problem.Kind{problem.EventNotFound},
		Summary: "One event of any account", Description: "The event with this id, in the bytes in which it was sent, of whichever account or of the organisation. " +
			"A key that is limited to accounts finds events of these only.",
	}, e.findAny)
	endpoint.Written(t, endpoint.Operation{
		ID: "getEvent", Method: http.MethodGet, Path: path + "/{eventId}", Tag: tag, Status: http.StatusOK, Account: "id",
		Scope: scope.AccountsRead, Quota: admission.Plain, Answer: eventBody{}, Problems: []problem.Kind{problem.AccountNotFound, problem.EventNotFound},
		Summary: "One event", Description: "The event with this id, in the bytes in which it was sent.",
	}, e.get)
	e.tokens(t)
}

// existing finds the account that a path names.
func (e *events) existing(ctx context.Context, text string) (id.Account, error) {
	at, err := id.Parse[id.Account](text)
	if err != nil {
		return "", noAccount()
	}
	_, err = e.Accounts.Get(ctx, endpoint.Caller(ctx).Org.ID, at)
	return at, err
}

func noAccount() error {
	return problem.AccountNotFound.New("The organisation has no account with this id.")
}

func (e *events) account(w http.ResponseWriter, r *http.Request, in *accountInput) error {
	at, err := e.existing(r.Context(), in.ID)
	if err != nil {
		return err
	}
	want, err := e.want(r.Context(), at, in.Events)
	if err != nil {
		return err
	}
	return e.serve(w, r, want, &in.Query)
}

func (e *events) org(w http.ResponseWriter, r *http.Request, in *orgInput) error {
	want, err := e.want(r.Context(), "", in.Events)
	if err != nil {
		return err
	}
	if in.Account != "" {
		at, err := id.Parse[id.Account](in.Account)
		if err != nil {
			return noAccount()
		}
		if err := endpoint.MayUse(endpoint.Caller(r.Context()), at); err != nil {
			return err
		}
		if _, err := e.existing(r.Context(), in.Account); err != nil {
			return err
		}
		want.Among = []id.Account{at}
	}
	if in.Latest > 0 && pulls(r.Header) {
		w.Header().Add("Vary", "Accept")
		return e.latest(w, r, want, in)
	}
	if in.Latest > 0 || in.Before != "" {
		return problem.InvalidRequest.New("The newest events cannot be streamed backwards.").
			At("query/latest", "format", "must be sent with Accept: application/json, and before only with it")
	}
	return e.serve(w, r, want, &in.Query)
}

// want is what is asked for: events of an account, or of the org if that is empty.
func (e *events) want(ctx context.Context, at id.Account, names []string) (stream.Want, error) {
	p := endpoint.Caller(ctx)
	filter, err := e.filter(ctx, names)
	if err != nil {
		return stream.Want{}, err
	}
	want := stream.Want{Org: p.Org.ID, Account: at, Filter: filter, Days: p.Org.Limits.EventRetentionDays}
	if at == "" {
		want.Among = p.Key.Allow.Accounts
	}
	return want, nil
}

// serve gives events in the way that is asked for.
func (e *events) serve(w http.ResponseWriter, r *http.Request, want stream.Want, in *Query) error {
	w.Header().Add("Vary", "Accept")
	if pulls(r.Header) {
		return e.pull(w, r, want, in)
	}
	pointer := "query/last_event_id"
	if want.After = in.LastEventID; in.LastHeader != "" {
		want.After, pointer = in.LastHeader, "header/Last-Event-ID"
	}
	if err := sound(want.After, want.Account, pointer); err != nil {
		return err
	}
	return e.stream(w, r, want)
}

// sound refuses a cursor of another form, and says where it stands.
func sound(cursor string, at id.Account, pointer string) error {
	if cursor == "" {
		return nil
	}
	if err := stream.Check(cursor, at == ""); err != nil {
		p := problem.Of(err)
		p.At(pointer, "format", "must be the id of an event of this stream, or 0")
		return p
	}
	return nil
}

// pulls says whether a request asks for a page rather than for a stream.
func pulls(h http.Header) bool {
	accept := strings.ToLower(strings.Join(h["Accept"], ","))
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, eventStream)
}

// filter reads the names of events.
func (e *events) filter(ctx context.Context, given []string) (event.Filter, error) {
	var names []string
	for _, list := range given {
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
	}
	f, err := e.Kinds.Filter(endpoint.Caller(ctx).Org.Environment, names)
	if err == nil {
		return f, nil
	}
	p := problem.Of(err)
	if p.Kind.Code == problem.ValidationFailed.Code { // no body is at fault here
		p = problem.InvalidRequest.New(p.Detail).At("query/events", "items", p.Detail)
	}
	for i := range p.Fields {
		if strings.HasPrefix(p.Fields[i].Pointer, "/") {
			p.Fields[i].Pointer = "query" + p.Fields[i].Pointer
		}
	}
	return event.Filter{}, p
}

type eventInput struct {
	ID    string `path:"id" doc:"The account's id."`
	Event string `path:"eventId" maxLength:"64" doc:"The event's id."`
}

func (e *events) get(w http.ResponseWriter, r *http.Request, in *eventInput) error {
	at, err := e.existing(r.Context(), in.ID)
	if err != nil {
		return err
	}
	org := endpoint.Caller(r.Context()).Org
	found, err := e.find(r.Context(), org.ID, at, in.Event, event.Since(e.Now(), org.Limits.EventRetentionDays))
	if err != nil {
		return err
	}
	return writeEvent(w, &found)
}

// find finds an event that the org may still read.
func (e *events) find(ctx context.Context, org id.Org, at id.Account, text string, since time.Time) (event.Stored, error) {
	none := problem.EventNotFound.New("The account has no event with this id.")
	wanted, err := id.Parse[id.Event](text)
	if err != nil {
		return event.Stored{}, none
	}
	found, err := e.Store.Find(ctx, org, string(at), wanted)
	if err == nil && found.At.Before(since) {
		return event.Stored{}, none
	}
	return found, err
}
