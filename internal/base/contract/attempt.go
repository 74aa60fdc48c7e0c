package contract

import "github.com/stagedoor/stagedoor/internal/base/id"

// Attempt is an attempt as callers see it.
type Attempt struct {
	_             struct{}          `doc:"An attempt to connect an account."`
	AttemptID     string            `json:"attempt_id"`
	Kind          string            `json:"kind" doc:"credentials, mobile_app, cookie, curl, token, oauth or reauth."`
	State         string            `json:"state" enum:"pending,awaiting_mobile_session,needs_otp,needs_app_otp,needs_email,needs_face_otp,wrong_2fa_code_retry,completed_success,completed_failed" doc:"Where the attempt stands. Act on next_actions rather than on a list of states."`
	Progress      string            `json:"progress" doc:"What happens within the state. New values may come."`
	AccountID     *string           `json:"account_id" doc:"The account. Null until the state is completed_success."`
	PollingURL    *string           `json:"polling_url"`
	PageURL       *string           `json:"verification_page_url" doc:"A page for the creator, while something is asked of them. Null for a key without accounts:write."`
	PhoneURL      *string           `json:"phone_url" doc:"A page for the creator's phone. Show it as a QR code or as a link. Null for a key without accounts:write."`
	EmbedURL      *string           `json:"embed_url" doc:"The same page for an iframe, on the origins that the hosted session allows. Null for a key without accounts:write."`
	Channel       *string           `json:"otp_channel" doc:"sms, app, email, face or mobile: by which way the creator is asked."`
	Channels      []string          `json:"otp_channels_available"`
	EmailMask     *string           `json:"email_mask"`
	PhoneMask     *string           `json:"phone_mask"`
	NextActions   []string          `json:"next_actions" doc:"What can be done now. New values may come."`
	Submissions   *int              `json:"submissions_remaining"`
	Resends       *int              `json:"resends_remaining"`
	ResendAfter   *int              `json:"resend_after_sec"`
	PollAfter     *int              `json:"poll_after_sec"`
	PhoneExpires  *string           `json:"phone_url_expires_at" format:"date-time"`
	Platform      string            `json:"platform" doc:"The platform that the creator signs in to."`
	Site          *string           `json:"site" doc:"The creator's own site, on a platform where each creator has one; else null."`
	Label         string            `json:"label"`
	Region        string            `json:"proxy_country"`
	Reference     *string           `json:"reference_id"`
	Metadata      map[string]string `json:"metadata,omitempty"`
	Session       *string           `json:"session_id,omitempty" doc:"The hosted session in which it was started."`
	Reconnect     bool              `json:"reconnect" doc:"True when it refreshes an existing account instead of making one."`
	Reconnects    *string           `json:"reconnect_account_id" doc:"The account that it reconnects; null if the attempt was started without one."`
	Failure       *Failure          `json:"failure"`
	CreatedAt     string            `json:"created_at" format:"date-time"`
	UpdatedAt     string            `json:"updated_at" format:"date-time"`
	ChallengeEnds *string           `json:"challenge_expires_at" format:"date-time"`
	ExpiresAt     string            `json:"expires_at" format:"date-time"`
}

// Failure is why an attempt failed, as callers see it.
type Failure struct {
	_               struct{} `doc:"The reason why an attempt failed."`
	Code            string   `json:"code"`
	Message         string   `json:"message"`
	Retryable       bool     `json:"retryable"`
	RetryAfter      *int     `json:"retry_after_sec"`
	UpstreamCode    any      `json:"upstream_code" doc:"The platform's error code, an integer or a string; null if it gave none."`
	UpstreamMessage *string  `json:"upstream_message"`
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
