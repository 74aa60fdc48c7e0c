package account

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/contract"
)

// State is the state of an account. The set is closed within /v1.
type State string

// The states. Disconnected is the tombstone that a disconnect leaves; no caller sees it.
const (
	Connecting        State = "connecting"
	Active            State = "active"
	Degraded          State = "degraded"
	Reauthenticating  State = "reauthenticating"
	ReconnectRequired State = "reconnect_required"
	Restricted        State = "restricted"
	Paused            State = "paused"
	Disconnected      State = "disconnected"

	// Unborn is the state before an account exists, where its first edge starts.
	Unborn State = ""
)

// States lists the states of a live account.
func States() []State {
	return []State{Connecting, Active, Degraded, Reauthenticating, ReconnectRequired, Restricted, Paused}
}

// NeedAttention lists the states that the API counts as needing attention.
func NeedAttention() []State { return []State{ReconnectRequired, Restricted, Degraded} }

// Trigger is an observation or a request that may move an account along an edge. Its text labels the edge in the
// diagram of docs/accounts.md.
type Trigger string

// The triggers.
const (
	// SignedIn is a successful connect: of a new creator, of an account named by its id, or of a creator who is already
	// connected.
	SignedIn    Trigger = "signed in"
	ProbePassed Trigger = "probe ok"
	// Recovered is the second good probe in a row after failures.
	Recovered Trigger = "2 good probes"
	// Failing is the third failure within a minute of the platform or of the network path to it.
	Failing Trigger = "3 failures in 60 s"
	// SessionLost is a session that two probes found dead.
	SessionLost Trigger = "session dead, confirmed"
	LoggedOut   Trigger = "logout seen"
	// ReauthRequested is a caller's request to sign in again with the remembered credentials.
	ReauthRequested Trigger = "POST reauthenticate"
	// SignInSucceeded and SignInFailed end a sign-in with remembered credentials.
	SignInSucceeded Trigger = "sign-in succeeded"
	SignInFailed    Trigger = "sign-in failed"
	// Banned means that the platform has locked, limited or banned the account.
	Banned Trigger = "locked or banned"
	// Pause and Resume come from a caller, the plan or an operator.
	Pause  Trigger = "pause"
	Resume Trigger = "resume"
	// Disconnect is the end of the account.
	Disconnect Trigger = "disconnect"
)

// guard is an additional condition of an edge. Its text appears in the diagram.
type guard string

const (
	always       guard = ""
	firstTime    guard = "first time"
	notFirstTime guard = "not the first time"
	canReauth    guard = "credentials and a try left"
	cannotReauth guard = "no credentials or no try left"
	sessionAlive guard = "session alive"
	sessionDead  guard = "session dead"
)

// Facts are the inputs of the guards.
type Facts struct {
	// WasActive means that the account has been active before.
	WasActive bool
	// CanReauth means that credentials are remembered and the retry limit allows another sign-in.
	CanReauth bool
	// SessionDead means that the session is known to be dead.
	SessionDead bool
}

func (f Facts) satisfy(g guard) bool {
	switch g {
	case firstTime:
		return !f.WasActive
	case notFirstTime:
		return f.WasActive
	case canReauth:
		return f.CanReauth
	case cannotReauth:
		return !f.CanReauth
	case sessionAlive:
		return !f.SessionDead
	case sessionDead:
		return f.SessionDead
	case always:
	}
	return true
}

// edge is one line of the table: a trigger moves an account from any of the states in from to one state.
type edge struct {
	from []State
	on   Trigger
	when guard
	to   State
	// event makes the event that the edge writes; nil for none.
	event func(change) contract.Event
}

// working lists the states in which the session is believed to be good.
var working = []State{Connecting, Active, Degraded}

// edges is the complete state machine, drawn in docs/accounts.md. Only a resume ends a pause: what is observed of a
// paused account takes effect when the account is resumed.
var edges = []edge{
	{[]State{Unborn}, SignedIn, always, Connecting, nil},
	{[]State{Connecting}, ProbePassed, firstTime, Active, connectedEvent},
	{[]State{Connecting}, ProbePassed, notFirstTime, Active, reconnectedEvent},
	{[]State{Connecting, Active}, Failing, always, Degraded, degradedEvent},
	{[]State{Degraded}, Recovered, always, Active, recoveredEvent},
	{working, SessionLost, canReauth, Reauthenticating, reauthenticatingEvent},
	{working, SessionLost, cannotReauth, ReconnectRequired, reconnectRequiredEvent},
	{working, LoggedOut, always, ReconnectRequired, reconnectRequiredEvent},
	{[]State{Reauthenticating}, SignInSucceeded, always, Active, reconnectedEvent},
	{[]State{Reauthenticating}, SignInFailed, always, ReconnectRequired, reconnectRequiredEvent},
	{[]State{Active, Degraded, ReconnectRequired}, ReauthRequested, always, Reauthenticating, reauthenticatingEvent},
	// No event: account.reconnected follows when the session has passed a probe.
	{[]State{Active, Degraded, Reauthenticating, ReconnectRequired, Restricted}, SignedIn, always, Connecting, nil},
	{[]State{Connecting, Active, Degraded, Reauthenticating, ReconnectRequired}, Banned, always, Restricted, restrictedEvent},
	{[]State{Restricted}, ProbePassed, always, Active, recoveredEvent},
	{[]State{Restricted}, SessionLost, always, ReconnectRequired, reconnectRequiredEvent},
	{[]State{Connecting, Active, Degraded, Reauthenticating, ReconnectRequired, Restricted}, Pause, always, Paused, pausedEvent},
	{[]State{Paused}, Resume, sessionAlive, Connecting, resumedEvent},
	{[]State{Paused}, Resume, sessionDead, ReconnectRequired, resumedEvent},
	{States(), Disconnect, always, Disconnected, disconnectedEvent},
}

// noops lists the states in which a trigger is legal but changes nothing and writes no event: repeats, and
// observations that arrive late.
var noops = map[Trigger][]State{
	SignedIn:        {Connecting, Paused},
	ProbePassed:     {Active, Degraded},
	Recovered:       {Active},
	Failing:         {Degraded, Restricted},
	SessionLost:     {Reauthenticating, ReconnectRequired, Paused},
	LoggedOut:       {Reauthenticating, ReconnectRequired, Restricted, Paused},
	ReauthRequested: {Reauthenticating},
	SignInSucceeded: {Paused},
	SignInFailed:    {ReconnectRequired, Paused},
	Banned:          {Restricted, Paused},
	Pause:           {Paused},
	Resume:          {Connecting, Active, Degraded, Reauthenticating, ReconnectRequired, Restricted},
}

// ErrIllegal means that the machine has no edge for a trigger in a state.
var ErrIllegal = errors.New("illegal trigger for the state of the account")

// Step is the result of a trigger.
type Step struct {
	From, To State
	// event makes the event to write; nil for none.
	event func(change) contract.Event
}

func (s Step) Changed() bool { return s.From != s.To }

// Next returns what a trigger does to an account in a state. It fails with ErrIllegal if neither edges nor noops list
// the pair.
func Next(from State, on Trigger, f Facts) (Step, error) {
	for _, e := range edges {
		if e.on == on && slices.Contains(e.from, from) && f.satisfy(e.when) {
			return Step{from, e.to, e.event}, nil
		}
	}
	if slices.Contains(noops[on], from) {
		return Step{From: from, To: from}, nil
	}
	return Step{}, fmt.Errorf("%w: %s in %s", ErrIllegal, on, stateName(from))
}

func stateName(s State) string {
	if s == Unborn {
		return "no state"
	}
	return string(s)
}

// Diagram renders the machine as the Mermaid diagram of docs/accounts.md.
func Diagram() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	for _, e := range edges {
		for _, from := range e.from {
			fmt.Fprintf(&b, "  %s --> %s: %s\n", diagramName(from), diagramName(e.to), e.label())
		}
	}
	return b.String()
}

// diagramName returns a state's name in the diagram; Mermaid writes both the start and the end as [*].
func diagramName(s State) string {
	if s == Unborn || s == Disconnected {
		return "[*]"
	}
	return string(s)
}

func (e edge) label() string {
	if e.when == always {
		return string(e.on)
	}
	return string(e.on) + " (" + string(e.when) + ")"
}
