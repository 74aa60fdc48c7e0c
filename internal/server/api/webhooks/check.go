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
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

type checkInput struct {
	Body struct {
		AccountID  string            `json:"accountId,omitempty" maxLength:"64" doc:"Whose webhook it was sent to. Left out, the event or the body tells."`
		EventID    string            `json:"eventId,omitempty" maxLength:"64" doc:"The event that was sent, to compare the body with. Left out, the headers or the body tell."`
		Text       *string           `json:"body,omitempty" maxLength:"524288" sensitive:"true" doc:"The body as the receiver had it when it checked the signature. Give this or bodyBase64."`
		Bytes      *string           `json:"bodyBase64,omitempty" maxLength:"716800" sensitive:"true" doc:"The same in base64, for bytes that are not text."`
		Header     map[string]string `json:"headers" maxProperties:"100" sensitive:"true" doc:"The headers as received; only those of webhooks matter."`
		Secret     *secret.String    `json:"secret,omitempty" maxLength:"256" sensitive:"true" doc:"The secret that the receiver uses. Left out, the webhook's own is used."`
		ReceivedAt *time.Time        `json:"receivedAt,omitempty" doc:"When it was received. Left out, now."`
	}
}

type checkOutput struct{ Body signatureCheck }

type signatureCheck struct {
	Verdict    string            `json:"verdict" enum:"match,timestamp_old,wrong_secret,other_account,previous_secret,body_changed,header_missing,header_malformed,base64" doc:"match and timestamp_old mean that the signature is right."`
	Message    string            `json:"message" doc:"What is the matter and what to do, for a person."`
	Details    []signatureDetail `json:"details" doc:"What was noticed, the most telling first."`
	AccountID  *string           `json:"accountId" doc:"Whose webhook it was held against; null if that is not known."`
	EventID    *string           `json:"eventId" doc:"The stored event that the body was compared with; null if there is none."`
	SecretOfID *string           `json:"secretOfAccountId" doc:"With other_account: whose secret it is."`
}

type signatureDetail struct {
	Code    string `json:"code" doc:"Such as trailing_newline, reserialized, charset, truncated, no_prefix. The set may grow."`
	Message string `json:"message"`
}

func checkRoutes(t *endpoint.Table, a hooks) {
	endpoint.Typed(t, endpoint.Operation{
		ID: "checkSignature", Method: http.MethodPost, Path: "/v1/webhooks/check-signature", Tag: tagWebhooks, Status: http.StatusOK, Repeatable: true,
		Scope: scope.WebhooksRead, Quota: admission.Plain, Unaudited: "it changes nothing",
		Problems: []problem.Kind{problem.AccountNotFound, problem.AccountNotAllowedForKey, problem.WebhookNotFound, problem.EventNotFound},
		Summary:  "Why a signature does not match",
		Description: "Give a delivery as your receiver has it. The answer names the cause: the wrong secret, that of another account or the one before, a body that was changed and how, " +
			"a header that is missing or not as it was sent. Nothing of what you send is stored or logged.",
		Example: map[string]any{
			"headers": map[string]string{"X-Webhook-Signature": "sha256=5257a869e7ecebeda32affa62cdca3fa51cad7e77a0e56ff536d0ce8e108d8bd"},
			"body":    "{}\n", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		},
	}, a.check)
}

func (a hooks) check(ctx context.Context, in *checkInput) (*checkOutput, error) {
	q, err := in.question()
	if err != nil {
		return nil, err
	}
	caller := endpoint.Caller(ctx)
	if q.Account != "" {
		if err := endpoint.MayUse(caller, q.Account); err != nil {
			return nil, err
		}
		if err := a.exists(ctx, caller.Org.ID, q.Account); err != nil {
			return nil, err
		}
	}
	q.Since = event.Since(a.Now(), caller.Org.Limits.EventRetentionDays)
	found, err := a.CheckSignature(ctx, reader(ctx), q)
	if err != nil {
		return nil, err
	}
	out := &checkOutput{signatureCheck{Verdict: string(found.Verdict), Message: found.Message, Details: []signatureDetail{}}}
	for _, d := range found.Details {
		out.Body.Details = append(out.Body.Details, signatureDetail{d.Code, d.Text})
	}
	out.Body.AccountID, out.Body.EventID, out.Body.SecretOfID = some(string(found.Account)), some(string(found.Event)), some(found.Finding.Account)
	return out, nil
}

func some(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func (a hooks) exists(ctx context.Context, org id.Org, at id.Account) error {
	_, err := a.Accounts.Get(ctx, org, at)
	return err
}

func (in *checkInput) question() (q webhook.Question, err error) {
	b := &in.Body
	bad := problem.ValidationFailed.New("The delivery cannot be checked like this.")
	q.Header = b.Header
	switch {
	case (b.Text == nil) == (b.Bytes == nil):
		bad.At("/body", "required", "give either body or bodyBase64")
	case b.Text != nil:
		q.Body = []byte(*b.Text)
	default:
		if q.Body, err = base64.StdEncoding.DecodeString(*b.Bytes); err != nil {
			bad.At("/bodyBase64", "format", "must be base64")
		}
	}
	if b.AccountID != "" {
		if q.Account, err = parseAccount(b.AccountID); err != nil {
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
