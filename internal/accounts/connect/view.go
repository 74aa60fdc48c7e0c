package connect

import (
	"context"
	"math"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
)

// Attempt is an attempt as callers see it.
type Attempt struct {
	AttemptID     string   `json:"attempt_id"`
	Kind          string   `json:"kind" doc:"credentials, mobile_app, cookie, curl or reauth."`
	State         string   `json:"state" enum:"pending,awaiting_mobile_session,needs_otp,needs_app_otp,needs_email,needs_face_otp,wrong_2fa_code_retry,completed_success,completed_failed" doc:"Where the attempt stands. Act on next_actions rather than on a list of states."`
	Progress      string   `json:"progress" doc:"What happens within the state. New values may come."`
	AccountID     *string  `json:"account_id" doc:"The account. Null until the state is completed_success."`
	PollingURL    *string  `json:"polling_url"`
	PageURL       *string  `json:"verification_page_url" doc:"A page for the creator, while something is asked of them. Null for a key without accounts:write."`
	PhoneURL      *string  `json:"phone_url" doc:"A page for the creator's phone. Show it as a QR code or as a link. Null for a key without accounts:write."`
	EmbedURL      *string  `json:"embed_url" doc:"The same page for an iframe, on the origins that the hosted session allows. Null for a key without accounts:write."`
	Channel       *string  `json:"otp_channel" doc:"sms, app, email, face or mobile: by which way the creator is asked."`
	Channels      []string `json:"otp_channels_available"`
	EmailMask     *string  `json:"email_mask"`
	PhoneMask     *string  `json:"phone_mask"`
	NextActions   []string `json:"next_actions" doc:"What can be done now. New values may come."`
	Submissions   *int     `json:"submissions_remaining"`
	Resends       *int     `json:"resends_remaining"`
	ResendAfter   *int     `json:"resend_after_sec"`
	PollAfter     *int     `json:"poll_after_sec"`
	PhoneExpires  *string  `json:"phone_url_expires_at" format:"date-time"`
	Label         string   `json:"label"`
	Region        string   `json:"proxy_country"`
	Reference     *string  `json:"reference_id"`
	Metadata      Metadata `json:"metadata,omitempty"`
	Session       *string  `json:"session_id,omitempty" doc:"The hosted session in which it was started."`
	Reconnect     bool     `json:"reconnect" doc:"True when it refreshes an existing account instead of making one."`
	Reconnects    *string  `json:"reconnect_account_id" doc:"The account that it reconnects; null if the attempt was started without one."`
	Failure       *Failure `json:"failure"`
	CreatedAt     string   `json:"created_at" format:"date-time"`
	UpdatedAt     string   `json:"updated_at" format:"date-time"`
	ChallengeEnds *string  `json:"challenge_expires_at" format:"date-time"`
	ExpiresAt     string   `json:"expires_at" format:"date-time"`
}

// Metadata holds the caller's own keys and values.
type Metadata = map[string]string

// Failure is why an attempt failed, as callers see it.
type Failure struct {
	Code            string  `json:"code"`
	Message         string  `json:"message"`
	Retryable       bool    `json:"retryable"`
	RetryAfter      *int    `json:"retry_after_sec"`
	UpstreamCode    *int    `json:"upstream_code"`
	UpstreamMessage *string `json:"upstream_message"`
}

func textOrNil[T ~string](s T) *string {
	if s == "" {
		return nil
	}
	out := string(s)
	return &out
}

func timeOrNil(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	out := stamp.Text(t)
	return &out
}

func pointerTo(n int) *int { return &n }

// view returns an attempt without its links. Links act on the attempt, so events, which are stored, must not contain
// them.
func (c *Connects) view(r record, now time.Time) Attempt {
	v := Attempt{
		AttemptID: string(r.ID), Kind: string(r.Kind), State: string(r.State), Progress: string(r.Progress),
		PollingURL: textOrNil(c.Config.PublicURL + "/v1/connect/login/" + string(r.ID)), Channel: textOrNil(r.Channel),
		Channels:    r.Available,
		NextActions: r.NextActions(), Label: r.Label, Region: r.Region, Reference: textOrNil(r.Reference),
		Metadata: r.Metadata,
		Session:  textOrNil(r.Session), Reconnect: r.Reconnect, CreatedAt: *timeOrNil(r.CreatedAt),
		UpdatedAt: *timeOrNil(r.UpdatedAt), ExpiresAt: *timeOrNil(r.ExpiresAt),
	}
	if v.Channels == nil {
		v.Channels = []string{}
	}
	if r.State.Final() {
		v.Channel, v.Channels = nil, []string{}
	}
	switch {
	case r.State.Challenge():
		v.ChallengeEnds = timeOrNil(r.Deadline)
		if r.State.TakesCode() {
			v.Submissions, v.Resends = pointerTo(attempt.MaxSubmissions-r.Submissions), pointerTo(attempt.MaxResends-r.Resends)
			v.ResendAfter = pointerTo(max(0, int(math.Ceil(r.ResendAt.Sub(now).Seconds()))))
		}
		switch r.Channel {
		case "email":
			v.EmailMask = textOrNil(r.Mask)
		case "sms":
			v.PhoneMask = textOrNil(r.Mask)
		}
	case r.State == attempt.Pending:
		v.PollAfter = pointerTo(2)
	case r.State == attempt.AwaitingMobile:
		v.PollAfter, v.PhoneExpires = pointerTo(2), timeOrNil(r.QRExpiresAt)
	}
	if f := r.Failure; f != nil {
		v.Failure = &Failure{Code: f.Code, Message: f.Message(), Retryable: f.Retryable(),
			UpstreamMessage: textOrNil(f.UpstreamMessage)}
		if f.RetryAfter > 0 {
			v.Failure.RetryAfter = pointerTo(int(math.Ceil(f.RetryAfter.Seconds())))
		}
		if f.UpstreamCode != 0 {
			v.Failure.UpstreamCode = pointerTo(f.UpstreamCode)
		}
	}
	if r.State == attempt.Success {
		v.AccountID = textOrNil(r.Account)
	}
	if r.Reconnect {
		v.Reconnects = textOrNil(r.Account)
	}
	return v
}

// viewWithLinks is view with links, for callers who may use them.
func (c *Connects) viewWithLinks(ctx context.Context, r record) (Attempt, error) {
	now := r.UpdatedAt
	if r.State.TakesCode() { // for resend_after_sec
		var err error
		if now, err = c.DB.Now(ctx, c.DB.Pool()); err != nil {
			return Attempt{}, err
		}
	}
	v := c.view(r, now)
	if r.State.Final() {
		return v, nil
	}
	key, err := c.linkKey(ctx)
	if err != nil {
		return Attempt{}, err
	}
	base := c.Config.ConnectURL + "/a/"
	page := base + token(key, r, forPage, 0).Reveal()
	v.EmbedURL = textOrNil(page + "/embed")
	if r.State.Challenge() {
		v.PageURL = &page
	}
	if r.State == attempt.AwaitingMobile || r.State == attempt.NeedsFace {
		v.PhoneURL = textOrNil(base + token(key, r, forPhone, qrTurn(r)).Reveal() + "/phone")
	}
	return v, nil
}

// WithoutLinks returns the attempt for a caller who may only read. A link is enough to finish or cancel the attempt.
func (a Attempt) WithoutLinks() Attempt {
	a.PageURL, a.PhoneURL, a.EmbedURL = nil, nil, nil
	return a
}

// About returns the account that the attempt connected or reconnects; empty if it is not known yet.
func (a Attempt) About() id.Account {
	for _, at := range []*string{a.AccountID, a.Reconnects} {
		if at != nil {
			return id.Account(*at)
		}
	}
	return ""
}

// Key identifies the version of an attempt that a view shows, for ETags.
type Key struct {
	ID      id.Attempt
	Version int64
}
