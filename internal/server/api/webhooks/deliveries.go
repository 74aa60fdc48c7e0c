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
	State string `query:"state" enum:"delivered,failed" doc:"Only deliveries that were accepted, or that were not."`
	Event string `query:"event" maxLength:"64" pattern:"^[A-Za-z0-9._]*$" patternDescription:"the name or the id of an event" doc:"Only deliveries of events with this name, or of the event with this id."`
	After string `query:"after" maxLength:"128" doc:"nextCursor of the page before."`
	Limit int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"How many deliveries."`
	Wait  int    `query:"wait" minimum:"0" maximum:"25" doc:"How many seconds to wait if there is none."`
}

type listOutput struct {
	Body struct {
		Deliveries []deliveryBody `json:"deliveries" doc:"Newest first."`
		NextCursor *string        `json:"nextCursor" doc:"Null on the last page."`
	}
}

type deliveryInput struct {
	ID       string `path:"id" maxLength:"64" doc:"The account's id."`
	Delivery string `path:"deliveryId" maxLength:"64" doc:"The delivery's id."`
}

type deliveryOutput struct {
	Body struct {
		Delivery deliveryBody `json:"delivery"`
	}
}

type deliveryBody struct {
	ID         string     `json:"id"`
	AccountID  string     `json:"accountId"`
	EventID    string     `json:"eventId"`
	Event      string     `json:"event" doc:"The event's kind."`
	Cursor     *string    `json:"cursor" doc:"The event's place in the account's sequence; null for one that is not stored."`
	At         stamp.Time `json:"at" doc:"When the attempt ended."`
	Attempt    int        `json:"attempt" doc:"Which attempt it was, from 1."`
	State      string     `json:"state" enum:"delivered,failed"`
	Status     int        `json:"status" doc:"0 if there was no answer."`
	Error      *string    `json:"error" enum:"destination_blocked,connect,tls,timeout,connection_broken,bad_response" doc:"Why there was no answer; null if there was one."`
	DurationMS float64    `json:"durationMs"`
	Cause      string     `json:"cause" enum:"live,retry,redeliver,replay,test" doc:"live is an ordinary delivery or a repetition of it; retry is an event that was refused and is retried separately, out of order."`
	Snippet    *string    `json:"responseSnippet" doc:"The first KiB of the answer to a delivery that failed; null otherwise."`
}

type replayInput struct {
	ID   string `path:"id" maxLength:"64" doc:"The account's id."`
	Body struct {
		FromID     *string    `json:"fromId,omitempty" maxLength:"64" doc:"The id of the first event. Give this or fromTime."`
		FromTime   *time.Time `json:"fromTime,omitempty" doc:"From when on. Give this or fromId."`
		ToTime     *time.Time `json:"toTime,omitempty" doc:"Until when. Left out, until now."`
		Events     []string   `json:"events,omitempty" maxItems:"64" doc:"Only these events, as in the webhook. The webhook's own filter does not matter here."`
		OnlyFailed bool       `json:"onlyFailed,omitempty" doc:"Only events that no delivery got through of."`
	}
}

type replayOutput struct {
	Body struct {
		Replay replayBody `json:"replay"`
	}
}

type replayBody struct {
	ID   string `json:"id" doc:"What X-Webhook-Replay says in its deliveries."`
	From string `json:"from" doc:"The first event of the range, before the filter."`
	To   string `json:"to" doc:"The last one; before from if there is none."`
}

func deliveryRoutes(t *endpoint.Table, a hooks) {
	missing := []problem.Kind{problem.AccountNotFound, problem.DeliveryNotFound}
	endpoint.Typed(t, endpoint.Operation{
		ID: "listDeliveries", Method: http.MethodGet, Path: "/v1/accounts/{id}/webhook/deliveries", Tag: tagWebhooks, Status: http.StatusOK,
		Scope: scope.WebhooksRead, Quota: admission.Plain, Account: "id", Timeout: endpoint.WaitTimeout, Problems: []problem.Kind{problem.AccountNotFound, problem.InvalidRequest},
		Summary: "Delivery log", Description: "Every attempt to deliver an event, newest first; a second or two after it was made. Kept for 30 days, also when the webhook is deleted.",
	}, a.list)
	endpoint.Typed(t, endpoint.Operation{
		ID: "getDelivery", Method: http.MethodGet, Path: "/v1/accounts/{id}/webhook/deliveries/{deliveryId}", Tag: tagWebhooks, Status: http.StatusOK,
		Scope: scope.WebhooksRead, Quota: admission.Plain, Account: "id", Problems: missing,
		Summary: "One delivery",
	}, a.one)
	endpoint.Typed(t, endpoint.Operation{
		ID: "redeliver", Method: http.MethodPost, Path: "/v1/accounts/{id}/webhook/deliveries/{deliveryId}/redeliver", Tag: tagWebhooks, Status: http.StatusAccepted,
		Scope: scope.WebhooksWrite, Quota: admission.Plain, Account: "id", Audit: "webhook.redeliver", Problems: append([]problem.Kind{problem.WebhookNotFound, problem.EventNotFound}, missing...),
		Summary: "Deliver an event again", Description: "Sends the event of a delivery once more, as the webhook is now, beside the order and whatever the webhook's filter says. It is tried once; the result is in the delivery log.",
	}, a.redeliver)
	endpoint.Typed(t, endpoint.Operation{
		ID: "replayWebhook", Method: http.MethodPost, Path: "/v1/accounts/{id}/webhook/replay", Tag: tagWebhooks, Status: http.StatusAccepted,
		Scope: scope.WebhooksWrite, Quota: admission.Plain, Account: "id", Audit: "webhook.replay",
		Problems: []problem.Kind{problem.AccountNotFound, problem.WebhookNotFound, problem.EventNotFound, problem.UnknownEvent},
		Summary:  "Replay events", Description: "Sends events of the log again, with their first bytes and ids, in order, beside live ones. It also sends what happened before the webhook was there. " +
			"Its deliveries carry `X-Webhook-Replay`.",
		Example: map[string]any{"fromTime": "2026-11-14T00:00:00Z", "events": []string{"message"}},
	}, a.replay)
}

func (a hooks) list(ctx context.Context, in *listInput) (*listOutput, error) {
	at, err := parseAccount(in.ID)
	if err != nil {
		return nil, err
	}
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
			return f, problem.InvalidRequest.New("The cursor is not one that this list gave out.").At("query/after", "format", "must be the nextCursor of an earlier page")
		}
	}
	return f, nil
}

func (in *deliveryInput) parse() (id.Account, id.Delivery, error) {
	at, err := parseAccount(in.ID)
	if err != nil {
		return "", "", err
	}
	one, err := id.Parse[id.Delivery](in.Delivery)
	if err != nil {
		one = "" // nobody has it; an unknown account is told first
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

func (a hooks) replay(ctx context.Context, in *replayInput) (*replayOutput, error) {
	at, err := parseAccount(in.ID)
	if err != nil {
		return nil, err
	}
	r, err := in.span()
	if err != nil {
		return nil, err
	}
	begun, err := a.Replay(ctx, endpoint.By(ctx), endpoint.Caller(ctx).Org.ID, at, r)
	if err != nil {
		return nil, err
	}
	out := &replayOutput{}
	out.Body.Replay = replayBody{begun.ID, event.FormatCursor(begun.From), event.FormatCursor(begun.To)}
	return out, nil
}

func (in *replayInput) span() (webhook.Range, error) {
	r := webhook.Range{Events: in.Body.Events, OnlyFailed: in.Body.OnlyFailed}
	bad := problem.ValidationFailed.New("It is not clear what to replay.")
	switch {
	case (in.Body.FromID == nil) == (in.Body.FromTime == nil):
		bad.At("/fromTime", "required", "give either fromId or fromTime")
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
	for at, one := range map[string]time.Time{"/fromTime": r.FromTime, "/toTime": r.ToTime} {
		if y := one.Year(); !one.IsZero() && (y < 2000 || y > 9999) {
			bad.At(at, "format", "must be a time between the years 2000 and 9999")
		}
	}
	if len(bad.Fields) > 0 {
		return r, bad
	}
	return r, nil
}

func viewDelivery(d *webhook.Delivery) deliveryBody {
	b := deliveryBody{
		ID: string(d.ID), AccountID: string(d.Account), EventID: string(d.Event), Event: d.Kind, At: stamp.Time(d.At), Attempt: d.Attempt, State: "failed", Status: d.Status,
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
