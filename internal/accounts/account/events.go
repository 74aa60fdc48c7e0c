package account

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// change is a change of state that an event reports.
type change struct {
	before, after Account
	by            audit.By
	cause         Cause
	at            time.Time
	// connectURL is where the creator can connect the account again.
	connectURL string
}

func (a Account) event(data contract.Event) outbox.Event {
	return outbox.Event{Org: a.Org, Account: a.ID, OfUserID: a.UpstreamID, ReferenceID: a.ReferenceID, Data: data}
}

// transitionFrom returns the fields that every event of an account has.
func (a Account) transitionFrom(from State) contract.Transition {
	return contract.Transition{
		From: string(from), To: string(a.State), Reason: nilIfEmpty(a.Reason), UserAction: a.UserAction(),
	}
}

func (c change) transition() contract.Transition { return c.after.transitionFrom(c.before.State) }

func connectedEvent(c change) contract.Event {
	return contract.AccountConnected{
		Transition: c.transition(), Account: c.after.View(), AttemptID: nilIfEmpty(string(c.after.Attempt)),
		AttemptKind: c.after.AttemptKind,
	}
}

func reconnectedEvent(c change) contract.Event {
	return contract.AccountReconnected{
		Transition: c.transition(), Account: c.after.View(), AttemptID: nilIfEmpty(string(c.after.Attempt)),
		DownForSec: secondsSince(c.before.downSince, c.at),
	}
}

func reauthenticatingEvent(c change) contract.Event {
	return contract.AccountReauthenticating{
		Transition: c.transition(), AttemptID: nilIfEmpty(string(c.cause.Attempt)),
	}
}

func degradedEvent(c change) contract.Event {
	return contract.AccountDegraded{Transition: c.transition(), SinceSec: secondsSince(c.cause.FailingSince, c.at)}
}

func recoveredEvent(c change) contract.Event {
	return contract.AccountRecovered{Transition: c.transition(), SinceSec: secondsSince(&c.before.StateChangedAt, c.at)}
}

func reconnectRequiredEvent(c change) contract.Event {
	return contract.AccountReconnectRequired{
		Transition: c.transition(), UpstreamError: c.cause.Upstream, ConnectURL: nilIfEmpty(c.connectURL),
	}
}

func restrictedEvent(c change) contract.Event {
	return contract.AccountRestricted{Transition: c.transition(), UpstreamError: c.cause.Upstream}
}

func pausedEvent(c change) contract.Event {
	return contract.AccountPaused{Transition: c.transition(), By: c.by.Actor()}
}

func resumedEvent(c change) contract.Event {
	return contract.AccountResumed{Transition: c.transition(), By: c.by.Actor()}
}

func disconnectedEvent(c change) contract.Event {
	return contract.AccountDisconnected{
		Transition: c.transition(), ID: c.after.ID, OfUserID: c.before.UpstreamID, By: c.by.Actor(),
		PurgedAt: stamp.Time(c.at),
	}
}

func secondsSince(at *time.Time, now time.Time) int {
	if at == nil {
		return 0
	}
	return int(max(now.Sub(*at), 0).Seconds())
}
