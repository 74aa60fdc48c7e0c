package webhooks

import (
	"context"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

type listInput struct {
	ID    string `path:"id" maxLength:"64" doc:"The account's id."`
	State string `query:"state" enum:"delivered,failed" doc:"Only deliveries that were accepted (delivered) or not accepted (failed)."`
	Event string `query:"event" maxLength:"64" pattern:"^[A-Za-z0-9._]*$" patternDescription:"the name or the id of an event" doc:"Only deliveries of events with this name, or of the event with this id."`
	After string `query:"after" maxLength:"128" doc:"nextCursor of the previous page."`
	Limit int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"The maximum number of deliveries."`
	Wait  int    `query:"wait" minimum:"0" maximum:"25" doc:"Seconds to wait for a delivery if there is none."`
}

type listOutput struct {
	Body struct {
		_          struct{}       `schema:"DeliveryPage" doc:"A page of deliveries."`
		Deliveries []DeliveryBody `json:"deliveries" doc:"Newest first."`
		NextCursor *string        `json:"nextCursor" doc:"Null on the last page."`
	}
}

type deliveryInput struct {
	ID       string `path:"id" maxLength:"64" doc:"The account's id."`
	Delivery string `path:"deliveryId" maxLength:"64" doc:"The delivery's id."`
}

type deliveryOutput struct {
	Body struct {
		_        struct{}     `schema:"DeliveryResponse" doc:"One delivery."`
		Delivery DeliveryBody `json:"delivery" doc:"The delivery."`
	}
}

// DeliveryBody is an attempt to deliver an event, alone and in lists.
type DeliveryBody struct {
	_          struct{}   `schema:"Delivery" doc:"An attempt to deliver an event to a webhook."`
	ID         string     `json:"id" doc:"The id of the delivery."`
	AccountID  string     `json:"accountId" doc:"The account of the event. Empty for an event of the organisation, which only endpoints get."`
	EndpointID string     `json:"endpointId,omitempty" doc:"The endpoint; absent for the webhook of an account."`
	EventID    string     `json:"eventId" doc:"The id of the event."`
	Event      string     `json:"event" doc:"The event's kind."`
	Cursor     *string    `json:"cursor" doc:"The event's position in the account's sequence; null for an event that is not stored."`
	At         stamp.Time `json:"at" doc:"When the attempt ended."`
	Attempt    int        `json:"attempt" doc:"The number of the attempt, from 1."`
	State      string     `json:"state" enum:"delivered,failed" doc:"How the delivery ended, or that it goes on."`
	Status     int        `json:"status" doc:"0 if there was no response."`
	Error      *string    `json:"error" enum:"destination_blocked,connect,tls,timeout,connection_broken,bad_response" doc:"Why there was no response; null if there was one."`
	DurationMS float64    `json:"durationMs" doc:"How long the receiver took, in milliseconds."`
	Cause      string     `json:"cause" enum:"live,retry,redeliver,replay,test" doc:"live: an ordinary delivery or its retry. retry: an event that was refused and is retried separately, out of order. redeliver, replay, test: requested by a call."`
	Snippet    *string    `json:"responseSnippet" doc:"The first KiB of the response to a failed delivery; null otherwise."`
}

type replayInput struct {
	ID   string `path:"id" maxLength:"64" doc:"The account's id."`
	Body struct {
		FromID     *string    `json:"fromId,omitempty" maxLength:"64" doc:"The id of the first event. Send this or fromTime."`
		FromTime   *time.Time `json:"fromTime,omitempty" doc:"The start of the period. Send this or fromId."`
		ToTime     *time.Time `json:"toTime,omitempty" doc:"The end of the period. Default: now."`
		Events     []string   `json:"events,omitempty" maxItems:"64" doc:"Only these events, in the same form as in the webhook. The webhook's own filter does not apply."`
		OnlyFailed bool       `json:"onlyFailed,omitempty" doc:"Only events that were never delivered successfully."`
		DryRun     bool       `json:"dryRun,omitempty" doc:"Only find the range. Nothing is sent."`
	}
}

type replayOutput struct {
	Body struct {
		_      struct{}   `schema:"ReplayResponse" doc:"The replay that was started."`
		Replay replayBody `json:"replay" doc:"The replay."`
	}
}

type replayBody struct {
	_    struct{} `schema:"Replay" doc:"A range of events that is resent."`
	ID   string   `json:"id" doc:"The value of X-Webhook-Replay in its deliveries; empty after a dry run."`
	From string   `json:"from" doc:"The first event of the range, before the filter."`
	To   string   `json:"to" doc:"The last event of the range. It is before from if the range is empty."`
}

func deliveryRoutes(t *endpoint.Table, a hooks) {
	missing := []problem.Kind{problem.AccountNotFound, problem.DeliveryNotFound}
	endpoint.Typed(t, endpoint.Operation{
		ID: "listDeliveries", Method: http.MethodGet, Path: "/v1/accounts/{id}/webhook/deliveries", Tag: tagWebhooks, Status: http.StatusOK,
		Scope: scope.WebhooksRead, Quota: admission.Plain, Account: "id", Timeout: endpoint.WaitTimeout, Problems: []problem.Kind{problem.AccountNotFound, problem.InvalidRequest},
		Summary: "List deliveries", Description: "Every attempt to deliver an event, newest first, with a delay of a second or two. Deliveries are kept for 30 days, even if the webhook is deleted.",
	}, endpoint.OnAccount(a.list))
	endpoint.Typed(t, endpoint.Operation{
		ID: "getDelivery", Method: http.MethodGet, Path: "/v1/accounts/{id}/webhook/deliveries/{deliveryId}", Tag: tagWebhooks, Status: http.StatusOK,
		Scope: scope.WebhooksRead, Quota: admission.Plain, Account: "id", Problems: missing,
		Summary: "Get a delivery",
	}, a.one)
	endpoint.Typed(t, endpoint.Operation{
		ID: "redeliver", Method: http.MethodPost, Path: "/v1/accounts/{id}/webhook/deliveries/{deliveryId}/redeliver", Tag: tagWebhooks, Status: http.StatusAccepted,
		Scope: scope.WebhooksWrite, Quota: admission.Plain, Account: "id", Audit: "webhook.redeliver", Problems: append([]problem.Kind{problem.WebhookNotFound, problem.EventNotFound}, missing...),
		Summary: "Redeliver an event", Description: "Sends the event of a delivery again with the webhook's current settings, out of order and regardless of its filter. It is tried once; the result is in the delivery log.",
	}, a.redeliver)
	endpoint.Typed(t, endpoint.Operation{
		ID: "replayWebhook", Method: http.MethodPost, Path: "/v1/accounts/{id}/webhook/replay", Tag: tagWebhooks, Status: http.StatusAccepted,
		Scope: scope.WebhooksWrite, Quota: admission.Plain, Account: "id", Audit: "webhook.replay",
		Problems: []problem.Kind{problem.AccountNotFound, problem.WebhookNotFound, problem.EventNotFound, problem.UnknownEvent},
		Summary:  "Replay events", Description: "Sends events from the log again, with their original bytes and ids, in order, next to live events. It also sends events from before the webhook was created. " +
			"Its deliveries have the header `X-Webhook-Replay`.",
		Example: map[string]any{"fromTime": "2026-11-14T00:00:00Z", "events": []string{"message"}},
	}, endpoint.OnAccount(a.replay))
}

func (a hooks) list(ctx context.Context, at id.Account, in *listInput) (*listOutput, error) {
	f, err := in.filter()
	if err != nil {
		return nil, err
	}
	owner := endpoint.Caller(ctx).Org
	found, next, err := a.Deliveries(ctx, owner.ID, at, f, owner.Limits.DeliveryRetentionDays, in.Limit)
	if err != nil {
		return nil, err
	}
	return viewDeliveries(found, next), nil
}

func (in *listInput) filter() (webhook.LogFilter, error) {
	f := webhook.LogFilter{Kind: in.Event, Wait: time.Duration(in.Wait) * time.Second}
	if one, err := id.Parse[id.Event](in.Event); err == nil {
		f.Event, f.Kind = one, ""
	}
	if in.State != "" {
		delivered := in.State == "delivered"
		f.Delivered = &delivered
	}
	if in.After != "" {
		var ok bool
		if f.Behind, ok = webhook.ParsePosition(in.After); !ok {
			return f, endpoint.InvalidCursor("query/after")
		}
	}
	return f, nil
}

func (in *deliveryInput) parse() (id.Account, id.Delivery, error) {
	at, err := endpoint.ParseAccount(in.ID)
	if err != nil {
		return "", "", err
	}
	one, err := id.Parse[id.Delivery](in.Delivery)
	if err != nil {
		one = "" // No delivery has this id; an unknown account is reported first.
	}
	return at, one, nil
}

func (a hooks) one(ctx context.Context, in *deliveryInput) (*deliveryOutput, error) {
	at, one, err := in.parse()
	if err != nil {
		return nil, err
	}
	owner := endpoint.Caller(ctx).Org
	return found(a.Delivery(ctx, owner.ID, at, one, owner.Limits.DeliveryRetentionDays))
}

func (a hooks) redeliver(ctx context.Context, in *deliveryInput) (*deliveryOutput, error) {
	at, one, err := in.parse()
	if err != nil {
		return nil, err
	}
	owner := endpoint.Caller(ctx).Org
	return found(a.Redeliver(ctx, endpoint.By(ctx), owner.ID, at, one, owner.Limits.DeliveryRetentionDays))
}

func found(d webhook.Delivery, err error) (*deliveryOutput, error) {
	if err != nil {
		return nil, err
	}
	out := &deliveryOutput{}
	out.Body.Delivery = viewDelivery(&d)
	return out, nil
}

func (a hooks) replay(ctx context.Context, at id.Account, in *replayInput) (*replayOutput, error) {
	r, err := in.parse()
	if err != nil {
		return nil, err
	}
	started, err := a.Replay(ctx, endpoint.By(ctx), endpoint.Caller(ctx).Org.ID, at, r)
	if err != nil {
		return nil, err
	}
	out := &replayOutput{}
	out.Body.Replay = replayBody{
		ID: started.ID, From: event.FormatCursor(started.From), To: event.FormatCursor(started.To),
	}
	return out, nil
}

func (in *replayInput) parse() (webhook.Range, error) {
	r := webhook.Range{Events: in.Body.Events, OnlyFailed: in.Body.OnlyFailed, DryRun: in.Body.DryRun}
	bad := problem.ValidationFailed.New("The range to replay is invalid.")
	switch {
	case (in.Body.FromID == nil) == (in.Body.FromTime == nil):
		bad.At("/fromTime", "required", "send either fromId or fromTime")
	case in.Body.FromID != nil:
		first, err := id.Parse[id.Event](*in.Body.FromID)
		if err != nil {
			bad.At("/fromId", "format", "must be the id of an event")
		}
		r.FromID = first
	default:
		r.FromTime = *in.Body.FromTime
	}
	if in.Body.ToTime != nil {
		r.ToTime = *in.Body.ToTime
		if r.ToTime.Before(r.FromTime) {
			bad.At("/toTime", "minimum", "must not be before fromTime")
		}
	}
	endpoint.CheckTimes(bad, map[string]time.Time{"/fromTime": r.FromTime, "/toTime": r.ToTime})
	if len(bad.Fields) > 0 {
		return r, bad
	}
	return r, nil
}

func viewDelivery(d *webhook.Delivery) DeliveryBody {
	b := DeliveryBody{
		ID: string(d.ID), AccountID: string(d.Account), EndpointID: string(d.Endpoint), EventID: string(d.Event), Event: d.Kind, At: stamp.Time(d.At), Attempt: d.Attempt, State: "failed", Status: d.Status,
		DurationMS: float64(d.Took.Microseconds()) / 1000, Cause: d.Cause,
	}
	if d.Delivered {
		b.State = "delivered"
	}

	if d.Seq > 0 {
		cursor := event.FormatCursor(d.Seq)
		b.Cursor = &cursor
	}
	if d.Error != "" {
		b.Error = &d.Error
	}
	if d.Snippet != "" {
		b.Snippet = &d.Snippet
	}
	return b
}
