// Package attempt is the state machine of a connect attempt: its states, what moves it from one to another, its
// deadlines, and what a caller can do next. It is pure: it uses no database, no platform and no clock of its own.
// Package connect stores attempts and talks to the platform.
//
// Start with Edges, the complete table. Every change of state goes through Attempt.transition, which rejects what is
// not in the table.
package attempt

// State is the state of an attempt, as callers see it.
type State string

// The states.
const (
	Pending        State = "pending"
	AwaitingMobile State = "awaiting_mobile_session"
	NeedsOTP       State = "needs_otp"
	NeedsApp       State = "needs_app_otp"
	NeedsEmail     State = "needs_email"
	NeedsFace      State = "needs_face_otp"
	WrongCode      State = "wrong_2fa_code_retry"
	Success        State = "completed_success"
	Failed         State = "completed_failed"
	// none is the state before an attempt exists.
	none State = ""
)

// States lists all states.
func States() []State {
	return []State{Pending, AwaitingMobile, NeedsOTP, NeedsApp, NeedsEmail, NeedsFace, WrongCode, Success, Failed}
}

// Final reports whether the attempt has ended.
func (s State) Final() bool { return s == Success || s == Failed }

// TakesCode reports whether the attempt waits for a code.
func (s State) TakesCode() bool {
	return s == NeedsOTP || s == NeedsApp || s == NeedsEmail || s == WrongCode
}

// Challenge reports whether the platform waits for a code or a selfie of the creator.
func (s State) Challenge() bool { return s.TakesCode() || s == NeedsFace }

// Trigger is what moves an attempt. Its text labels the edge in the diagram of docs/connect.md.
type Trigger string

// The triggers.
const (
	Start       Trigger = "start"
	StartMobile Trigger = "start mobile"
	// Responses of the platform.
	QROpened      Trigger = "QR session opened"
	Challenged    Trigger = "challenge asked"
	Rejected      Trigger = "code wrong, tries left"
	Verified      Trigger = "session captured, verified, sealed"
	FatalResponse Trigger = "fatal answer"
	Resent        Trigger = "code sent again"
	Switched      Trigger = "channel switched"
	SelfiePassed  Trigger = "selfie passed"
	Approved      Trigger = "approved on the phone"
	Denied        Trigger = "denied on the phone"
	QRRotated     Trigger = "QR rotated"
	// Actions of callers and creators.
	Submitted  Trigger = "code submitted"
	SelfieDone Trigger = "selfie said to be done"
	Cancel     Trigger = "cancelled"
	// Time and the system.
	Deadline    Trigger = "deadline"
	Stop        Trigger = "superseded, suspended or deleted"
	StepRetried Trigger = "worker lost, step taken again"
)

// Edge is one row of the table.
type Edge struct {
	From    State
	Trigger Trigger
	To      State
}

// stateOfChannel maps a channel of a challenge to the state in which the attempt waits for it.
var stateOfChannel = map[string]State{"sms": NeedsOTP, "app": NeedsApp, "email": NeedsEmail, "face": NeedsFace}

// Edges returns the table: every transition that is allowed.
func Edges() []Edge {
	list := []Edge{
		{none, Start, Pending},
		{none, StartMobile, Pending},
		{Pending, QROpened, AwaitingMobile},
		{Pending, Challenged, NeedsOTP}, {Pending, Challenged, NeedsApp}, {Pending, Challenged, NeedsEmail},
		{Pending, Challenged, NeedsFace},
		{Pending, Rejected, WrongCode},
		{Pending, Verified, Success},
		{Pending, FatalResponse, Failed},
		{Pending, StepRetried, Pending},
		{NeedsOTP, Submitted, Pending}, {NeedsApp, Submitted, Pending}, {NeedsEmail, Submitted, Pending},
		{WrongCode, Submitted, Pending},
		{NeedsFace, SelfieDone, Pending}, {NeedsFace, SelfiePassed, Pending},
		{NeedsOTP, Resent, NeedsOTP}, {NeedsEmail, Resent, NeedsEmail}, {WrongCode, Resent, NeedsOTP}, {WrongCode, Resent, NeedsEmail},
		{AwaitingMobile, QRRotated, AwaitingMobile},
		{AwaitingMobile, Approved, Pending},
		{AwaitingMobile, Denied, Failed},
	}
	challenges := []State{NeedsOTP, NeedsApp, NeedsEmail, NeedsFace}
	for _, from := range append(challenges, WrongCode) {
		for _, to := range challenges {
			if from != to {
				list = append(list, Edge{from, Switched, to})
			}
		}
		// Resending the code or switching the channel can make the platform end the sign-in.
		list = append(list, Edge{from, FatalResponse, Failed})
	}
	for _, from := range States() {
		if from.Final() {
			continue
		}
		for _, why := range []Trigger{Cancel, Deadline, Stop} {
			list = append(list, Edge{from, why, Failed})
		}
	}
	return list
}

// edges is Edges as a set.
var edges = func() map[Edge]bool {
	all := map[Edge]bool{}
	for _, e := range Edges() {
		all[e] = true
	}
	return all
}()

// Diagram renders the table as the Mermaid diagram of docs/connect.md.
func Diagram() string {
	name := func(s State) string {
		if s == none {
			return "[*]"
		}
		return string(s)
	}
	text := "stateDiagram-v2\n"
	for _, e := range Edges() {
		text += "  " + name(e.From) + " --> " + name(e.To) + ": " + string(e.Trigger) + "\n"
	}
	return text + "  completed_success --> [*]\n  completed_failed --> [*]\n"
}
