// Package events has the operations of the public API that read events: as a stream (stream.go), page by page
// (pull.go), the newest first (latest.go) and one at a time, and the tokens with which browsers open streams
// (token.go). Reading and waiting for events is done by delivery/stream. Start reading at Routes.
package events

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/delivery/stream"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// accounts finds accounts. *account.Accounts implements it.
type accounts interface {
	Get(ctx context.Context, owner id.Org, at id.Account) (account.Account, error)
}

// finder finds single events and the newest ones. *event.Store implements it.
type finder interface {
	Find(ctx context.Context, org id.Org, source string, event id.Event) (event.Stored, error)
	FindOne(ctx context.Context, org id.Org, event id.Event) (event.Stored, error)
	Newest(ctx context.Context, n event.Newest) (event.NewestPage, error)
	Cursor(p event.Position, ofOrg bool) string
	Position(ctx context.Context, cursor string, ofOrg bool) (p event.Position, known bool, err error)
}

// meter counts streamed events. *usage.Usage implements it.
type meter interface {
	Streamed(org id.Org, n int64)
}

// Deps are the dependencies of the operations.
type Deps struct {
	Streams *stream.Streams
	Store   finder
	Kinds   *event.Kinds
	// OpenAPI returns the OpenAPI document. It is called after all operations were added.
	OpenAPI func() ([]byte, error)
	// Documented is the platform whose events the document describes.
	Documented string
	Accounts   accounts
	Meter      meter
	// Permit is called before events are sent. It returns the problem org-suspended.
	Permit func(ctx context.Context, org id.Org) error
	// Tracer continues the traces of events; nil if nothing is traced.
	Tracer trace.Tracer
	Now    func() time.Time
}

type events struct {
	Deps
	// described are the events of the OpenAPI document.
	described func() (map[string]endpoint.EventSchema, error)
}

// Query is the input that both streams share.
type Query struct {
	Events      []string  `query:"events,explode" maxItems:"64" doc:"Only these events: names, patterns such as message* and account.*, and !name to exclude. Repeat the parameter, or separate names with commas."`
	LastEventID string    `query:"last_event_id" maxLength:"64" doc:"Stream: continue after this event. The header Last-Event-ID takes precedence. 0 starts with the oldest event."`
	LastHeader  string    `header:"Last-Event-ID" maxLength:"64" doc:"Stream: continue after this event."`
	After       string    `query:"after" maxLength:"64" doc:"Pull: nextCursor of the previous page. Default: start with the oldest event."`
	Limit       int       `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"Pull: the maximum number of events."`
	Wait        int       `query:"wait" minimum:"0" maximum:"25" doc:"Pull: seconds to wait for an event if there is none."`
	FromTime    time.Time `query:"fromTime" doc:"Pull: only events that were stored at this time or later. Default, with toTime or q: 30 days before toTime."`
	ToTime      time.Time `query:"toTime" doc:"Pull: only events that were stored at this time or earlier, at most 30 days after fromTime. Default: now."`
	Text        string    `query:"q" maxLength:"200" doc:"Pull: only events that contain this text, ignoring case. A page looks at up to 10,000 events; scanned says at how many."`
}

type accountInput struct {
	ID string `path:"id" doc:"The account's id."`
	Query
	Token string `query:"token" maxLength:"128" doc:"A token from POST /v1/accounts/{id}/events/token, instead of a key."`
}

type orgInput struct {
	Query
	Account string `query:"accountId" maxLength:"64" doc:"Only events of this account."`
	Latest  int    `query:"latest" minimum:"1" maximum:"100" doc:"Pull: the newest N events, newest first, instead of a page after the cursor."`
	Before  string `query:"before" maxLength:"64" doc:"With latest: nextCursor of the previous page, to continue with older events."`
}

type pullBody struct {
	_          struct{}   `schema:"EventPage" doc:"A page of events of an account."`
	Events     []envelope `json:"events" doc:"Oldest first."`
	NextCursor string     `json:"nextCursor" doc:"Send it as after to continue."`
	Gap        bool       `json:"gap" doc:"Whether events after the cursor have expired and can no longer be read."`
	Scanned    *int       `json:"scanned,omitempty" doc:"With fromTime, toTime or q: how many events of the period this page has looked at. The period is over when it is 0."`
}

type orgPullBody struct {
	_          struct{}   `schema:"OrgEventPage" doc:"A page of events of the organisation."`
	Events     []envelope `json:"events" doc:"Oldest first; with latest, newest first."`
	NextCursor *string    `json:"nextCursor" doc:"Send it as after to continue. With latest: send it as before; null if there are no older events. With a filter, a page can have fewer events than requested without being the last."`
	Gap        bool       `json:"gap" doc:"Whether events after the cursor have expired and can no longer be read."`
	Scanned    *int       `json:"scanned,omitempty" doc:"With fromTime, toTime or q: how many events of the period this page has looked at. Without latest, the period is over when it is 0."`
}

type eventBody struct {
	_     struct{} `schema:"EventResponse" doc:"One event."`
	Event envelope `json:"event" doc:"The event."`
}

// envelope describes an event. The response contains the bytes of the store.
type envelope struct {
	_         struct{}   `schema:"Event" doc:"An event, as it is stored, streamed and sent to webhooks."`
	ID        string     `json:"id" doc:"The event's id. It is the same in streams, pages and deliveries."`
	Event     string     `json:"event" doc:"The event's kind."`
	AccountID *string    `json:"accountId" doc:"Null for an event of the organisation itself."`
	TS        stamp.Time `json:"ts" doc:"When the event was stored."`
	Data      any        `json:"data" doc:"The event's data, which depends on its kind. Null after the account was deleted."`
	Meta      meta       `json:"meta" doc:"Facts about the event itself."`
}

type meta struct {
	_           struct{}    `schema:"EventMeta" doc:"The position and origin of an event."`
	Seq         *int64      `json:"seq" doc:"The number of the event in the account's sequence, without gaps; null for an ephemeral event."`
	Class       string      `json:"class" enum:"durable,ephemeral" doc:"durable events are stored and can be read again; ephemeral ones are only streamed."`
	OfUserID    *string     `json:"ofUserId" doc:"The account's id on the platform."`
	ReferenceID *string     `json:"referenceId" doc:"Your own identifier for the account; null if it has none."`
	Sandbox     bool        `json:"sandbox" doc:"Whether the account is on the sandbox platform."`
	UpstreamAt  *stamp.Time `json:"upstreamAt" doc:"When the event happened, by the platform's clock; null if the platform does not say."`
	Schema      int         `json:"schema" doc:"The version of this format."`
	Purged      bool        `json:"purged,omitempty" doc:"True if the account was deleted: data is null, and only the event's id, kind and time remain."`
	Unreadable  bool        `json:"unreadable,omitempty" doc:"True if the stored event was changed by something else than this service: data is null."`
}

const (
	tag  = "Events"
	path = "/v1/accounts/{id}/events"
)

const streamText = "Server-sent events. The first event is `ready`, followed by events with `id`, `event` (the kind) and `data` (the envelope), and a `heartbeat` every " +
	"15 seconds. Without a last event id the stream starts now; with one, all events after it are sent first, in order. If some of them have expired, `ready` has " +
	"`gap: true` and the stream starts with the oldest. A final event `problem` says why a stream ends. Reconnect with the last id that you have seen.\n\n" +
	"With `Accept: application/json` the same events come page by page: send `nextCursor` as `after`, and `wait` to hold the response until there is an event. " +
	"`fromTime`, `toTime` and `q` search the stored events of up to 30 days."

// Routes adds the operations.
func Routes(t *endpoint.Table, d Deps) {
	e := &events{d, sync.OnceValues(func() (map[string]endpoint.EventSchema, error) {
		document, err := d.OpenAPI()
		if err != nil {
			return nil, err
		}
		return endpoint.EventSchemas(document)
	})}
	t.DescribeEvents(envelope{})
	endpoint.Written(t, endpoint.Operation{
		ID: "streamAccountEvents", Method: http.MethodGet, Path: path, Tag: tag, Status: http.StatusOK, Account: "id", Streams: true,
		Scope: scope.AccountsRead, Quota: admission.Plain, Media: []string{eventStream}, Answer: pullBody{}, Ticket: e.ticket,
		Problems: []problem.Kind{problem.AccountNotFound, problem.InvalidRequest, problem.UnknownEvent, problem.ServerDraining},
		Summary:  "Stream events of an account", Description: streamText + "\n\nBrowsers, which cannot send a key, open the stream with `?token=`.",
	}, e.streamAccount)
	endpoint.Typed(t, endpoint.Operation{
		ID: "listEventKinds", Method: http.MethodGet, Path: "/v1/events/kinds", Tag: tag, Status: http.StatusOK, Quota: admission.Free,
		Summary: "List kinds of events", Description: "Every kind of event that the organisation can receive: those of its platforms, and those of the service itself. " +
			"Kinds may be added at any time.",
	}, e.listKinds)
	endpoint.Written(t, endpoint.Operation{
		ID: "streamEvents", Method: http.MethodGet, Path: "/v1/events", Tag: tag, Status: http.StatusOK, Streams: true,
		Scope: scope.AccountsRead, Quota: admission.Plain, Media: []string{eventStream}, Answer: orgPullBody{},
		Problems: []problem.Kind{problem.InvalidRequest, problem.UnknownEvent, problem.ServerDraining, problem.AccountNotFound, problem.AccountNotAllowedForKey},
		Summary:  "Stream events of the organisation",
		Description: streamText + " With `latest` and `Accept: application/json` the newest events come first.\n\n" +
			"The stream has the events of all accounts and of the organisation itself. Events of one account are in order. Its cursors differ from those of an account's stream. " +
			"A key that is limited to accounts sees only their events.",
	}, e.streamOrg)
	endpoint.Written(t, endpoint.Operation{
		ID: "findEvent", Method: http.MethodGet, Path: "/v1/events/{eventId}", Tag: tag, Status: http.StatusOK,
		Scope: scope.AccountsRead, Quota: admission.Plain, Answer: eventBody{}, Problems: []problem.Kind{problem.EventNotFound},
		Summary: "Find an event", Description: "The event with this id, of any account or of the organisation, byte for byte as it was sent. " +
			"A key that is limited to accounts finds only their events.",
	}, e.findAny)
	endpoint.Written(t, endpoint.Operation{
		ID: "getEvent", Method: http.MethodGet, Path: path + "/{eventId}", Tag: tag, Status: http.StatusOK, Account: "id",
		Scope: scope.AccountsRead, Quota: admission.Plain, Answer: eventBody{}, Problems: []problem.Kind{problem.AccountNotFound, problem.EventNotFound},
		Summary: "Get an event", Description: "The event with this id, byte for byte as it was sent.",
	}, e.get)
	e.tokens(t)
}

func (e *events) findAccount(ctx context.Context, text string) (id.Account, error) {
	at, err := endpoint.ParseAccount(text)
	if err != nil {
		return "", err
	}
	_, err = e.Accounts.Get(ctx, endpoint.Caller(ctx).Org.ID, at)
	return at, err
}

func (e *events) streamAccount(w http.ResponseWriter, r *http.Request, in *accountInput) error {
	at, err := e.findAccount(r.Context(), in.ID)
	if err != nil {
		return err
	}
	want, err := e.newWant(r.Context(), at, in.Events)
	if err != nil {
		return err
	}
	return e.serve(w, r, want, &in.Query)
}

func (e *events) streamOrg(w http.ResponseWriter, r *http.Request, in *orgInput) error {
	want, err := e.newWant(r.Context(), "", in.Events)
	if err != nil {
		return err
	}
	if in.Account != "" {
		at, err := endpoint.AllowedAccount(r.Context(), in.Account)
		if err != nil {
			return err
		}
		if _, err := e.findAccount(r.Context(), in.Account); err != nil {
			return err
		}
		want.Among = []id.Account{at}
	}
	if in.Latest > 0 && wantsPage(r.Header) {
		w.Header().Add("Vary", "Accept")
		return e.latest(w, r, want, in)
	}
	if in.Latest > 0 || in.Before != "" {
		return problem.InvalidRequest.New("Streams cannot start with the newest events.").
			At("query/latest", "format", "must be sent with Accept: application/json, and before only with latest")
	}
	return e.serve(w, r, want, &in.Query)
}

// newWant returns what the caller reads: events of an account, or of the org if at is empty.
func (e *events) newWant(ctx context.Context, at id.Account, names []string) (stream.Want, error) {
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

// serve sends events as a page or as a stream, depending on Accept.
func (e *events) serve(w http.ResponseWriter, r *http.Request, want stream.Want, in *Query) error {
	w.Header().Add("Vary", "Accept")
	if wantsPage(r.Header) {
		return e.pull(w, r, want, in)
	}
	if in.searches() {
		return problem.InvalidRequest.New("Streams cannot be searched.").
			At("query/"+in.firstOfSearch(), "format", "must be sent with Accept: application/json")
	}
	pointer := "query/last_event_id"
	if want.After = in.LastEventID; in.LastHeader != "" {
		want.After, pointer = in.LastHeader, "header/Last-Event-ID"
	}
	if err := checkCursor(want.After, want.Account, pointer); err != nil {
		return err
	}
	return e.stream(w, r, want)
}

// checkCursor rejects a malformed cursor; pointer says where the cursor was sent.
func checkCursor(cursor string, at id.Account, pointer string) error {
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

// wantsPage reports whether a request asks for a page and not for a stream.
func wantsPage(h http.Header) bool {
	accept := strings.ToLower(strings.Join(h["Accept"], ","))
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, eventStream)
}

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
	if p.Kind.Code == problem.ValidationFailed.Code { // The names are in the query, not in a body.
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
	at, err := e.findAccount(r.Context(), in.ID)
	if err != nil {
		return err
	}
	owner := endpoint.Caller(r.Context()).Org
	since := org.ReadableSince(e.Now(), owner.Limits.EventRetentionDays)
	found, err := e.find(r.Context(), owner.ID, at, in.Event, since)
	if err != nil {
		return err
	}
	return writeEvent(w, &found)
}

// find finds an event that is within the org's retention.
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
