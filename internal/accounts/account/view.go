package account

import (
	"cmp"

	"github.com/stagedoor/stagedoor/internal/base/stamp"
)

// View is an account as callers see it, in responses and events.
type View struct {
	ID                  string            `json:"id"`
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
	State       string      `json:"state" enum:"off,connecting,up,down"`
	Since       *stamp.Time `json:"since"`
	LastEventAt *stamp.Time `json:"lastEventAt"`
}

// View returns the account as callers see it.
func (a Account) View() View {
	metadata := a.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	return View{
		ID: string(a.ID), OfUserID: a.UpstreamID, Label: a.Label, State: string(a.State), StateReason: nilIfEmpty(a.Reason),
		StateChangedAt: stamp.Time(a.StateChangedAt), UserAction: a.UserAction(), Username: a.Username, DisplayName: a.DisplayName,
		AvatarURL: nilIfEmpty(a.AvatarURL), ProxyCountry: a.Region, ReferenceID: nilIfEmpty(a.ReferenceID),
		Metadata:            metadata,
		RememberCredentials: a.RememberCredentials, CreatedAt: stamp.Time(a.CreatedAt), LastSeenAt: (*stamp.Time)(a.LastSeenAt), LastCheckedAt: (*stamp.Time)(a.LastCheckedAt),
		SessionExpiresAt: (*stamp.Time)(a.SessionExpiresAt), PendingAttemptID: nilIfEmpty(string(a.PendingAttempt)),
		Listener: a.listenerView(), Sandbox: a.Environment.IsTest(),
	}
}

func (l Listener) view() ListenerView {
	return ListenerView{State: string(cmp.Or(l.State, ListenerOff)), Since: (*stamp.Time)(l.Since), LastEventAt: (*stamp.Time)(l.LastEventAt)}
}

// listenerView reports a listener as connecting while the account is. A client that waits for "up" has then also
// received account.connected.
func (a Account) listenerView() ListenerView {
	v := a.Listener.view()
	if a.State == Connecting && v.State == string(ListenerUp) {
		v.State = string(ListenerConnecting)
	}
	return v
}

// nilIfEmpty makes an empty string a JSON null.
func nilIfEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
