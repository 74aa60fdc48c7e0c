// Package notices has the operations of the public API on the notices of an organisation. The notices themselves are in
// package delivery/notice.
package notices

import (
	"context"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/notice"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
)

type operations struct{ notices *notice.Notices }

type setInput struct {
	Body struct {
		SlackURL *secret.String `json:"slackUrl,omitempty" maxLength:"2048" sensitive:"true" doc:"A Slack-compatible URL, which gets each notice as {\"text\": …}: https and a public host. Default: unchanged."`
		Kinds    *[]string      `json:"kinds,omitempty" maxItems:"4" enum:"webhook_failing,account_attention,usage,key_expiring" doc:"The notices to send; an empty list for all. Default: unchanged."`
		Locale   *string        `json:"locale,omitempty" enum:"en,es" doc:"The language of the notices. Default: unchanged."`
	}
}

// Settings are how an organisation is notified.
type Settings struct {
	_          struct{}    `schema:"NoticeSettings" doc:"How the organisation is notified."`
	Mail       string      `json:"mail" enum:"enabled,not_configured" doc:"not_configured: the service has no mail server. The audit log then says which emails it would have sent."`
	Recipients []Recipient `json:"recipients" doc:"Who gets notices by email: the owners and admins, or the contact address of an organisation that has none."`
	SlackHost  *string     `json:"slackHost" doc:"The host of the Slack-compatible URL; null if there is none. The URL is not shown, because it is a secret."`
	Kinds      []string    `json:"kinds" extensible:"webhook_failing,account_attention,usage,key_expiring" doc:"The notices that are sent."`
	Locale     string      `json:"locale" enum:"en,es" doc:"The language of the notices."`
}

// Recipient is a recipient of notices.
type Recipient struct {
	_          struct{} `schema:"NoticeRecipient" doc:"A recipient of notices."`
	Email      string   `json:"email" doc:"The recipient's address."`
	Subscribed bool     `json:"subscribed" doc:"False if the recipient has unsubscribed with the link in a notice."`
}

type settingsOutput struct {
	Body struct {
		_       struct{} `schema:"NoticeSettingsResponse" doc:"How the organisation is notified."`
		Notices Settings `json:"notices" doc:"How the organisation is notified."`
	}
}

const tag = "Team"

// Routes adds the operations.
func Routes(t *endpoint.Table, notices *notice.Notices) {
	a := &operations{notices}
	endpoint.Typed(t, endpoint.Operation{
		ID: "getNotices", Method: http.MethodGet, Path: "/v1/org/notices", Tag: tag, Status: http.StatusOK,
		Scope: scope.MeRead, Quota: admission.Plain,
		Summary: "Get how the organisation is notified", Description: "The service sends a notice if a webhook has been failing for 10 minutes, if an account needs a person, at 80 % and 100 % of the month's calls, and before an API key expires: at most one of each kind per hour.",
	}, a.get)
	endpoint.Typed(t, endpoint.Operation{
		ID: "setNotices", Method: http.MethodPost, Path: "/v1/org/notices", Tag: tag, Status: http.StatusOK, Repeatable: true,
		Scope: scope.MeWrite, Quota: admission.Plain, Audit: "notice.set", Problems: []problem.Kind{problem.UnsafeURL, problem.ValidationFailed},
		Summary: "Set how the organisation is notified", Description: "Changes the members that are set, and leaves the others as they are.",
		Example: map[string]any{"slackUrl": "https://hooks.slack.com/services/T000/B000/example", "kinds": []string{"webhook_failing", "account_attention"}, "locale": "en"},
	}, a.set)
	endpoint.Typed(t, endpoint.Operation{
		ID: "resetNotices", Method: http.MethodDelete, Path: "/v1/org/notices", Tag: tag, Status: http.StatusOK,
		Scope: scope.MeWrite, Quota: admission.Plain, Audit: "notice.reset",
		Summary: "Reset how the organisation is notified", Description: "Deletes the Slack-compatible URL and the choice of kinds and language. All notices are sent by email again; recipients who have unsubscribed stay unsubscribed.",
	}, a.reset)
}

func (a *operations) get(ctx context.Context, _ *struct{}) (*settingsOutput, error) {
	s, err := a.notices.Setting(ctx, endpoint.Caller(ctx).Org.ID)
	return a.view(ctx, s, err)
}

func (a *operations) set(ctx context.Context, in *setInput) (*settingsOutput, error) {
	c := notice.Change{Slack: in.Body.SlackURL, Locale: in.Body.Locale}
	if in.Body.Kinds != nil {
		kinds := []mail.Kind{}
		for _, kind := range *in.Body.Kinds {
			kinds = append(kinds, mail.Kind(kind))
		}
		c.Kinds = &kinds
	}
	s, err := a.notices.Set(ctx, endpoint.By(ctx), endpoint.Caller(ctx).Org.ID, c)
	return a.view(ctx, s, err)
}

func (a *operations) reset(ctx context.Context, _ *struct{}) (*settingsOutput, error) {
	s, err := a.notices.Reset(ctx, endpoint.By(ctx), endpoint.Caller(ctx).Org.ID)
	return a.view(ctx, s, err)
}

func (a *operations) view(ctx context.Context, s notice.Setting, err error) (*settingsOutput, error) {
	if err != nil {
		return nil, err
	}
	recipients, err := a.notices.Recipients(ctx, endpoint.Caller(ctx).Org.ID)
	if err != nil {
		return nil, err
	}
	v := Settings{Mail: "enabled", Recipients: []Recipient{}, Kinds: id.Texts(s.Kinds), Locale: s.Locale}
	if !a.notices.MailIsConfigured() {
		v.Mail = "not_configured"
	}
	for _, r := range recipients {
		v.Recipients = append(v.Recipients, Recipient{Email: r.Email, Subscribed: r.Subscribed})
	}
	if s.HasSlack() {
		v.SlackHost = &s.SlackHost
	}
	if s.Kinds == nil {
		v.Kinds = id.Texts(mail.Notices())
	}
	out := &settingsOutput{}
	out.Body.Notices = v
	return out, nil
}
