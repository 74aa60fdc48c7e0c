package contract

import "github.com/stagedoor/stagedoor/internal/base/stamp"

// Account is an account as callers see it, in responses and events.
type Account struct {
	_                   struct{}          `doc:"A connected creator account."`
	ID                  string            `json:"id" doc:"The id of the account."`
	Platform            string            `json:"platform" doc:"The platform that the account is on."`
	Site                *string           `json:"site" doc:"The creator's own site, on a platform where each creator has one; else null."`
	Credentials         string            `json:"credentials" enum:"session,token,oauth" doc:"What the account is signed in with: the session of a person, a key that the platform issued to programs, or an authorisation by OAuth."`
	OfUserID            string            `json:"ofUserId" doc:"The platform's id of the creator."`
	Label               string            `json:"label" doc:"Your own name for the account; may be empty."`
	State               string            `json:"state" enum:"connecting,active,degraded,reauthenticating,reconnect_required,restricted,paused" doc:"Whether the account works, and why not."`
	StateReason         *string           `json:"stateReason" doc:"Why it is in this state. The set may grow."`
	StateChangedAt      stamp.Time        `json:"stateChangedAt" doc:"Since when the account is in this state."`
	UserAction          string            `json:"userAction" extensible:"none,wait,solve_challenge,reconnect,open_native,resume,upgrade" doc:"What a person must do."`
	Username            string            `json:"username" doc:"The creator's name in the address of the profile."`
	DisplayName         string            `json:"displayName" doc:"The name that the profile shows."`
	AvatarURL           *string           `json:"avatarUrl" doc:"The address of the profile picture; null if there is none."`
	ProxyCountry        string            `json:"proxyCountry" doc:"Where the account's traffic leaves."`
	ReferenceID         *string           `json:"referenceId" doc:"The caller's own id of it."`
	Metadata            map[string]string `json:"metadata" doc:"Your own metadata."`
	RememberCredentials bool              `json:"rememberCredentials" doc:"Whether the credentials are stored, so that the account can be signed in again without the creator."`
	CreatedAt           stamp.Time        `json:"createdAt" doc:"When the account was connected for the first time."`
	LastSeenAt          *stamp.Time       `json:"lastSeenAt" doc:"When the platform last accepted the session."`
	LastCheckedAt       *stamp.Time       `json:"lastCheckedAt" doc:"When the session was last probed."`
	SessionExpiresAt    *stamp.Time       `json:"sessionExpiresAt" doc:"Null if the platform does not say."`
	PendingAttemptID    *string           `json:"pendingAttemptId" doc:"The attempt under way for this account."`
	Listener            ListenerView      `json:"listener" doc:"The connection that receives the account's events."`
	Sandbox             bool              `json:"sandbox" doc:"Whether the account is on the sandbox platform."`
}

// ListenerView is the state of the account's socket as callers see it.
type ListenerView struct {
	_           struct{}    `schema:"Listener" doc:"The state of the connection that receives an account's events."`
	State       string      `json:"state" enum:"off,connecting,up,down" doc:"Whether events are received."`
	Since       *stamp.Time `json:"since" doc:"Since when the listener is in this state; null if it has not started."`
	LastEventAt *stamp.Time `json:"lastEventAt" doc:"When the last event was received; null if none was."`
}
