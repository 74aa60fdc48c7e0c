package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// This file has the operations on the endpoints of an organisation.

type endpointInput struct {
	ID string `path:"id" maxLength:"64" doc:"The endpoint's id."`
}

type addEndpointInput struct {
	Body struct {
		URL         string         `json:"url" minLength:"1" maxLength:"2048" doc:"The address to which events are sent: https, a public host, no user name or password. Redirects are not followed."`
		Description string         `json:"description,omitempty" maxLength:"500" doc:"A note for people."`
		Events      []string       `json:"events,omitempty" minItems:"1" maxItems:"64" doc:"Only these events: names, patterns such as message* and account.*, and !name to exclude. Default: every event."`
		AccountIDs  []string       `json:"accountIds,omitempty" minItems:"1" maxItems:"1000" doc:"Only events of these accounts. Default: every account, and the organisation's own events."`
		Platforms   []string       `json:"platforms,omitempty" minItems:"1" maxItems:"20" doc:"Only events of accounts on these platforms. Default: every platform, and the organisation's own events."`
		Ordering    string         `json:"ordering,omitempty" enum:"account,none" doc:"account delivers the events of an account one after the other, and accounts independently of each other; none delivers all events independently. Default: account."`
		Secret      *secret.String `json:"signingSecret,omitempty" minLength:"16" maxLength:"128" sensitive:"true" doc:"16 to 128 printable characters. Default: a generated one."`
		Replace     bool           `json:"replaceWebhooks,omitempty" doc:"Take over the webhooks of accounts that have the same URL: they are deleted, and the endpoint continues where they stopped. Webhooks that are paused stay."`
	}
}

type patchEndpointInput struct {
	ID   string `path:"id" maxLength:"64" doc:"The endpoint's id."`
	Body struct {
		URL         *string      `json:"url,omitempty" minLength:"1" maxLength:"2048" doc:"The address to which events are sent."`
		Description *string      `json:"description,omitempty" maxLength:"500" doc:"A note for people."`
		Events      optionalList `json:"events,omitempty" minItems:"1" maxItems:"64" doc:"Null for every event."`
		AccountIDs  optionalList `json:"accountIds,omitempty" minItems:"1" maxItems:"1000" doc:"Null for every account."`
		Platforms   optionalList `json:"platforms,omitempty" minItems:"1" maxItems:"20" doc:"Null for every platform."`
		Ordering    *string      `json:"ordering,omitempty" enum:"account,none" doc:"account: the events of an account are delivered one after the other. none: all events are delivered independently."`
		Enabled     *bool        `json:"enabled,omitempty" doc:"false holds the events back; true continues where delivery stopped."`
	}
}

// optionalList is a list of texts that may be absent, or null for everything.
type optionalList struct {
	isSet bool
	list  []string
}

func (o *optionalList) UnmarshalJSON(text []byte) error {
	o.isSet = true
	return json.Unmarshal(text, &o.list)
}

func (o optionalList) MarshalJSON() ([]byte, error) { return json.Marshal(o.list) }

// Schema describes the list for huma.
func (o optionalList) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Nullable: true, Items: &huma.Schema{Type: huma.TypeString}}
}

func (o *optionalList) change() *[]string {
	if !o.isSet {
		return nil
	}
	return &o.list
}

type endpointOutput struct {
	Body struct {
		_        struct{}     `schema:"WebhookEndpointResponse" doc:"One webhook endpoint."`
		Endpoint endpointBody `json:"endpoint" doc:"The endpoint."`
	}
}

type endpointsOutput struct {
	Body struct {
		_         struct{}       `schema:"WebhookEndpointList" doc:"The webhook endpoints of the organisation."`
		Endpoints []endpointBody `json:"endpoints" doc:"Oldest first."`
	}
}

type endpointBody struct {
	_              struct{}       `schema:"WebhookEndpoint" doc:"A URL that receives the events of many accounts."`
	ID             string         `json:"id" doc:"The id of the endpoint."`
	URL            string         `json:"url" doc:"The address to which events are sent."`
	Description    string         `json:"description" doc:"A note for people."`
	Events         *[]string      `json:"events" nullable:"true" doc:"Null if every event is sent."`
	AccountIDs     *[]string      `json:"accountIds" nullable:"true" doc:"Null if events of every account are sent."`
	Platforms      *[]string      `json:"platforms" nullable:"true" doc:"Null if events of every platform are sent."`
	Ordering       string         `json:"ordering" enum:"account,none" doc:"account: the events of an account are delivered one after the other. none: all events are delivered independently."`
	Enabled        bool           `json:"enabled" doc:"False while nothing is sent."`
	DisabledReason *string        `json:"disabledReason" enum:"paused,gone,failing" doc:"Why nothing is sent. paused: its owner disabled it. gone: its receiver returned 410. failing: it failed for 72 hours. Null while it is enabled."`
	SigningSecret  *string        `json:"signingSecret,omitempty" sensitive:"true" doc:"Only in responses that create the endpoint or rotate its secret. Store it."`
	SecretLast4    string         `json:"signingSecretLast4" doc:"The last characters of the signing secret, to recognise it."`
	Replaced       int            `json:"replacedWebhooks,omitempty" doc:"How many webhooks of accounts were taken over; only in the response that creates the endpoint."`
	PreviousUntil  *stamp.Time    `json:"previousSecretUntil" doc:"Until when the previous secret also signs; null if it does not."`
	CreatedAt      stamp.Time     `json:"createdAt" doc:"When the endpoint was created."`
	UpdatedAt      stamp.Time     `json:"updatedAt" doc:"When the endpoint was last changed."`
	Health         endpointHealth `json:"health" doc:"How delivery goes."`
}

type endpointHealth struct {
	_             struct{}    `schema:"WebhookEndpointHealth" doc:"The health of an endpoint."`
	State         string      `json:"state" enum:"healthy,failing,paused,disabled" doc:"failing means that the endpoint accepts nothing: it is down, or accounts fail and nothing has been accepted since. If it fails for some accounts and works for others, it is healthy."`
	Backlog       int64       `json:"backlog" doc:"How many events wait. Events of accounts that keep up are counted up to 10,000."`
	Behind        int         `json:"accountsBehind" doc:"How many accounts lag, for example because their deliveries fail; at most 1,000 are counted."`
	LagSec        int64       `json:"lagSec" doc:"The age of the oldest event that waits, in seconds; 0 if there is none."`
	LastStatus    *int        `json:"lastStatus" doc:"The status of the last response; 0 if there was none, null if nothing was sent yet."`
	LastError     *string     `json:"lastError" doc:"Why the last attempt got no response; null if it got one."`
	LastDelivery  *stamp.Time `json:"lastDeliveryAt" doc:"When the last attempt ended; null if nothing was sent yet."`
	LastSuccess   *stamp.Time `json:"lastSuccessAt" doc:"When an attempt was last accepted; null if none was."`
	FailingSince  *stamp.Time `json:"failingSince" doc:"Since when the endpoint fails; null while it works."`
	NextAttemptAt *stamp.Time `json:"nextAttemptAt" doc:"When the endpoint is tried next; null while it works."`
	SuccessRate   *float64    `json:"successRate24h" doc:"The share of attempts in the last 24 hours that were accepted, of the last 10,000; null if there were none."`
}

type deletedEndpointOutput struct {
	Body struct {
		_       struct{} `schema:"WebhookEndpointDeleted" doc:"The result of deleting an endpoint."`
		ID      string   `json:"id" doc:"The endpoint's id."`
		Deleted bool     `json:"deleted" doc:"True: nothing is sent to it any more."`
	}
}

type rotateEndpointInput struct {
	ID   string `path:"id" maxLength:"64" doc:"The endpoint's id."`
	Body *struct {
		Overlap *int `json:"overlapSec,omitempty" minimum:"0" maximum:"604800" doc:"How long the old secret also signs, in seconds. Default: 86400."`
	}
}

type replayEndpointInput struct {
	ID   string `path:"id" maxLength:"64" doc:"The endpoint's id."`
	Body struct {
		FromTime   time.Time  `json:"fromTime" doc:"The start of the period."`
		ToTime     *time.Time `json:"toTime,omitempty" doc:"The end of the period. Default: now."`
		AccountIDs []string   `json:"accountIds,omitempty" minItems:"1" maxItems:"1000" doc:"Only events of these accounts. Default: all that the endpoint gets."`
		Events     []string   `json:"events,omitempty" minItems:"1" maxItems:"64" doc:"Only these events, in the same form as in the endpoint. Default: those of the endpoint."`
		DryRun     bool       `json:"dryRun,omitempty" doc:"Only count the events. Nothing is sent."`
	}
}

type replayEndpointOutput struct {
	Body struct {
		_      struct{}       `schema:"EndpointReplayResponse" doc:"A replay that has begun."`
		Replay endpointReplay `json:"replay" doc:"The replay."`
	}
}

type endpointReplay struct {
	_      struct{} `schema:"EndpointReplay" doc:"Events that are sent to an endpoint again."`
	ID     string   `json:"id" doc:"The value of X-Webhook-Replay in its deliveries; empty after a dry run."`
	Events int64    `json:"events" doc:"How many events are sent, counted among the first 10,000 of the period."`
}

type endpointDeliveriesInput struct {
	ID    string `path:"id" maxLength:"64" doc:"The endpoint's id."`
	State string `query:"state" enum:"delivered,failed" doc:"Only deliveries that were accepted (delivered) or not accepted (failed)."`
	Event string `query:"event" maxLength:"64" pattern:"^[A-Za-z0-9._]*$" patternDescription:"the name or the id of an event" doc:"Only deliveries of events with this name, or of the event with this id."`
	After string `query:"after" maxLength:"128" doc:"nextCursor of the previous page."`
	Limit int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"The maximum number of deliveries."`
	Wait  int    `query:"wait" minimum:"0" maximum:"25" doc:"Seconds to wait for a delivery if there is none."`
}

type endpointDeliveryInput struct {
	ID       string `path:"id" maxLength:"64" doc:"The endpoint's id."`
	Delivery string `path:"deliveryId" maxLength:"64" doc:"The delivery's id."`
}

type endpointDeliveryOutput struct {
	Body struct {
		_        struct{}         `schema:"EndpointDeliveryResponse" doc:"One delivery to an endpoint, with its request."`
		Delivery endpointDelivery `json:"delivery" doc:"The delivery."`
	}
}

type endpointDelivery struct {
	_ struct{} `schema:"EndpointDelivery" doc:"An attempt to deliver an event to an endpoint, with its request."`
	DeliveryBody
	Request sentBody `json:"request" doc:"The request as it was sent."`
	Curl    string   `json:"curl" doc:"A command that sends the body again, without signatures."`
}

type sentBody struct {
	_       struct{}          `schema:"SentRequest" doc:"A request as it was sent, without its signatures."`
	Method  string            `json:"method" doc:"The method of the request."`
	URL     string            `json:"url" doc:"The endpoint's current URL."`
	Headers map[string]string `json:"headers" doc:"The headers of the request, without its signatures."`
	Body    *string           `json:"body" doc:"Null if the event is no longer stored."`
}

type endpoints struct{ *webhook.Webhooks }

func endpointRoutes(t *endpoint.Table, webhooks *webhook.Webhooks) {
	a := endpoints{webhooks}
	missing := []problem.Kind{problem.EndpointNotFound}
	settings := []problem.Kind{problem.UnknownEvent, problem.UnsafeURL, problem.AccountNotAllowedForKey}
	endpoint.Typed(t, endpoint.Operation{
		ID: "listWebhookEndpoints", Method: http.MethodGet, Path: "/v1/webhook-endpoints", Tag: tagWebhooks, Status: http.StatusOK,
		Scope: scope.WebhooksRead, Quota: admission.Plain,
		Summary: "List webhook endpoints", Description: "The endpoints of the organisation. A key that is limited to accounts sees only endpoints that are limited to these accounts.",
	}, a.list)
	endpoint.Typed(t, endpoint.Operation{
		ID: "createWebhookEndpoint", Method: http.MethodPost, Path: "/v1/webhook-endpoints", Tag: tagWebhooks, Status: http.StatusCreated, Timeout: testTimeout,
		Scope: scope.WebhooksWrite, Quota: admission.Plain, Audit: "webhook_endpoint.create", Problems: append([]problem.Kind{problem.LimitReached}, settings...),
		Summary: "Create a webhook endpoint", Description: "One URL for the events of many accounts, and for those of the organisation. It gets the events from now on; `replay` sends older ones. " +
			"An organisation has at most 20. The response has the `signingSecret`: store it to verify deliveries.",
		Example: map[string]any{"url": "https://example.com/hooks/stagedoor", "description": "CRM", "events": []string{"message*", "account.*", "connect.*"}},
	}, a.create)
	endpoint.Typed(t, endpoint.Operation{
		ID: "getWebhookEndpoint", Method: http.MethodGet, Path: "/v1/webhook-endpoints/{id}", Tag: tagWebhooks, Status: http.StatusOK,
		Scope: scope.WebhooksRead, Quota: admission.Plain, Problems: missing,
		Summary: "Get a webhook endpoint", Description: "The configuration, and the state of delivery in `health`. The signing secret is not shown again.",
	}, a.get)
	endpoint.Typed(t, endpoint.Operation{
		ID: "updateWebhookEndpoint", Method: http.MethodPatch, Path: "/v1/webhook-endpoints/{id}", Tag: tagWebhooks, Status: http.StatusOK, Repeatable: true, Timeout: testTimeout,
		Scope: scope.WebhooksWrite, Quota: admission.Plain, Audit: "webhook_endpoint.update", Problems: append(slices.Clone(missing), settings...),
		Summary: "Change a webhook endpoint", Description: "Members that are absent stay as they are. Failed deliveries are retried immediately.",
		Example: map[string]any{"enabled": false},
	}, a.update)
	endpoint.Typed(t, endpoint.Operation{
		ID: "deleteWebhookEndpoint", Method: http.MethodDelete, Path: "/v1/webhook-endpoints/{id}", Tag: tagWebhooks, Status: http.StatusOK,
		Scope: scope.WebhooksWrite, Quota: admission.Safety, Audit: "webhook_endpoint.delete", Problems: missing,
		Summary: "Delete a webhook endpoint", Description: "Pending deliveries are dropped. The events stay in the log.",
	}, a.delete)
	endpoint.Typed(t, endpoint.Operation{
		ID: "testWebhookEndpoint", Method: http.MethodPost, Path: "/v1/webhook-endpoints/{id}/test", Tag: tagWebhooks, Status: http.StatusOK, Timeout: testTimeout, Repeatable: true,
		Scope: scope.WebhooksWrite, Quota: admission.Plain, Audit: "webhook_endpoint.test", Problems: missing,
		Summary: "Test a webhook endpoint", Description: "Sends an event of the kind `test`, signed like live ones, and reports the response. The limit is ten a minute; beyond it the call returns 429 with the reason `webhook_test_rpm`.",
	}, a.test)
	endpoint.Typed(t, endpoint.Operation{
		ID: "rotateWebhookEndpointSecret", Method: http.MethodPost, Path: "/v1/webhook-endpoints/{id}/rotate-secret", Tag: tagWebhooks, Status: http.StatusOK,
		Scope: scope.WebhooksWrite, Quota: admission.Plain, Audit: "webhook_endpoint.rotate_secret", Problems: missing,
		Summary: "Rotate an endpoint's signing secret", Description: "The new secret signs from now on. For `overlapSec` seconds the old one also signs: in `X-Webhook-Signature-Previous`, and as a second signature in `webhook-signature`.",
		Example: map[string]any{"overlapSec": 3600},
	}, a.rotate)
	endpoint.Typed(t, endpoint.Operation{
		ID: "replayWebhookEndpoint", Method: http.MethodPost, Path: "/v1/webhook-endpoints/{id}/replay", Tag: tagWebhooks, Status: http.StatusAccepted,
		Scope: scope.WebhooksWrite, Quota: admission.Plain, Audit: "webhook_endpoint.replay", Problems: append([]problem.Kind{problem.UnknownEvent, problem.AccountNotAllowedForKey}, missing...),
		Summary: "Replay events to an endpoint", Description: "Sends events from the log again, with their original bytes and ids, next to live events. Those of an account are in order. It also sends events from before the endpoint was created. " +
			"A replay waits while the endpoint fails. Its deliveries have the header `X-Webhook-Replay`.",
		Example: map[string]any{"fromTime": "2026-11-14T00:00:00Z", "events": []string{"message"}},
	}, a.replay)
	endpoint.Typed(t, endpoint.Operation{
		ID: "listWebhookEndpointDeliveries", Method: http.MethodGet, Path: "/v1/webhook-endpoints/{id}/deliveries", Tag: tagWebhooks, Status: http.StatusOK,
		Scope: scope.WebhooksRead, Quota: admission.Plain, Timeout: endpoint.WaitTimeout, Problems: append([]problem.Kind{problem.InvalidRequest}, missing...),
		Summary: "List deliveries to an endpoint", Description: "Every attempt to deliver an event, newest first, with a delay of a second or two. Deliveries are kept for 30 days.",
	}, a.deliveries)
	endpoint.Typed(t, endpoint.Operation{
		ID: "getWebhookEndpointDelivery", Method: http.MethodGet, Path: "/v1/webhook-endpoints/{id}/deliveries/{deliveryId}", Tag: tagWebhooks, Status: http.StatusOK,
		Scope: scope.WebhooksRead, Quota: admission.Plain, Problems: append([]problem.Kind{problem.DeliveryNotFound}, missing...),
		Summary: "Get a delivery to an endpoint", Description: "With the request as it was sent, without its signatures, and a `curl` command that repeats it.",
	}, a.delivery)
	endpoint.Typed(t, endpoint.Operation{
		ID: "redeliverToWebhookEndpoint", Method: http.MethodPost, Path: "/v1/webhook-endpoints/{id}/deliveries/{deliveryId}/redeliver", Tag: tagWebhooks, Status: http.StatusAccepted,
		Scope: scope.WebhooksWrite, Quota: admission.Plain, Audit: "webhook_endpoint.redeliver", Problems: append([]problem.Kind{problem.DeliveryNotFound, problem.EventNotFound}, missing...),
		Summary: "Redeliver an event to an endpoint", Description: "Sends the event of a delivery again with the endpoint's current settings, out of order and regardless of its filter. It is tried once; the result is in the delivery log.",
	}, a.redeliver)
}

func endpointReader(ctx context.Context) webhook.EndpointReader {
	p := endpoint.Caller(ctx)
	return webhook.EndpointReader{Org: p.Org.ID, Accounts: p.Key.Allow.Accounts, Days: p.Org.Limits.DeliveryRetentionDays}
}

// parseEndpoint returns the id in a path; empty, which no endpoint has, if it is malformed.
func parseEndpoint(text string) id.Endpoint {
	one, err := id.Parse[id.Endpoint](text)
	if err != nil {
		return ""
	}
	return one
}

func accountsOf(ctx context.Context, list []string) ([]id.Account, error) {
	accounts := make([]id.Account, len(list))
	for i, text := range list {
		one, err := id.Parse[id.Account](text)
		if err != nil {
			return nil, problem.ValidationFailed.New("The list names an account that the organisation does not have.").
				At(fmt.Sprintf("/accountIds/%d", i), "unknown", "must be the id of an account")
		}
		if err := endpoint.MayUse(endpoint.Caller(ctx), one); err != nil {
			return nil, err
		}
		accounts[i] = one
	}
	return accounts, nil
}

func (a endpoints) list(ctx context.Context, _ *struct{}) (*endpointsOutput, error) {
	found, err := a.Endpoints(ctx, endpointReader(ctx))
	if err != nil {
		return nil, err
	}
	out := &endpointsOutput{}
	out.Body.Endpoints = make([]endpointBody, len(found))
	for i := range found {
		out.Body.Endpoints[i] = viewEndpoint(&found[i])
	}
	return out, nil
}

func (a endpoints) create(ctx context.Context, in *addEndpointInput) (*endpointOutput, error) {
	accounts, err := accountsOf(ctx, in.Body.AccountIDs)
	if err != nil {
		return nil, err
	}
	next := webhook.NewEndpoint{
		URL: in.Body.URL, Description: in.Body.Description, Events: in.Body.Events, Platforms: in.Body.Platforms, Accounts: accounts,
		Ordering: webhook.Ordering(in.Body.Ordering), Replace: in.Body.Replace,
	}
	if in.Body.Secret != nil {
		next.Secret = *in.Body.Secret
	}
	return endpointView(a.AddEndpoint(ctx, endpoint.By(ctx), endpointReader(ctx), next))
}

func (a endpoints) get(ctx context.Context, in *endpointInput) (*endpointOutput, error) {
	return endpointView(a.Endpoint(ctx, endpointReader(ctx), parseEndpoint(in.ID)))
}

func (a endpoints) update(ctx context.Context, in *patchEndpointInput) (*endpointOutput, error) {
	b := &in.Body
	c := webhook.EndpointChange{
		URL: b.URL, Description: b.Description, Events: b.Events.change(), Platforms: b.Platforms.change(), Ordering: (*webhook.Ordering)(b.Ordering), Enabled: b.Enabled,
	}
	if b.AccountIDs.isSet {
		accounts, err := accountsOf(ctx, b.AccountIDs.list)
		if err != nil {
			return nil, err
		}
		c.Accounts = &accounts
	}
	return endpointView(a.ChangeEndpoint(ctx, endpoint.By(ctx), endpointReader(ctx), parseEndpoint(in.ID), c))
}

func (a endpoints) delete(ctx context.Context, in *endpointInput) (*deletedEndpointOutput, error) {
	if err := a.DeleteEndpoint(ctx, endpoint.By(ctx), endpointReader(ctx), parseEndpoint(in.ID)); err != nil {
		return nil, err
	}
	out := &deletedEndpointOutput{}
	out.Body.ID, out.Body.Deleted = in.ID, true
	return out, nil
}

func (a endpoints) test(ctx context.Context, in *endpointInput) (*testOutput, error) {
	return viewTest(a.TestEndpoint(ctx, endpoint.By(ctx), endpointReader(ctx), parseEndpoint(in.ID)))
}

func (a endpoints) rotate(ctx context.Context, in *rotateEndpointInput) (*endpointOutput, error) {
	overlap := defaultOverlap
	if in.Body != nil && in.Body.Overlap != nil {
		overlap = time.Duration(*in.Body.Overlap) * time.Second
	}
	return endpointView(a.RotateEndpoint(ctx, endpoint.By(ctx), endpointReader(ctx), parseEndpoint(in.ID), overlap))
}

func (a endpoints) replay(ctx context.Context, in *replayEndpointInput) (*replayEndpointOutput, error) {
	accounts, err := accountsOf(ctx, in.Body.AccountIDs)
	if err != nil {
		return nil, err
	}
	r := webhook.EndpointRange{FromTime: in.Body.FromTime, Events: in.Body.Events, DryRun: in.Body.DryRun}
	if len(accounts) > 0 {
		r.Accounts = accounts
	}
	bad := problem.ValidationFailed.New("The range to replay is invalid.")
	if in.Body.ToTime != nil {
		if r.ToTime = *in.Body.ToTime; r.ToTime.Before(r.FromTime) {
			bad.At("/toTime", "minimum", "must not be before fromTime")
		}
	}
	endpoint.CheckTimes(bad, map[string]time.Time{"/fromTime": r.FromTime, "/toTime": r.ToTime})
	if len(bad.Fields) > 0 {
		return nil, bad
	}
	started, err := a.ReplayEndpoint(ctx, endpoint.By(ctx), endpointReader(ctx), parseEndpoint(in.ID), r)
	if err != nil {
		return nil, err
	}
	out := &replayEndpointOutput{}
	out.Body.Replay.ID, out.Body.Replay.Events = started.ID, started.Events
	return out, nil
}

func (a endpoints) deliveries(ctx context.Context, in *endpointDeliveriesInput) (*listOutput, error) {
	of := listInput{State: in.State, Event: in.Event, After: in.After, Wait: in.Wait}
	f, err := of.filter()
	if err != nil {
		return nil, err
	}
	found, next, err := a.EndpointDeliveries(ctx, endpointReader(ctx), parseEndpoint(in.ID), f, in.Limit)
	if err != nil {
		return nil, err
	}
	return viewDeliveries(found, next), nil
}

// parse returns the ids in the path. An unknown endpoint is reported first, so a malformed id of a delivery is empty.
func (in *endpointDeliveryInput) parse() (id.Endpoint, id.Delivery) {
	one, err := id.Parse[id.Delivery](in.Delivery)
	if err != nil {
		one = ""
	}
	return parseEndpoint(in.ID), one
}

func (a endpoints) delivery(ctx context.Context, in *endpointDeliveryInput) (*endpointDeliveryOutput, error) {
	at, one := in.parse()
	reader := endpointReader(ctx)
	d, err := a.EndpointDelivery(ctx, reader, at, one)
	if err != nil {
		return nil, err
	}
	sent, err := a.Request(ctx, reader, &d)
	if err != nil {
		return nil, err
	}
	out := &endpointDeliveryOutput{}
	out.Body.Delivery = endpointDelivery{DeliveryBody: viewDelivery(&d), Request: viewSent(&sent), Curl: curlOf(&sent)}
	return out, nil
}

func (a endpoints) redeliver(ctx context.Context, in *endpointDeliveryInput) (*deliveryOutput, error) {
	at, one := in.parse()
	return found(a.RedeliverToEndpoint(ctx, endpoint.By(ctx), endpointReader(ctx), at, one))
}

func viewSent(s *webhook.Sent) sentBody {
	b := sentBody{Method: http.MethodPost, URL: s.URL, Headers: map[string]string{}}
	for name, values := range s.Header {
		b.Headers[name] = strings.Join(values, ", ")
	}
	if s.Body != nil {
		text := string(s.Body)
		b.Body = &text
	}
	return b
}

// curlOf returns a command for a POSIX shell that sends a request.
func curlOf(s *webhook.Sent) string {
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
	parts := []string{"curl -X POST " + quote(s.URL)}
	for _, name := range slices.Sorted(maps.Keys(s.Header)) {
		parts = append(parts, "-H "+quote(name+": "+strings.Join(s.Header[name], ", ")))
	}
	return strings.Join(append(parts, "--data-binary "+quote(string(s.Body))), " ")
}

func endpointView(e webhook.Endpoint, err error) (*endpointOutput, error) {
	if err != nil {
		return nil, err
	}
	out := &endpointOutput{}
	out.Body.Endpoint = viewEndpoint(&e)
	return out, nil
}

// listOrNull returns nil for a list that selects everything.
func listOrNull(list []string) *[]string {
	if list == nil {
		return nil
	}
	return &list
}

func viewEndpoint(e *webhook.Endpoint) endpointBody {
	h := &e.Health
	b := endpointBody{
		ID: string(e.ID), URL: e.URL, Description: e.Description, Events: listOrNull(e.Events), AccountIDs: listOrNull(id.Texts(e.Accounts)), Platforms: listOrNull(e.Platforms),
		Ordering: string(e.Ordering), Enabled: e.Enabled, Replaced: e.Replaced, SecretLast4: e.Last4, PreviousUntil: stamp.Optional(e.PreviousUntil),
		CreatedAt: stamp.Time(e.CreatedAt), UpdatedAt: stamp.Time(e.UpdatedAt),
		Health: endpointHealth{
			State: string(h.State), Backlog: h.Backlog, Behind: h.Late, LagSec: h.Lag, LastDelivery: stamp.Optional(h.LastDelivery),
			LastSuccess: stamp.Optional(h.LastSuccess), FailingSince: stamp.Optional(h.FailingSince), NextAttemptAt: stamp.Optional(h.NextAttempt), SuccessRate: h.SuccessRate,
		},
	}
	if e.DisabledReason != "" {
		b.DisabledReason = &e.DisabledReason
	}
	if !e.Secret.Empty() {
		text := e.Secret.Reveal()
		b.SigningSecret = &text
	}
	if !h.LastDelivery.IsZero() {
		b.Health.LastStatus = &h.LastStatus
	}
	if h.LastError != "" {
		b.Health.LastError = &h.LastError
	}
	return b
}
