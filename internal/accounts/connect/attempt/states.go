// Package attempt is the machine of a connect attempt: its states, what moves it from one to another, its deadlines, and what a caller
// can do next. It is pure: it knows no database, no platform and no clock of its own.
//
// Edges is the whole table. Attempt.move is the only way from one state to another, and refuses what is not in it.
package attempt

// State is where an attempt stands.
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
	// none is where an attempt comes from.
	none State = ""
)

// States lists all of them.
func States() []State {
	return []State{Pending, AwaitingMobile, NeedsOTP, NeedsApp, NeedsEmail, NeedsFace, WrongCode, Success, Failed}
}

// Final says whether nothing can happen any more.
func (s State) Final() bool { return s == Success || s == Failed }

// TakesCode says whether a code is waited for.
func (s State) TakesCode() bool {
	return s == NeedsOTP || s == NeedsApp || s == NeedsEmail || s == WrongCode
}

// Challenge says whether the creator is asked for something by a channel.
func (s State) Challenge() bool { return s.TakesCode() || s == NeedsFace }

// Trigger is what moves an attempt.
type Trigger string

// The triggers.
const (
	Start       Trigger = "start"
	StartMobile Trigger = "start mobile"
	// The platform's answers.
	Opened   Trigger = "QR session opened"
	Asked    Trigger = "challenge asked"
	Mistaken Trigger = "code wrong, tries left"
	Proven   Trigger = "session captured, verified, sealed"
	Ended    Trigger = "fatal answer"
	Resent   Trigger = "code sent again"
	Switched Trigger = "channel switched"
	Passed   Trigger = "selfie passed"
	Approved Trigger = "approved on the phone"
	Denied   Trigger = "denied on the phone"
	Rotated  Trigger = "QR rotated"
	// What people do.
	Code       Trigger = "code submitted"
	SelfieDone Trigger = "selfie said to be done"
	Cancel     Trigger = "cancelled"
	// Time and the system.
	Deadline Trigger = "deadline"
	Stop     Trigger = "superseded, suspended or deleted"
	Retake   Trigger = "worker lost, step taken again"
)

// Edge is one row of the table.
type Edge struct {
	From    State
	Trigger Trigger
	To      State
}

// ofChannel is the state that asks for a channel's proof.
var ofChannel = map[string]State{"sms": NeedsOTP, "app": NeedsApp, "email": NeedsEmail, "face": NeedsFace}

// Edges is the table: every move that there is.
func Edges() []Edge {
	list := []Edge{
		{none, Start, Pending},
		{none, StartMobile, Pending},
		{Pending, Opened, AwaitingMobile},
		{Pending, Asked, NeedsOTP}, {Pending, Asked, NeedsApp}, {Pending, Asked, NeedsEmail}, {Pending, Asked, NeedsFace},
		{Pending, Mistaken, WrongCode},
		{Pending, Proven, Success},
		{Pending, Ended, Failed},
		{Pending, Retake, Pending},
		{NeedsOTP, Code, Pending}, {NeedsApp, Code, Pending}, {NeedsEmail, Code, Pending}, {WrongCode, Code, Pending},
		{NeedsFace, SelfieDone, Pending}, {NeedsFace, Passed, Pending},
		{NeedsOTP, Resent, NeedsOTP}, {NeedsEmail, Resent, NeedsEmail}, {WrongCode, Resent, NeedsOTP}, {WrongCode, Resent, NeedsEmail},
		{AwaitingMobile, Rotated, AwaitingMobile},
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
		// What the platform says when a step beside the code (another channel, a new code) ends the sign-in.
		list = append(list, Edge{from, Ended, Failed})
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

// edges finds them.
var edges = func() map[Edge]bool {
	all := map[Edge]bool{}
	for _, e := range Edges() {
		all[e] = true
	}
	return all
}()

// Diagram draws the table for the documents, as Mermaid.
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
