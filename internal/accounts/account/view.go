package account

import (
	"cmp"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
)

// View returns the account as callers see it.
func (a Account) View() contract.Account {
	metadata := a.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	return contract.Account{
		ID: string(a.ID), Platform: a.Place.Platform, Site: nilIfEmpty(a.Place.Site), Credentials: string(a.Credentials), OfUserID: a.UpstreamID, Label: a.Label, State: string(a.State), StateReason: nilIfEmpty(a.Reason),
		StateChangedAt: stamp.Time(a.StateChangedAt), UserAction: a.UserAction(), Username: a.Username, DisplayName: a.DisplayName,
		AvatarURL: nilIfEmpty(a.AvatarURL), ProxyCountry: a.Region, ReferenceID: nilIfEmpty(a.ReferenceID),
		Metadata:            metadata,
		RememberCredentials: a.RememberCredentials, CreatedAt: stamp.Time(a.CreatedAt), LastSeenAt: (*stamp.Time)(a.LastSeenAt), LastCheckedAt: (*stamp.Time)(a.LastCheckedAt),
		SessionExpiresAt: (*stamp.Time)(a.SessionExpiresAt), PendingAttemptID: nilIfEmpty(string(a.PendingAttempt)),
		Listener: a.listenerView(), Sandbox: a.Environment.IsTest(),
	}
}

func (l Listener) view() contract.ListenerView {
	return contract.ListenerView{State: string(cmp.Or(l.State, ListenerOff)), Since: (*stamp.Time)(l.Since), LastEventAt: (*stamp.Time)(l.LastEventAt)}
}

// listenerView reports a listener as connecting while the account is. A client that waits for "up" has then also
// received account.connected.
func (a Account) listenerView() contract.ListenerView {
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
