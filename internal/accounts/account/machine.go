package account

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// State is where an account stands. The set is closed within /v1.
type State string

// The states. Disconnected is what is left after a disconnect: no caller sees it.
const (
	Connecting        State = "connecting"
	Active            State = "active"
	Degraded          State = "degraded"
	Reauthenticating  State = "reauthenticating"
	ReconnectRequired State = "reconnect_required"
	Restricted        State = "restricted"
	Paused            State = "paused"
	Disconnected      State = "disconnected"

	// Unborn is where an account comes from.
	Unborn State = ""
)

// States lists the states of a live account.
func States() []State {
	return []State{Connecting, Active, Degraded, Reauthenticating, ReconnectRequired, Restricted, Paused}
}

// NeedAttention lists the states in which the account does not work and a person has to act.
func NeedAttention() []State { return []State{ReconnectRequired, Restricted, Degraded} }

// Trigger is something that happens to an account.
type Trigger string

// The triggers.
const (
	// SignedIn is a connect that succeeded: of a new creator, by account id, or as a creator who is connected already.
	SignedIn Trigger = "signed in"
	// Proved is a good probe.
	Proved Trigger = "probe ok"
	// Steadied is the second good probe in a row after trouble.
	Steadied Trigger = "2 good probes"
	// Troubled is the third failure within a minute of the platform or the way to it.
	Troubled Trigger = "3 failures in 60 s"
	// SessionLost is a session that two probes found dead.
	SessionLost Trigger = "session dead, confirmed"
	// LoggedOut is a session that was seen to be ended.
	LoggedOut Trigger = "logout seen"
	// Asked is a caller's wish for a new sign-in with the remembered credentials.
	Asked Trigger = "POST reauthenticate"
	// SignInSucceeded and SignInFailed are how a sign-in with remembered credentials ends.
	SignInSucceeded Trigger = "sign-in succeeded"
	SignInFailed    Trigger = "sign-in failed"
	// Banned is a platform that has locked, limited or banned the account.
	Banned Trigger = "locked or banned"
	// Pause and Resume are the caller's, the plan's or the operator's.
	Pause  Trigger = "pause"
	Resume Trigger = "resume"
	// Leave is the disconnect.
	Leave Trigger = "disconnect"
)

// guard is what must hold besides for an edge to be taken.
type guard string

const (
	always      guard = ""
	first       guard = "first time"
	again       guard = "not the first time"
	canReauth   guard = "credentials and a try left"
	cannot      guard = "no credentials or no try left"
	sessionLive guard = "session alive"
	sessionDead guard = "session dead"
)

// Facts are what guards ask for.
type Facts struct {
	// WasActive means that the account has been active before.
	WasActive bool
	// CanReauth means that credentials are remembered and a try is left.
	CanReauth bool
	// SessionDead means that the session is known to be dead.
	SessionDead bool
}

func (f Facts) hold(g guard) bool {
	switch g {
	case first:
		return !f.WasActive
	case again:
		return f.WasActive
	case canReauth:
		return f.CanReauth
	case cannot:
		return !f.CanReauth
	case sessionLive:
		return !f.SessionDead
	case sessionDead:
		return f.SessionDead
	case always:
	}
	return true
}

// The events of edges.
const (
	EventConnected         = "account.connected"
	EventReconnected       = "account.reconnected"
	EventReauthenticating  = "account.reauthenticating"
	EventDegraded          = "account.degraded"
	EventRecovered         = "account.recovered"
	EventReconnectRequired = "account.reconnect_required"
	EventRestricted        = "account.restricted"
	EventPaused            = "account.paused"
	EventResumed           = "account.resumed"
	EventDisconnected      = "account.disconnected"
)

// Events that are no change of state.
const (
	EventChallengeRequired = "account.challenge_required"
	EventSessionExpiring   = "account.session_expiring"
	EventUpdated           = "account.updated"
)

// row is one line of the table: the same trigger takes all of From to one state.
type row struct {
	from  []State
	on    Trigger
	when  guard
	to    State
	event string
}

// working are the states in which the session is believed to be good.
var working = []State{Connecting, Active, Degraded}

// edges is the whole machine (contract §4): 41 pairs of states. A paused account stays paused whatever is learned of it, so
// that only who paused it can start it again; what was learned shows when it is resumed.
var edges = []row{
	{[]State{Unborn}, SignedIn, always, Connecting, ""},
	{[]State{Connecting}, Proved, first, Active, EventConnected},
	{[]State{Connecting}, Proved, again, Active, EventReconnected},
	{[]State{Connecting, Active}, Troubled, always, Degraded, EventDegraded},
	{[]State{Degraded}, Steadied, always, Active, EventRecovered},
	{working, SessionLost, canReauth, Reauthenticating, EventReauthenticating},
	{working, SessionLost, cannot, ReconnectRequired, EventReconnectRequired},
	{working, LoggedOut, always, ReconnectRequired, EventReconnectRequired},
	{[]State{Reauthenticating}, SignInSucceeded, always, Active, EventReconnected},
	{[]State{Reauthenticating}, SignInFailed, always, ReconnectRequired, EventReconnectRequired},
	{[]State{Active, Degraded, ReconnectRequired}, Asked, always, Reauthenticating, EventReauthenticating},
	// No event: whoever listens hears account.reconnected when the session is proved.
	{[]State{Active, Degraded, Reauthenticating, ReconnectRequired, Restricted}, SignedIn, always, Connecting, ""},
	{[]State{Connecting, Active, Degraded, Reauthenticating, ReconnectRequired}, Banned, always, Restricted, EventRestricted},
	{[]State{Restricted}, Proved, always, Active, EventRecovered},
	{[]State{Restricted}, SessionLost, always, ReconnectRequired, EventReconnectRequired},
	{[]State{Connecting, Active, Degraded, Reauthenticating, ReconnectRequired, Restricted}, Pause, always, Paused, EventPaused},
	{[]State{Paused}, Resume, sessionLive, Connecting, EventResumed},
	{[]State{Paused}, Resume, sessionDead, ReconnectRequired, EventResumed},
	{States(), Leave, always, Disconnected, EventDisconnected},
}

// stays are repeats and late news: allowed, without a change and without an event.
var stays = map[Trigger][]State{
	SignedIn:        {Connecting, Paused},
	Proved:          {Active, Degraded},
	Steadied:        {Active},
	Troubled:        {Degraded, Restricted},
	SessionLost:     {Reauthenticating, ReconnectRequired, Paused},
	LoggedOut:       {Reauthenticating, ReconnectRequired, Restricted, Paused},
	Asked:           {Reauthenticating},
	SignInSucceeded: {Paused},
	SignInFailed:    {ReconnectRequired, Paused},
	Banned:          {Restricted, Paused},
	Pause:           {Paused},
	Resume:          {Connecting, Active, Degraded, Reauthenticating, ReconnectRequired, Restricted},
}

// ErrIllegal means that a trigger cannot happen in a state.
var ErrIllegal = errors.New("this cannot happen to an account in its state")

// Step is where a trigger takes an account.
type Step struct {
	From, To State
	// Event is empty where nothing is to be told.
	Event string
}

// Changed says whether the state is another one.
func (s Step) Changed() bool { return s.From != s.To }

// Next is the machine: what a trigger does to an account in a state. It is ErrIllegal if nothing is listed.
func Next(from State, on Trigger, f Facts) (Step, error) {
	for _, e := range edges {
		if e.on == on && slices.Contains(e.from, from) && f.hold(e.when) {
			return Step{from, e.to, e.event}, nil
		}
	}
	if slices.Contains(stays[on], from) {
		return Step{From: from, To: from}, nil
	}
	return Step{}, fmt.Errorf("%w: %s in %s", ErrIllegal, on, name(from))
}

func name(s State) string {
	if s == Unborn {
		return "no state"
	}
	return string(s)
}

// Diagram draws the machine for the documents.
func Diagram() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	for _, e := range edges {
		for _, from := range e.from {
			fmt.Fprintf(&b, "  %s --> %s: %s\n", node(from), node(e.to), e.label())
		}
	}
	return b.String()
}

// node is a state's name in a diagram, where the beginning and the end have none.
func node(s State) string {
	if s == Unborn || s == Disconnected {
		return "[*]"
	}
	return string(s)
}

func (e row) label() string {
	if e.when == always {
		return string(e.on)
	}
	return string(e.on) + " (" + string(e.when) + ")"
}
