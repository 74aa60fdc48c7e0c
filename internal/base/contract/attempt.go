package contract

import "github.com/stagedoor/stagedoor/internal/base/id"

// Attempt is an attempt as callers see it.
type Attempt struct {
	_             struct{}          `doc:"An attempt to connect an account."`
	AttemptID     string            `json:"attempt_id" doc:"The id of the attempt."`
	Kind          string            `json:"kind" extensible:"credentials,mobile_app,cookie,curl,token,oauth,reauth" doc:"How the account is connected."`
	State         string            `json:"state" enum:"pending,awaiting_mobile_session,needs_otp,needs_app_otp,needs_email,needs_face_otp,wrong_2fa_code_retry,completed_success,completed_failed" doc:"Where the attempt stands. Act on next_actions rather than on a list of states."`
	Progress      string            `json:"progress" doc:"What happens within the state. New values may come."`
	AccountID     *string           `json:"account_id" doc:"The account. Null until the state is completed_success."`
	PollingURL    *string           `json:"polling_url" doc:"The operation that returns the attempt."`
	PageURL       *string           `json:"verification_page_url" doc:"A page for the creator, while something is asked of them. Null for a key without accounts:write."`
	PhoneURL      *string           `json:"phone_url" doc:"A page for the creator's phone. Show it as a QR code or as a link. Null for a key without accounts:write."`
	EmbedURL      *string           `json:"embed_url" doc:"The same page for an iframe, on the origins that the hosted session allows. Null for a key without accounts:write."`
	Channel       *string           `json:"otp_channel" doc:"sms, app, email, face or mobile: by which way the creator is asked."`
	Channels      []string          `json:"otp_channels_available" doc:"The ways in which a code can be sent."`
	EmailMask     *string           `json:"email_mask" doc:"The email address to which a code was sent, mostly hidden; null if none was."`
	PhoneMask     *string           `json:"phone_mask" doc:"The phone number to which a code was sent, mostly hidden; null if none was."`
	NextActions   []string          `json:"next_actions" doc:"What can be done now. New values may come."`
	Submissions   *int              `json:"submissions_remaining" doc:"How many more codes can be submitted; null if no code is asked for."`
	Resends       *int              `json:"resends_remaining" doc:"How many more times the code can be sent; null if no code is asked for."`
	ResendAfter   *int              `json:"resend_after_sec" doc:"Seconds until the code can be sent again; null if no code is asked for."`
	PollAfter     *int              `json:"poll_after_sec" doc:"Seconds to wait before the next request for the attempt; null if waiting changes nothing."`
	PhoneExpires  *string           `json:"phone_url_expires_at" format:"date-time" doc:"When the page for the phone stops working; null if there is none."`
	Platform      string            `json:"platform" doc:"The platform that the creator signs in to."`
	Site          *string           `json:"site" doc:"The creator's own site, on a platform where each creator has one; else null."`
	Label         string            `json:"label" doc:"The label of the account; may be empty."`
	Region        string            `json:"proxy_country" doc:"The region through which the traffic leaves."`
	Reference     *string           `json:"reference_id" doc:"Your own reference of the creator; null if there is none."`
	Metadata      map[string]string `json:"metadata,omitempty" doc:"Your own metadata."`
	Session       *string           `json:"session_id,omitempty" doc:"The hosted session in which it was started."`
	Reconnect     bool              `json:"reconnect" doc:"True when it refreshes an existing account instead of making one."`
	Reconnects    *string           `json:"reconnect_account_id" doc:"The account that it reconnects; null if the attempt was started without one."`
	Failure       *Failure          `json:"failure" doc:"Why the attempt failed; null if it did not fail."`
	CreatedAt     string            `json:"created_at" format:"date-time" doc:"When the attempt was started."`
	UpdatedAt     string            `json:"updated_at" format:"date-time" doc:"When the attempt last changed."`
	ChallengeEnds *string           `json:"challenge_expires_at" format:"date-time" doc:"Until when the challenge can be answered; null if there is none."`
	ExpiresAt     string            `json:"expires_at" format:"date-time" doc:"When the attempt ends if nothing happens."`
}

// Failure is why an attempt failed, as callers see it.
type Failure struct {
	_               struct{} `schema:"AttemptFailure" doc:"The reason why an attempt failed."`
	Code            string   `json:"code" doc:"The reason as a stable word."`
	Message         string   `json:"message" doc:"An explanation for people."`
	Retryable       bool     `json:"retryable" doc:"Whether a new attempt may succeed."`
	RetryAfter      *int     `json:"retry_after_sec" doc:"Seconds to wait before a new attempt; null if there is no need to wait."`
	UpstreamCode    any      `json:"upstream_code" doc:"The platform's error code, an integer or a string; null if it gave none."`
	UpstreamMessage *string  `json:"upstream_message" doc:"The platform's own message; null if it gave none."`
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
