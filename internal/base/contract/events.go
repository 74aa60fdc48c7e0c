package contract

import (
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
)

// KindAccountDisconnected is the kind of the last event of an account.
const KindAccountDisconnected = "account.disconnected"

// Transition has the fields of every event about an account's state.
type Transition struct {
	From string `json:"from" extensible:"connecting,active,degraded,reauthenticating,reconnect_required,restricted,paused,disconnected" doc:"The state before."`
	To   string `json:"to" extensible:"connecting,active,degraded,reauthenticating,reconnect_required,restricted,paused,disconnected" doc:"The state after; the same as from if the state did not change."`
	// Reason is nil if there is none.
	Reason     *string `json:"reason" doc:"Why the account is in this state. The set may grow."`
	UserAction string  `json:"userAction" extensible:"none,wait,solve_challenge,reconnect,open_native,resume,upgrade" doc:"What a person must do."`
}

// Actor is who caused an event.
type Actor struct {
	_     struct{} `schema:"EventActor" doc:"Who caused an event."`
	Kind  string   `json:"kind" extensible:"key,operator,system,creator,member" doc:"What kind of caller it was."`
	ID    string   `json:"id" doc:"The id of the key, person or operator; may be empty."`
	Label string   `json:"label" doc:"The name of the key or person; may be empty."`
}

// UpstreamError is the platform's own error. Both fields are absent if it gave none.
type UpstreamError struct {
	UpstreamCode    any     `json:"upstreamCode,omitempty" doc:"The platform's error code, an integer or a string."`
	UpstreamMessage *string `json:"upstreamMessage,omitempty" nullable:"true" doc:"The platform's error message."`
}

// Test is the event that the test of a webhook sends.
type Test struct {
	Message   string     `json:"message" doc:"A greeting."`
	RequestID id.Request `json:"requestId" doc:"The request that asked for the test."`
}

// AccountConnected reports that an account works for the first time.
type AccountConnected struct {
	Transition
	Account     Account `json:"account" doc:"The account."`
	AttemptID   *string `json:"attemptId" doc:"The attempt that connected it."`
	AttemptKind string  `json:"kind" extensible:"credentials,mobile_app,cookie,curl,token,oauth,reauth" doc:"How it was connected."`
}

// AccountReconnected reports that an account works again after a new sign-in.
type AccountReconnected struct {
	Transition
	Account    Account `json:"account" doc:"The account."`
	AttemptID  *string `json:"attemptId" doc:"The attempt that reconnected it."`
	DownForSec int     `json:"downForSec" doc:"How long it did not work."`
}

// AccountReauthenticating reports that an account is being signed in with remembered credentials.
type AccountReauthenticating struct {
	Transition
	AttemptID *string `json:"attemptId" doc:"The attempt that signs it in; null if none has started yet."`
}

// AccountDegraded reports that calls or the listener of an account fail.
type AccountDegraded struct {
	Transition
	SinceSec int `json:"sinceSec" doc:"How long it has been failing."`
}

// AccountRecovered reports that a degraded or restricted account works again.
type AccountRecovered struct {
	Transition
	SinceSec int `json:"sinceSec" doc:"How long it did not work."`
}

// AccountReconnectRequired reports that only the creator can make an account work again.
type AccountReconnectRequired struct {
	Transition
	UpstreamError
	ConnectURL *string `json:"connectUrl" doc:"The operation that makes a reconnect link. It needs a key."`
}

// AccountChallengeRequired reports that a sign-in with remembered credentials waits for a person.
type AccountChallengeRequired struct {
	Transition
	AttemptID id.Attempt `json:"attemptId" doc:"The attempt that waits for an answer."`
	State     string     `json:"state" doc:"The state of the attempt."`
	Channel   *string    `json:"otp_channel" doc:"How the creator is asked: sms, app, email, face or mobile."`
	EmailMask *string    `json:"email_mask" doc:"The email address to which a code was sent, mostly hidden; null if none was."`
	PhoneMask *string    `json:"phone_mask" doc:"The phone number to which a code was sent, mostly hidden; null if none was."`
	ExpiresAt *string    `json:"expires_at" format:"date-time" doc:"When the challenge ends."`
}

// AccountSessionExpiring warns that the session of an account ends soon.
type AccountSessionExpiring struct {
	Transition
	SessionExpiresAt stamp.Time `json:"sessionExpiresAt" doc:"When the session ends."`
	DaysLeft         int        `json:"daysLeft" doc:"Rounded up."`
}

// AccountRestricted reports that the platform has locked, limited or banned an account.
type AccountRestricted struct {
	Transition
	UpstreamError
}

// AccountPaused reports that an account was paused.
type AccountPaused struct {
	Transition
	By Actor `json:"by" doc:"Who paused it."`
}

// AccountResumed reports that an account is no longer paused.
type AccountResumed struct {
	Transition
	By Actor `json:"by" doc:"Who resumed it."`
}

// AccountUpdated reports a change of an account's settings.
type AccountUpdated struct {
	Transition
	Changes []string `json:"changes" doc:"The names of the members that changed."`
}

// AccountDisconnected is the last event of an account.
type AccountDisconnected struct {
	Transition
	ID       id.Account `json:"id" doc:"The id of the account."`
	OfUserID string     `json:"ofUserId" doc:"The platform's id of the creator."`
	By       Actor      `json:"by" doc:"Who disconnected it."`
	PurgedAt stamp.Time `json:"purgedAt" doc:"When its session, credentials and data were destroyed."`
}

// ListenerGap reports a period in which events may be missing.
type ListenerGap struct {
	FromSeq    *int64      `json:"fromSeq" doc:"The number of the last event before the gap; null if it is not known."`
	ToSeq      *int64      `json:"toSeq" doc:"The number of the first event after the gap; null if it is not known."`
	From       *stamp.Time `json:"from" doc:"Null if the beginning is not known."`
	To         stamp.Time  `json:"to" doc:"The end of the gap."`
	Backfilled bool        `json:"backfilled" doc:"Whether the missing events were fetched later."`
}

// ConnectAttemptUpdated reports a change of an attempt. The attempt is without its links.
type ConnectAttemptUpdated struct{ Attempt }

// ConnectAttemptCompleted reports the end of an attempt.
type ConnectAttemptCompleted struct{ Attempt }

// ConnectSessionFinished reports the end of a hosted session.
type ConnectSessionFinished struct {
	SessionID   id.Session   `json:"sessionId" doc:"The id of the session."`
	Status      string       `json:"status" enum:"success,exited,expired" doc:"How the session ended."`
	Attempts    []id.Attempt `json:"attempts" doc:"The attempts of the session."`
	AccountID   id.Account   `json:"accountId,omitempty" doc:"The account that was connected."`
	ReferenceID string       `json:"referenceId,omitempty" doc:"Your own identifier."`
}

// WebhookDisabled reports that no more events are sent to a webhook.
type WebhookDisabled struct {
	EndpointID      id.Endpoint `json:"endpointId,omitempty" doc:"The endpoint; absent for the webhook of an account."`
	URL             string      `json:"url" doc:"The address that received the events."`
	Reason          string      `json:"reason" doc:"Why the webhook was disabled."`
	FailingSinceSec int         `json:"failingSinceSec" doc:"How long deliveries failed."`
}

// WebhookRecovered reports that deliveries to a webhook succeed again.
type WebhookRecovered struct {
	EndpointID      id.Endpoint `json:"endpointId,omitempty" doc:"The endpoint; absent for the webhook of an account."`
	URL             string      `json:"url" doc:"The address that receives the events."`
	Reason          string      `json:"reason" doc:"Why the deliveries had failed."`
	FailingSinceSec int         `json:"failingSinceSec" doc:"How long deliveries failed."`
}

// KeyCreated reports a new API key.
type KeyCreated struct {
	ID     id.Key   `json:"id" doc:"The id of the key."`
	Label  string   `json:"label" doc:"The name of the key."`
	Scopes []string `json:"scopes,omitempty" doc:"What the key may do."`
	By     Actor    `json:"by" doc:"Who created it."`
}

// KeyRevoked reports that an API key no longer works.
type KeyRevoked struct {
	ID    id.Key `json:"id" doc:"The id of the key."`
	Label string `json:"label" doc:"The name of the key."`
	By    Actor  `json:"by" doc:"Who revoked it."`
}

// KeyLeaked reports that an API key was published. The service has revoked it.
type KeyLeaked struct {
	ID     id.Key `json:"id" doc:"The id of the key."`
	Label  string `json:"label" doc:"The name of the key."`
	URL    string `json:"url" doc:"Where the key was found; empty if it is not known."`
	Source string `json:"source" doc:"The kind of the place, such as content, commit or pull_request_comment. The set may grow."`
}

// UsageThreshold reports that an organisation has used a large part of a limit.
type UsageThreshold struct {
	Metric  string `json:"metric" extensible:"calls_per_month" doc:"The limit."`
	Percent int    `json:"percent" doc:"The threshold that was reached."`
	Limit   int64  `json:"limit" doc:"The calls that the plan includes."`
	Used    int64  `json:"used" doc:"The calls that were used."`
}

// The kinds.

func (Test) Kind() string                     { return "test" }
func (AccountConnected) Kind() string         { return "account.connected" }
func (AccountReconnected) Kind() string       { return "account.reconnected" }
func (AccountReauthenticating) Kind() string  { return "account.reauthenticating" }
func (AccountDegraded) Kind() string          { return "account.degraded" }
func (AccountRecovered) Kind() string         { return "account.recovered" }
func (AccountReconnectRequired) Kind() string { return "account.reconnect_required" }
func (AccountChallengeRequired) Kind() string { return "account.challenge_required" }
func (AccountSessionExpiring) Kind() string   { return "account.session_expiring" }
func (AccountRestricted) Kind() string        { return "account.restricted" }
func (AccountPaused) Kind() string            { return "account.paused" }
func (AccountResumed) Kind() string           { return "account.resumed" }
func (AccountUpdated) Kind() string           { return "account.updated" }
func (AccountDisconnected) Kind() string      { return KindAccountDisconnected }
func (ListenerGap) Kind() string              { return "listener.gap" }
func (ConnectAttemptUpdated) Kind() string    { return "connect.attempt_updated" }
func (ConnectAttemptCompleted) Kind() string  { return "connect.attempt_completed" }
func (ConnectSessionFinished) Kind() string   { return "connect.session_finished" }
func (WebhookDisabled) Kind() string          { return "webhook.disabled" }
func (WebhookRecovered) Kind() string         { return "webhook.recovered" }
func (KeyCreated) Kind() string               { return "key.created" }
func (KeyRevoked) Kind() string               { return "key.revoked" }
func (KeyLeaked) Kind() string                { return "key.leaked" }
func (UsageThreshold) Kind() string           { return "usage.threshold" }
