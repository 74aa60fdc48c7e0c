package webhooks

import (
	"context"
	"encoding/base64"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

type checkInput struct {
	Body struct {
		EndpointID string            `json:"endpointId,omitempty" maxLength:"64" doc:"The endpoint to which the delivery was sent. Default: the endpoint whose secret fits, if there is one."`
		AccountID  string            `json:"accountId,omitempty" maxLength:"64" doc:"The account to whose own webhook the delivery was sent. Default: taken from the event or the body."`
		EventID    string            `json:"eventId,omitempty" maxLength:"64" doc:"The event to compare the body with. Default: taken from the headers or the body."`
		Text       *string           `json:"body,omitempty" maxLength:"524288" sensitive:"true" doc:"The body with which the receiver checked the signature. Send this or bodyBase64."`
		Bytes      *string           `json:"bodyBase64,omitempty" maxLength:"716800" sensitive:"true" doc:"The same in base64, for a body that is not text."`
		Header     map[string]string `json:"headers" maxProperties:"100" sensitive:"true" doc:"The headers as received. Only webhook headers are used."`
		Secret     *secret.String    `json:"secret,omitempty" maxLength:"256" sensitive:"true" doc:"The secret that the receiver uses. Default: the secret of the webhook or endpoint."`
		ReceivedAt *time.Time        `json:"receivedAt,omitempty" doc:"When the delivery was received. Default: now."`
	}
}

type checkOutput struct{ Body signatureCheck }

type signatureCheck struct {
	_          struct{}          `doc:"The result of checking a signature."`
	Verdict    string            `json:"verdict" enum:"match,timestamp_old,wrong_secret,other_account,previous_secret,body_changed,header_missing,header_malformed,base64" doc:"match and timestamp_old mean that the signature is correct. other_account: the secret of another account's webhook, or of an endpoint."`
	Message    string            `json:"message" doc:"An explanation of the problem and what to do."`
	Details    []signatureDetail `json:"details" doc:"The observations, most important first."`
	EndpointID *string           `json:"endpointId" doc:"The endpoint that was compared; null if the delivery was compared with the webhook of an account, or with none."`
	AccountID  *string           `json:"accountId" doc:"The account whose webhook was compared; null if unknown."`
	EventID    *string           `json:"eventId" doc:"The stored event with which the body was compared; null if there is none."`
	SecretOfID *string           `json:"secretOfAccountId" doc:"With other_account: the account whose secret was used; null if it is that of an endpoint."`
	SecretOfEP *string           `json:"secretOfEndpointId" doc:"With other_account: the endpoint whose secret was used; null if it is that of an account."`
}

type signatureDetail struct {
	_       struct{} `doc:"A detail of a signature check."`
	Code    string   `json:"code" doc:"For example trailing_newline, reserialized, charset, truncated or no_prefix. More codes may be added."`
	Message string   `json:"message" doc:"An explanation for people."`
}

func checkRoutes(t *endpoint.Table, a hooks) {
	endpoint.Typed(t, endpoint.Operation{
		ID: "checkSignature", Method: http.MethodPost, Path: "/v1/webhooks/check-signature", Tag: tagWebhooks, Status: http.StatusOK, Repeatable: true,
		Scope: scope.WebhooksRead, Quota: admission.Plain, Unaudited: "it changes nothing",
		Problems: []problem.Kind{problem.AccountNotFound, problem.AccountNotAllowedForKey, problem.WebhookNotFound, problem.EndpointNotFound, problem.EventNotFound},
		Summary:  "Check a webhook signature",
		Description: "Send a delivery as your receiver got it to see why its signature does not match. The response names the cause: a wrong secret, that of another account or endpoint, or the previous one, a changed body and how it changed, " +
			"a missing or altered header. Nothing that you send is stored or logged.",
		Example: map[string]any{
			"headers": map[string]string{"X-Webhook-Signature": "sha256=5257a869e7ecebeda32affa62cdca3fa51cad7e77a0e56ff536d0ce8e108d8bd"},
			"body":    "{}\n", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		},
	}, a.check)
}

func (a hooks) check(ctx context.Context, in *checkInput) (*checkOutput, error) {
	q, err := in.parse()
	if err != nil {
		return nil, err
	}
	caller := endpoint.Caller(ctx)
	if q.Account != "" {
		if err := endpoint.MayUse(caller, q.Account); err != nil {
			return nil, err
		}
		if _, err := a.accounts.Get(ctx, caller.Org.ID, q.Account); err != nil {
			return nil, err
		}
	}
	q.Since = org.ReadableSince(a.now(), caller.Org.Limits.EventRetentionDays)
	found, err := a.CheckSignature(ctx, reader(ctx), q)
	if err != nil {
		return nil, err
	}
	out := &checkOutput{signatureCheck{Verdict: string(found.Verdict), Message: found.Message, Details: []signatureDetail{}}}
	for _, d := range found.Details {
		out.Body.Details = append(out.Body.Details, signatureDetail{Code: d.Code, Message: d.Text})
	}
	out.Body.EndpointID, out.Body.AccountID, out.Body.EventID = endpoint.NilIfEmpty(string(found.Endpoint)), endpoint.NilIfEmpty(string(found.Account)), endpoint.NilIfEmpty(string(found.Event))
	out.Body.SecretOfID, out.Body.SecretOfEP = endpoint.NilIfEmpty(found.Finding.Account), endpoint.NilIfEmpty(found.Finding.Endpoint)
	return out, nil
}

func (in *checkInput) parse() (q webhook.Question, err error) {
	b := &in.Body
	bad := problem.ValidationFailed.New("The delivery is incomplete.")
	q.Header = b.Header
	switch {
	case (b.Text == nil) == (b.Bytes == nil):
		bad.At("/body", "required", "send either body or bodyBase64")
	case b.Text != nil:
		q.Body = []byte(*b.Text)
	default:
		if q.Body, err = base64.StdEncoding.DecodeString(*b.Bytes); err != nil {
			bad.At("/bodyBase64", "format", "must be base64")
		}
	}
	if b.EndpointID != "" {
		if b.AccountID != "" {
			bad.At("/accountId", "exclusive", "send either endpointId or accountId")
		}
		if q.Endpoint, err = id.Parse[id.Endpoint](b.EndpointID); err != nil {
			return q, problem.EndpointNotFound.New("The organisation has no endpoint with this id.")
		}
	}
	if b.AccountID != "" {
		if q.Account, err = endpoint.ParseAccount(b.AccountID); err != nil {
			return q, err
		}
	}
	if b.EventID != "" {
		if q.Event, err = id.Parse[id.Event](b.EventID); err != nil {
			return q, problem.EventNotFound.New("The organisation has no event with this id.")
		}
	}
	if b.Secret != nil {
		q.Secret = *b.Secret
	}
	if b.ReceivedAt != nil {
		q.At = *b.ReceivedAt
	}
	if len(bad.Fields) > 0 {
		return q, bad
	}
	return q, nil
}
