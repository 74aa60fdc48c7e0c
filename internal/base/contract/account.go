package contract

import "github.com/stagedoor/stagedoor/internal/base/stamp"

// Account is an account as callers see it, in responses and events.
type Account struct {
	_                   struct{}          `doc:"A connected creator account."`
	ID                  string            `json:"id"`
	Platform            string            `json:"platform" doc:"The platform that the account is on."`
	Site                *string           `json:"site" doc:"The creator's own site, on a platform where each creator has one; else null."`
	Credentials         string            `json:"credentials" enum:"session,token,oauth" doc:"What the account is signed in with: the session of a person, a key that the platform issued to programs, or an authorisation by OAuth."`
	OfUserID            string            `json:"ofUserId" doc:"The platform's id of the creator."`
	Label               string            `json:"label"`
	State               string            `json:"state" enum:"connecting,active,degraded,reauthenticating,reconnect_required,restricted,paused"`
	StateReason         *string           `json:"stateReason" doc:"Why it is in this state. The set may grow."`
	StateChangedAt      stamp.Time        `json:"stateChangedAt"`
	UserAction          string            `json:"userAction" doc:"What a person must do: none, wait, solve_challenge, reconnect, open_native, resume, upgrade. The set may grow."`
	Username            string            `json:"username"`
	DisplayName         string            `json:"displayName"`
	AvatarURL           *string           `json:"avatarUrl"`
	ProxyCountry        string            `json:"proxyCountry" doc:"Where the account's traffic leaves."`
	ReferenceID         *string           `json:"referenceId" doc:"The caller's own id of it."`
	Metadata            map[string]string `json:"metadata"`
	RememberCredentials bool              `json:"rememberCredentials"`
	CreatedAt           stamp.Time        `json:"createdAt"`
	LastSeenAt          *stamp.Time       `json:"lastSeenAt" doc:"When the platform last accepted the session."`
	LastCheckedAt       *stamp.Time       `json:"lastCheckedAt" doc:"When the session was last probed."`
	SessionExpiresAt    *stamp.Time       `json:"sessionExpiresAt" doc:"Null if the platform does not say."`
	PendingAttemptID    *string           `json:"pendingAttemptId" doc:"The attempt under way for this account."`
	Listener            ListenerView      `json:"listener"`
	Sandbox             bool              `json:"sandbox"`
}

// ListenerView is the state of the account's socket as callers see it.
type ListenerView struct {
	_           struct{}    `doc:"The state of the connection that receives an account's events."`
	State       string      `json:"state" enum:"off,connecting,up,down"`
	Since       *stamp.Time `json:"since"`
	LastEventAt *stamp.Time `json:"lastEventAt"`
}
