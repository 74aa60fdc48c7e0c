package webhooks

import (
	"context"
	"net/http"
	"strings"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

type hooksInput struct {
	State  string `query:"state" enum:"failing,healthy,paused,disabled,lagging,attention" doc:"Only webhooks in this state. lagging: healthy, with a backlog of events. attention stands for failing, disabled and lagging."`
	Query  string `query:"q" maxLength:"200" doc:"Only webhooks with this text in their URL, or in the label, name or id of their account. At most 1,000 accounts are considered."`
	URL    string `query:"url" maxLength:"2048" doc:"Only webhooks with exactly this URL."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"The maximum number of webhooks."`
	Cursor string `query:"cursor" maxLength:"64" doc:"nextCursor of the previous page."`
	ByURL  bool   `query:"urls" doc:"Count the webhooks by URL as well."`
}

type hooksOutput struct{ Body webhooksBody }

type webhooksBody struct {
	_          struct{}        `schema:"WebhookPage" doc:"A page of webhooks."`
	Webhooks   []listedWebhook `json:"webhooks" doc:"In the order in which their accounts were first connected."`
	NextCursor *string         `json:"nextCursor" doc:"Null on the last page."`
	Counts     webhookCounts   `json:"counts" doc:"The number of webhooks in each state. The filter does not apply to it."`
	URLs       []urlCount      `json:"urls,omitempty" doc:"With urls: the URLs that most webhooks have, at most 100. Of the filter, only q applies to it, and only to the URL."`
}

type urlCount struct {
	_         struct{} `schema:"WebhookURLCount" doc:"How many webhooks have the same URL."`
	URL       string   `json:"url" doc:"The URL."`
	Webhooks  int      `json:"webhooks" doc:"How many webhooks have it."`
	Attention int      `json:"attention" doc:"How many of them are failing, disabled or lagging."`
}

const (
	// listedURLs is how many URLs are counted, and namedAccounts how many accounts a search considers.
	listedURLs, namedAccounts = 100, 1000
)

type webhookCounts struct {
	_         struct{} `doc:"The number of webhooks in each state."`
	Failing   int      `json:"failing" doc:"Webhooks whose deliveries fail."`
	Healthy   int      `json:"healthy" doc:"Webhooks whose deliveries succeed."`
	Paused    int      `json:"paused" doc:"Webhooks that are paused."`
	Disabled  int      `json:"disabled" doc:"Webhooks that were switched off because they failed for too long."`
	None      int      `json:"none" doc:"Accounts without a webhook."`
	Lagging   int      `json:"lagging" doc:"Healthy webhooks that are behind their events."`
	Attention int      `json:"attention" doc:"Webhooks that are failing, disabled or lagging."`
}

type listedWebhook struct {
	_         struct{} `doc:"A webhook in a list."`
	AccountID string   `json:"accountId" doc:"The account of the webhook."`
	Label     string   `json:"label" doc:"The account's label, or its name on the platform."`
	HookBody
}

type findDeliveryInput struct {
	Delivery string `path:"deliveryId" maxLength:"64" doc:"The delivery's id."`
}

type eventsInput struct {
	Events []string `query:"event" required:"true" minItems:"1" maxItems:"50" doc:"Up to 50 ids of events, separated by commas."`
	Limit  int      `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"The maximum number of deliveries."`
	After  string   `query:"after" maxLength:"128" doc:"nextCursor of the previous page."`
}

func listRoutes(t *endpoint.Table, a hooks) {
	endpoint.Typed(t, endpoint.Operation{
		ID: "listWebhooks", Method: http.MethodGet, Path: "/v1/webhooks", Tag: tagWebhooks, Status: http.StatusOK,
		Scope: scope.WebhooksRead, Quota: admission.Plain, Problems: []problem.Kind{problem.InvalidRequest},
		Summary:     "List webhooks",
		Description: "The webhooks of all accounts, each as in `GET /v1/accounts/{id}/webhook`, with its account. A key that is limited to accounts sees only their webhooks.",
	}, a.all)
	endpoint.Typed(t, endpoint.Operation{
		ID: "listEventDeliveries", Method: http.MethodGet, Path: "/v1/deliveries", Tag: tagWebhooks, Status: http.StatusOK,
		Scope: scope.WebhooksRead, Quota: admission.Plain, Problems: []problem.Kind{problem.InvalidRequest},
		Summary: "List deliveries of events", Description: "Every attempt to deliver these events to the webhook of their account and to endpoints, newest first. Tests and ephemeral events are not stored and have no deliveries here. " +
			"A key that is limited to accounts sees only their deliveries.",
	}, a.ofEvents)
	endpoint.Typed(t, endpoint.Operation{
		ID: "findDelivery", Method: http.MethodGet, Path: "/v1/deliveries/{deliveryId}", Tag: tagWebhooks, Status: http.StatusOK,
		Scope: scope.WebhooksRead, Quota: admission.Plain, Problems: []problem.Kind{problem.DeliveryNotFound},
		Summary: "Find a delivery", Description: "The delivery with this id, of any account. A key that is limited to accounts finds only their deliveries.",
	}, a.find)
}

// reader returns what the caller may see.
func reader(ctx context.Context) webhook.Reader {
	p := endpoint.Caller(ctx)
	return webhook.Reader{Org: p.Org.ID, Accounts: p.Key.Allow.Accounts, Days: p.Org.Limits.DeliveryRetentionDays}
}

func (a hooks) all(ctx context.Context, in *hooksInput) (*hooksOutput, error) {
	var after id.Account
	if in.Cursor != "" {
		var err error
		if after, err = id.Parse[id.Account](in.Cursor); err != nil {
			return nil, endpoint.InvalidCursor("query/cursor")
		}
	}
	r := reader(ctx)
	f := webhook.ListFilter{State: webhook.State(in.State), URL: in.URL, Query: in.Query}
	if in.Query != "" {
		named := account.Filter{Query: in.Query, Among: r.Accounts, Limit: namedAccounts}
		if err := a.accounts.List(ctx, r.Org, named, func(one account.Account) error {
			f.Named = append(f.Named, one.ID)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	found, next, err := a.List(ctx, r, f, after, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &hooksOutput{webhooksBody{Webhooks: []listedWebhook{}}}
	if next != "" {
		cursor := string(next)
		out.Body.NextCursor = &cursor
	}
	for i := range found {
		out.Body.Webhooks = append(out.Body.Webhooks, listedWebhook{
			AccountID: string(found[i].Account), Label: found[i].Label, HookBody: viewHook(&found[i].Webhook),
		})
	}
	if in.ByURL {
		urls, err := a.CountByURL(ctx, r, in.Query, listedURLs)
		if err != nil {
			return nil, err
		}
		for _, one := range urls {
			out.Body.URLs = append(out.Body.URLs, urlCount{URL: one.URL, Webhooks: one.Webhooks, Attention: one.Attention})
		}
	}
	out.Body.Counts, err = a.counts(ctx, r)
	return out, err
}

func (a hooks) counts(ctx context.Context, r webhook.Reader) (c webhookCounts, err error) {
	hooks, err := a.CountByState(ctx, r)
	if err != nil {
		return c, err
	}
	accounts, err := a.accounts.CountByState(ctx, r.Org, account.Filter{Among: r.Accounts})
	if err != nil {
		return c, err
	}
	for _, n := range accounts {
		c.None += n
	}
	c.Failing, c.Healthy, c.Paused, c.Disabled = hooks[webhook.Failing], hooks[webhook.Healthy], hooks[webhook.Paused], hooks[webhook.Disabled]
	c.Lagging, c.Attention = hooks[webhook.Lagging], hooks[webhook.Attention]
	c.None = max(c.None-c.Failing-c.Healthy-c.Paused-c.Disabled, 0)
	return c, nil
}

func (a hooks) find(ctx context.Context, in *findDeliveryInput) (*deliveryOutput, error) {
	one, err := id.Parse[id.Delivery](in.Delivery)
	if err != nil {
		return nil, problem.DeliveryNotFound.New("The organisation has no delivery with this id.")
	}
	return found(a.FindDelivery(ctx, reader(ctx), one))
}

func (a hooks) ofEvents(ctx context.Context, in *eventsInput) (*listOutput, error) {
	events := make([]id.Event, 0, len(in.Events))
	for _, text := range in.Events {
		one, err := id.Parse[id.Event](strings.TrimSpace(text))
		if err != nil {
			return nil, problem.InvalidRequest.New("A query parameter is invalid.").At("query/event", "format", "must be ids of events")
		}
		events = append(events, one)
	}
	var behind webhook.Position
	if in.After != "" {
		var ok bool
		if behind, ok = webhook.ParsePosition(in.After); !ok {
			return nil, endpoint.InvalidCursor("query/after")
		}
	}
	list, next, err := a.DeliveriesOf(ctx, reader(ctx), events, behind, in.Limit)
	if err != nil {
		return nil, err
	}
	return viewDeliveries(list, next), nil
}

func viewDeliveries(list []webhook.Delivery, next webhook.Position) *listOutput {
	out := &listOutput{}
	out.Body.Deliveries = make([]DeliveryBody, len(list))
	for i := range list {
		out.Body.Deliveries[i] = viewDelivery(&list[i])
	}
	if !next.At.IsZero() {
		text := next.String()
		out.Body.NextCursor = &text
	}
	return out
}
