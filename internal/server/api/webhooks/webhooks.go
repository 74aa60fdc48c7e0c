// Package webhooks has the operations of the public API that set and manage an account's webhook (webhooks.go,
// deliveries.go), list the webhooks of all accounts (list.go) and check a signature (check.go). Delivery itself is in
// delivery/webhook.
package webhooks

import (
	"context"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

type accountInput struct {
	ID string `path:"id" maxLength:"64" doc:"The account's id."`
}

type putInput struct {
	ID   string `path:"id" maxLength:"64" doc:"The account's id."`
	Body struct {
		URL         string         `json:"url" minLength:"1" maxLength:"2048" doc:"The address to which events are sent: https, a public host, no user name or password. It must resolve to public addresses now and at each delivery. Redirects are not followed."`
		Events      []string       `json:"events,omitempty" minItems:"1" maxItems:"64" doc:"Only these events: names, patterns such as message* and account.*, and !name to exclude. Default: every event."`
		Secret      *secret.String `json:"signingSecret,omitempty" minLength:"16" maxLength:"128" sensitive:"true" doc:"16 to 128 printable characters. Default: the existing secret stays; a new webhook gets a generated one."`
		Ordering    string         `json:"ordering,omitempty" enum:"strict,none" doc:"strict delivers one event after the other; none delivers up to maxInFlight events concurrently. Default: strict."`
		MaxInFlight int            `json:"maxInFlight,omitempty" minimum:"1" maximum:"32" doc:"With ordering none: the maximum number of concurrent deliveries. Default: 8."`
	}
}

type rotateInput struct {
	ID   string `path:"id" maxLength:"64" doc:"The account's id."`
	Body *struct {
		Overlap *int `json:"overlapSec,omitempty" minimum:"0" maximum:"604800" doc:"How long the old secret also signs, in seconds. Default: 86400."`
	}
}

type resumeInput struct {
	ID   string `path:"id" maxLength:"64" doc:"The account's id."`
	Body *struct {
		From *string `json:"from,omitempty" maxLength:"14" doc:"cursor continues where delivery stopped. now skips the backlog. The cursor of an event (its id on the stream, or health.cursor) continues after that event. Default: cursor."`
	}
}

type hookOutput struct {
	Body struct {
		_       struct{} `schema:"WebhookResponse" doc:"One webhook."`
		Webhook HookBody `json:"webhook" doc:"The webhook."`
	}
}

// HookBody is a webhook in responses, alone and in the list.
type HookBody struct {
	_              struct{}    `schema:"Webhook" doc:"The webhook that receives an account's events."`
	URL            string      `json:"url" doc:"The address that receives the events."`
	Events         []string    `json:"events,omitempty" doc:"Absent if every event is sent."`
	Ordering       string      `json:"ordering" enum:"strict,none" doc:"strict sends one event after the other; none sends several concurrently."`
	MaxInFlight    int         `json:"maxInFlight" doc:"The maximum number of concurrent deliveries; 1 for ordering strict."`
	Enabled        bool        `json:"enabled" doc:"False while the webhook is paused or disabled and nothing is sent."`
	DisabledReason *string     `json:"disabledReason" enum:"paused,operator,gone,failing" doc:"Why nothing is sent. paused: its owner paused it. operator: the operators of this service did. gone: its receiver returned 410. failing: it failed for 72 hours. Null while it is enabled."`
	CreatedAt      stamp.Time  `json:"createdAt" doc:"When the webhook was created."`
	UpdatedAt      stamp.Time  `json:"updatedAt" doc:"When the webhook was last changed."`
	SigningSecret  *string     `json:"signingSecret,omitempty" sensitive:"true" doc:"Only in responses that set the webhook or rotate its secret. Store it."`
	SecretLast4    string      `json:"signingSecretLast4" doc:"The last four characters of the signing secret."`
	PreviousUntil  *stamp.Time `json:"previousSecretUntil" doc:"Until when the previous secret also signs; null if it does not."`
	Health         healthBody  `json:"health" doc:"How the deliveries go."`
}

type healthBody struct {
	_             struct{}    `schema:"WebhookHealth" doc:"The health of a webhook."`
	State         string      `json:"state" enum:"healthy,failing,paused,disabled" doc:"How the deliveries go."`
	LaneState     string      `json:"laneState" enum:"live,lagging,backoff,draining,paused,disabled" doc:"live is up to date; lagging and draining deliver a backlog; backoff waits for the next attempt."`
	LastStatus    *int        `json:"lastStatus" doc:"The status of the last response; 0 if there was none, null if nothing was sent yet."`
	LastDelivery  *stamp.Time `json:"lastDeliveryAt" doc:"When a delivery was last attempted; null if never."`
	LastSuccess   *stamp.Time `json:"lastSuccessAt" doc:"When a delivery last succeeded; null if never."`
	FailingSince  *stamp.Time `json:"failingSince" doc:"Since when deliveries fail; null if they do not fail."`
	NextAttemptAt *stamp.Time `json:"nextAttemptAt" doc:"The time of the next retry; null unless one is scheduled."`
	LastError     *string     `json:"lastError" doc:"Why the last attempt got no response; null if it got one."`
	Backlog       int64       `json:"backlog" doc:"The number of the account's events after the cursor."`
	LagSec        int64       `json:"lagSec" doc:"The age of the oldest event in the backlog, in seconds; 0 if there is none."`
	Cursor        string      `json:"cursor" doc:"The last event that was processed."`
}

type deletedOutput struct {
	Body struct {
		_       struct{} `schema:"WebhookDeleted" doc:"The result of deleting a webhook."`
		ID      string   `json:"id" doc:"The account's id."`
		Deleted bool     `json:"deleted" doc:"True: the webhook was deleted."`
	}
}

type testOutput struct {
	Body struct {
		_          struct{} `schema:"WebhookTest" doc:"The response of a webhook to a test."`
		Delivered  bool     `json:"delivered" doc:"Whether the response had a 2xx status."`
		Status     int      `json:"status" doc:"0 if there was no response."`
		DurationMS int64    `json:"durationMs" doc:"How long the receiver took, in milliseconds."`
		Snippet    string   `json:"responseSnippet" doc:"The first 512 bytes of the response."`
		Error      *string  `json:"error" doc:"Why there was no response, in words, for example: connection refused, timed out after 10 s, the certificate has expired. Null if there was one."`
	}
}

type hooks struct {
	*webhook.Webhooks
	accounts *account.Accounts
	now      func() time.Time
}

const (
	tagWebhooks = "Webhooks"
	// testTimeout is enough for a receiver that takes its ten seconds.
	testTimeout = 15 * time.Second
)

// Routes adds the operations.
func Routes(t *endpoint.Table, webhooks *webhook.Webhooks, accounts *account.Accounts, now func() time.Time) {
	a := hooks{webhooks, accounts, now}
	missing := []problem.Kind{problem.AccountNotFound, problem.WebhookNotFound}
	endpoint.Typed(t, endpoint.Operation{
		ID: "getWebhook", Method: http.MethodGet, Path: "/v1/accounts/{id}/webhook", Tag: tagWebhooks, Status: http.StatusOK,
		Scope: scope.WebhooksRead, Quota: admission.Plain, Account: "id", Problems: missing,
		Summary: "Get an account's webhook", Description: "The configuration, and the state of delivery in `health`. The signing secret is not shown again.",
	}, endpoint.OnAccount(a.get))
	endpoint.Typed(t, endpoint.Operation{
		ID: "putWebhook", Method: http.MethodPut, Path: "/v1/accounts/{id}/webhook", Tag: tagWebhooks, Status: http.StatusOK, Repeatable: true,
		Scope: scope.WebhooksWrite, Quota: admission.Plain, Account: "id", Audit: "webhook.put", Timeout: testTimeout,
		Problems: []problem.Kind{problem.AccountNotFound, problem.UnknownEvent, problem.UnsafeURL},
		Summary:  "Set an account's webhook", Description: "Creates or replaces the webhook; an account has at most one. A new webhook gets the events from now on; `replay` sends older ones. " +
			"Failed deliveries are retried immediately. The response has the `signingSecret`: store it to verify deliveries.",
		Example: map[string]any{"url": "https://example.com/hooks/stagedoor", "events": []string{"message", "tips"}},
	}, endpoint.OnAccount(a.put))
	endpoint.Typed(t, endpoint.Operation{
		ID: "deleteWebhook", Method: http.MethodDelete, Path: "/v1/accounts/{id}/webhook", Tag: tagWebhooks, Status: http.StatusOK,
		Scope: scope.WebhooksWrite, Quota: admission.Safety, Account: "id", Audit: "webhook.delete", Problems: missing,
		Summary: "Delete an account's webhook", Description: "Pending deliveries are dropped. The events stay in the log.",
	}, endpoint.OnAccount(a.delete))
	endpoint.Typed(t, endpoint.Operation{
		ID: "testWebhook", Method: http.MethodPost, Path: "/v1/accounts/{id}/webhook/test", Tag: tagWebhooks, Status: http.StatusOK, Timeout: testTimeout, Repeatable: true,
		Scope: scope.WebhooksWrite, Quota: admission.Plain, Account: "id", Audit: "webhook.test", Problems: missing,
		Summary: "Test an account's webhook", Description: "Sends an event of the kind `test`, signed like live ones, and reports the response. The limit is ten a minute; beyond it the call returns 429 with the reason `webhook_test_rpm`.",
	}, endpoint.OnAccount(a.test))
	endpoint.Typed(t, endpoint.Operation{
		ID: "rotateWebhookSecret", Method: http.MethodPost, Path: "/v1/accounts/{id}/webhook/rotate-secret", Tag: tagWebhooks, Status: http.StatusOK,
		Scope: scope.WebhooksWrite, Quota: admission.Plain, Account: "id", Audit: "webhook.rotate_secret", Problems: missing,
		Summary: "Rotate the signing secret", Description: "The new secret signs from now on. For `overlapSec` seconds the old one also signs: in `X-Webhook-Signature-Previous`, and as a second signature in `webhook-signature`.",
		Example: map[string]any{"overlapSec": 3600},
	}, endpoint.OnAccount(a.rotate))
	endpoint.Typed(t, endpoint.Operation{
		ID: "pauseWebhook", Method: http.MethodPost, Path: "/v1/accounts/{id}/webhook/pause", Tag: tagWebhooks, Status: http.StatusOK, Repeatable: true,
		Scope: scope.WebhooksWrite, Quota: admission.Safety, Account: "id", Audit: "webhook.pause", Problems: missing,
		Summary: "Pause a webhook", Description: "Nothing is sent until the webhook is resumed. Events stay in the log as long as the plan keeps them. Pausing again changes nothing.",
	}, endpoint.OnAccount(a.pause))
	endpoint.Typed(t, endpoint.Operation{
		ID: "resumeWebhook", Method: http.MethodPost, Path: "/v1/accounts/{id}/webhook/resume", Tag: tagWebhooks, Status: http.StatusOK, Repeatable: true,
		Scope: scope.WebhooksWrite, Quota: admission.Plain, Account: "id", Audit: "webhook.resume", Problems: missing,
		Summary: "Resume a webhook", Description: "Resumes a webhook that is paused or disabled, or retries a waiting one immediately. With `from` it continues at another position, even if it is not paused.",
		Example: map[string]any{"from": "cursor"},
	}, endpoint.OnAccount(a.resume))
	deliveryRoutes(t, a)
	listRoutes(t, a)
	checkRoutes(t, a)
	endpointRoutes(t, webhooks)
}

func (a hooks) get(ctx context.Context, at id.Account, _ *accountInput) (*hookOutput, error) {
	return view(a.Get(ctx, endpoint.Caller(ctx).Org.ID, at))
}

func (a hooks) put(ctx context.Context, at id.Account, in *putInput) (*hookOutput, error) {
	c := webhook.Change{URL: in.Body.URL, Events: in.Body.Events, Ordering: webhook.Ordering(in.Body.Ordering), MaxInFlight: in.Body.MaxInFlight}
	if in.Body.Secret != nil {
		c.Secret = *in.Body.Secret
	}
	return view(a.Put(ctx, endpoint.By(ctx), endpoint.Caller(ctx).Org.ID, at, c))
}

func (a hooks) delete(ctx context.Context, at id.Account, in *accountInput) (*deletedOutput, error) {
	if err := a.Delete(ctx, endpoint.By(ctx), endpoint.Caller(ctx).Org.ID, at); err != nil {
		return nil, err
	}
	out := &deletedOutput{}
	out.Body.ID, out.Body.Deleted = in.ID, true
	return out, nil
}

func (a hooks) test(ctx context.Context, at id.Account, _ *accountInput) (*testOutput, error) {
	return viewTest(a.Test(ctx, endpoint.By(ctx), endpoint.Caller(ctx).Org.ID, at))
}

func viewTest(tested webhook.Tested, err error) (*testOutput, error) {
	if err != nil {
		return nil, err
	}
	out := &testOutput{}
	out.Body.Delivered, out.Body.Status, out.Body.DurationMS, out.Body.Snippet = tested.Delivered, tested.Status, tested.Took.Milliseconds(), tested.Snippet
	out.Body.Error = endpoint.NilIfEmpty(tested.Reason)
	return out, nil
}

const defaultOverlap = 24 * time.Hour

func (a hooks) rotate(ctx context.Context, at id.Account, in *rotateInput) (*hookOutput, error) {
	overlap := defaultOverlap
	if in.Body != nil && in.Body.Overlap != nil {
		overlap = time.Duration(*in.Body.Overlap) * time.Second
	}
	return view(a.Rotate(ctx, endpoint.By(ctx), endpoint.Caller(ctx).Org.ID, at, overlap))
}

func (a hooks) pause(ctx context.Context, at id.Account, _ *accountInput) (*hookOutput, error) {
	return view(a.Pause(ctx, endpoint.By(ctx), endpoint.Caller(ctx).Org.ID, at))
}

func (a hooks) resume(ctx context.Context, at id.Account, in *resumeInput) (*hookOutput, error) {
	from, err := in.from()
	if err != nil {
		return nil, err
	}
	return view(a.Resume(ctx, endpoint.By(ctx), endpoint.Caller(ctx).Org.ID, at, from))
}

func (in *resumeInput) from() (webhook.Resume, error) {
	if in.Body == nil || in.Body.From == nil || *in.Body.From == "cursor" {
		return webhook.Resume{}, nil
	}
	if *in.Body.From == "now" {
		return webhook.Resume{Now: true}, nil
	}
	seq, err := event.ParseCursor(*in.Body.From)
	if err != nil {
		return webhook.Resume{}, problem.ValidationFailed.New("This is not a position to continue from.").
			At("/from", "format", "must be cursor, now, or the cursor of an event")
	}
	return webhook.Resume{Moved: true, After: seq}, nil
}

func view(w webhook.Webhook, err error) (*hookOutput, error) {
	if err != nil {
		return nil, err
	}
	out := &hookOutput{}
	out.Body.Webhook = viewHook(&w)
	return out, nil
}

func viewHook(w *webhook.Webhook) HookBody {
	b := HookBody{
		URL: w.URL, Events: w.Events, Ordering: string(w.Ordering), MaxInFlight: w.MaxInFlight, CreatedAt: stamp.Time(w.CreatedAt), UpdatedAt: stamp.Time(w.UpdatedAt),
		SecretLast4: w.Last4, PreviousUntil: stamp.Optional(w.PreviousUntil), Enabled: true, Health: viewHealth(&w.Health),
	}
	if !w.Secret.Empty() {
		text := w.Secret.Reveal()
		b.SigningSecret = &text
	}
	switch reason := w.Health.Reason; w.Health.State {
	case lane.Paused:
		if reason != lane.ReasonOperator {
			reason = string(lane.Paused)
		}
		b.Enabled, b.DisabledReason = false, &reason
	case lane.Disabled:
		b.Enabled, b.DisabledReason = false, &reason
	case lane.Live, lane.Lagging, lane.Backoff, lane.Draining:
	}
	return b
}

func viewHealth(h *webhook.Health) healthBody {
	b := healthBody{
		State: string(webhook.StateOf(h.State)), LaneState: string(h.State), LastDelivery: stamp.Optional(h.LastDelivery), LastSuccess: stamp.Optional(h.LastSuccess),
		FailingSince: stamp.Optional(h.FailingSince), NextAttemptAt: stamp.Optional(h.NextAttempt), Backlog: h.Backlog, LagSec: h.Lag, Cursor: event.FormatCursor(h.Cursor),
	}
	if !h.LastDelivery.IsZero() {
		b.LastStatus = &h.LastStatus
	}
	if h.LastError != "" {
		b.LastError = &h.LastError
	}
	return b
}
