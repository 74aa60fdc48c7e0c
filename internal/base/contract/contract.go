// Package contract declares what the service sends to its customers in more than one place: accounts and attempts, which
// are in responses and in events, and the payloads of the service's own events.
//
// Each kind of event is one Go type here, and Events lists them all. The types are the only description of the events:
// senders build them, the OpenAPI document is made from them by reflection, and the clients, the documentation and the
// dashboard are generated from that document. Events of a platform are not here; they are in its catalogue. Start at
// Event and Events.
package contract

import "reflect"

// Event is the payload of an event that the service itself causes. It must not contain secrets.
type Event interface {
	// Kind returns the name of the event, such as account.connected.
	Kind() string
}

// Scope says what the events of a kind are about.
type Scope string

// The scopes.
const (
	PerAccount Scope = "account"
	// PerOrg events concern no account and are only in the organisation's stream.
	PerOrg Scope = "organisation"
)

// Definition describes a kind of event. All of them are durable.
type Definition struct {
	Kind    string
	Summary string
	Scope   Scope
	// Data is the type of the payload.
	Data reflect.Type
}

// define makes the definition of a payload. A payload that only embeds another type is described by that type.
func define[T Event](summary string, scope Scope) Definition {
	var event T
	data := reflect.TypeFor[T]()
	if data.NumField() == 1 && data.Field(0).Anonymous {
		data = data.Field(0).Type
	}
	return Definition{Kind: event.Kind(), Summary: summary, Scope: scope, Data: data}
}

// Events lists the kinds of events that the service causes, in the order of the documentation.
var Events = []Definition{
	define[Test]("Sent by the webhook test. It is not stored.", PerAccount),
	define[AccountConnected]("The account works for the first time.", PerAccount),
	define[AccountReconnected]("The account works again after it was down.", PerAccount),
	define[AccountReauthenticating](
		"The session has ended. The account is being signed in again with the remembered credentials.", PerAccount),
	define[AccountDegraded]("The platform, the network path to it or the listener fails.", PerAccount),
	define[AccountRecovered]("A degraded or restricted account works again.", PerAccount),
	define[AccountReconnectRequired]("The session has ended, and the creator must connect the account again.", PerAccount),
	define[AccountChallengeRequired](
		"The account is being signed in again, and a person must answer a challenge.", PerAccount),
	define[AccountSessionExpiring]("The session ends in 7 days, or in 24 hours.", PerAccount),
	define[AccountRestricted]("The platform has locked or limited the account.", PerAccount),
	define[AccountPaused]("The account was paused. Calls are refused until it is resumed.", PerAccount),
	define[AccountResumed]("The account is no longer paused.", PerAccount),
	define[AccountUpdated]("The label, region or metadata of the account changed.", PerAccount),
	define[AccountDisconnected](
		"The last event of an account. Its session and credentials have been destroyed.", PerAccount),
	define[ListenerGap]("Events may be missing between two times.", PerAccount),
	define[ConnectAttemptUpdated]("The state of a connect attempt changed.", PerOrg),
	define[ConnectAttemptCompleted]("A connect attempt ended.", PerOrg),
	define[ConnectSessionFinished]("A connect session ended.", PerOrg),
	define[WebhookDisabled]("A webhook failed for too long, or its receiver answered 410 Gone.", PerAccount),
	define[WebhookRecovered]("A failing webhook works again.", PerAccount),
	define[KeyCreated]("An API key was created.", PerOrg),
	define[KeyRevoked]("An API key was revoked.", PerOrg),
	define[KeyLeaked]("An API key was published, for example in a public repository, and has been revoked.", PerOrg),
	define[JobCompleted]("A job is done, possibly with items that failed.", PerOrg),
	define[JobFailed]("A job has ended without being done.", PerOrg),
	define[UsageThreshold]("Most of a month's calls are used.", PerOrg),
}
