package attempt

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// Kind is how an account is connected.
type Kind string

// The kinds.
const (
	Credentials Kind = "credentials"
	Mobile      Kind = "mobile_app"
	Cookie      Kind = "cookie"
	Curl        Kind = "curl"
	Reauth      Kind = "reauth"
)

// Progress is what happens within a state. Callers must not depend on its values.
type Progress string

// The steps of progress.
const (
	Queued         Progress = "queued"
	SigningIn      Progress = "signing_in"
	AwaitingCode   Progress = "awaiting_code"
	CheckingCode   Progress = "checking_code"
	AwaitingSelfie Progress = "awaiting_selfie"
	AwaitingScan   Progress = "awaiting_scan"
	Scanned        Progress = "scanned"
	Verifying      Progress = "verifying_session"
	Done           Progress = "done"
)

// Step is work that a worker has to do on the platform.
type Step string

// The steps.
const (
	StepNone   Step = ""
	StepSignIn Step = "sign_in"
	StepOpenQR Step = "open_qr"
	StepCode   Step = "code"
	StepResend Step = "resend"
	StepSwitch Step = "switch"
	StepCheck  Step = "check"
	StepVerify Step = "verify"
)

// The deadlines and bounds of the contract.
const (
	PendingTotal   = 180 * time.Second
	StepLimit      = 90 * time.Second
	CodeLife       = 10 * time.Minute
	EmailLife      = 15 * time.Minute
	FaceLife       = 20 * time.Minute
	MobileLife     = 10 * time.Minute
	RetryLife      = 60 * time.Second
	WholeLife      = 30 * time.Minute
	MaxSubmissions = 5
	MaxResends     = 3
	MaxChallenges  = 4
	ResendPause    = 30 * time.Second
	FaceEvery      = 5 * time.Second
	ScanEvery      = 2 * time.Second
	// MaxTries is how often a step is taken that the platform did not take.
	MaxTries = 4
	// TakenWithin is how long a step may wait for a worker before it is put into the queue again: whoever took it from there may have
	// vanished before they could say so.
	TakenWithin = 15 * time.Second
	// Lease is how long a worker holds a step without a sign of life.
	Lease = 6 * time.Second
)

// Challenge is what the platform asks for.
type Challenge struct {
	Channel   string
	Available []string
	Mask      string
	ExpiresAt time.Time
	Sent      bool
}

// Attempt is one, as its row has it. The secrets are elsewhere.
type Attempt struct {
	Org     id.Org
	ID      id.Attempt
	Version int64
	Kind    Kind
	State   State
	Progress
	// Account is the one to refresh, and in the end the one that was made.
	Account   id.Account
	Reconnect bool
	Label     string
	Region    string
	Reference string
	Metadata  map[string]string
	Remember  bool
	// Session is the hosted session it was started in.
	Session id.Session

	Challenge
	Challenges, Submissions, Resends int
	ResendAt                         time.Time
	// QRExpiresAt is when the QR shown now changes.
	QRExpiresAt time.Time

	Step    Step
	StepSeq int64
	// StepAt is when it was last put into the queue.
	StepAt   time.Time
	Target   string // the channel that a switch goes to
	Tries    int
	RetryAt  time.Time
	PollAt   time.Time
	Lease    string
	LeaseEnd time.Time
	// Sent means that a step that must not be repeated is on its way.
	Sent bool

	Failure    *Failure
	CreatedAt  time.Time
	UpdatedAt  time.Time
	Deadline   time.Time
	ExpiresAt  time.Time
	FinishedAt time.Time
}

// ErrState means that the attempt's state does not allow what was tried.
var ErrState = errors.New("the attempt's state does not allow that")

// move takes an edge of the table.
func (a *Attempt) move(t Trigger, to State, now time.Time) error {
	if !edges[Edge{a.State, t, to}] {
		return fmt.Errorf("%w: %s in %s", ErrState, t, a.State)
	}
	a.State, a.UpdatedAt = to, now
	a.Version++
	return nil
}

// begin gives the attempt a step to take.
func (a *Attempt) begin(s Step, now time.Time) {
	a.Step, a.Target, a.StepAt = s, "", now
	a.StepSeq++
	a.Tries, a.Sent, a.Lease = 0, false, ""
	a.RetryAt, a.PollAt, a.LeaseEnd = time.Time{}, time.Time{}, time.Time{}
}

// rest ends the step.
func (a *Attempt) rest() { a.begin(StepNone, time.Time{}) }

// New makes an attempt that is about to take its first step.
func New(a Attempt, now time.Time) Attempt {
	a.State, a.Version, a.Progress = none, 0, Queued
	a.CreatedAt, a.ExpiresAt, a.Deadline = now, now.Add(WholeLife), now.Add(PendingTotal)
	first, trigger := StepSignIn, Start
	switch a.Kind {
	case Mobile:
		first, trigger = StepOpenQR, StartMobile
	case Cookie, Curl:
		first = StepVerify
	case Credentials, Reauth:
	}
	if err := a.move(trigger, Pending, now); err != nil {
		panic(err) // the table has both starts
	}
	a.begin(first, now)
	return a
}

func (a *Attempt) within(now time.Time, d time.Duration) {
	a.Deadline = earliest(now.Add(d), a.ExpiresAt)
}

func earliest(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}

// Ask is the platform's challenge: the first, the next, or the same again when a step was not taken.
func (a *Attempt) Ask(c Challenge, now time.Time) error {
	to, ok := ofChannel[c.Channel]
	if !ok {
		return a.Fail(Failure{Code: CodeChanged}, now)
	}
	again := c.Channel == a.Channel && a.Challenges > 0
	if !again {
		if a.Challenges++; a.Challenges > MaxChallenges {
			return a.Fail(Failure{Code: CodeChanged}, now)
		}
		// A new question has tries and messages of its own.
		a.Submissions, a.Resends, a.ResendAt = 0, 0, time.Time{}
	}
	if err := a.move(Asked, to, now); err != nil {
		return err
	}
	a.asked(c, now)
	return nil
}

// asked notes a challenge and its times.
func (a *Attempt) asked(c Challenge, now time.Time) {
	a.Challenge = c
	a.rest()
	life := CodeLife
	a.Progress = AwaitingCode
	switch a.State {
	case NeedsEmail:
		life = EmailLife
	case NeedsFace:
		life, a.Progress = FaceLife, AwaitingSelfie
		a.PollAt = now.Add(FaceEvery)
	case Pending, AwaitingMobile, NeedsOTP, NeedsApp, WrongCode, Success, Failed, none:
	}
	a.within(now, life)
	a.Deadline = earliest(a.Deadline, c.ExpiresAt)
	if c.Sent && a.ResendAt.IsZero() {
		a.ResendAt = now.Add(ResendPause)
	}
}

// Wrong is a code that the platform did not accept.
func (a *Attempt) Wrong(now time.Time) error {
	if a.Submissions >= MaxSubmissions {
		return a.Fail(Failure{Code: CodeTwoFactor}, now)
	}
	challengeEnds := a.ExpiresAt
	if !a.Challenge.ExpiresAt.IsZero() {
		challengeEnds = earliest(a.Challenge.ExpiresAt, a.ExpiresAt)
	}
	if err := a.move(Mistaken, WrongCode, now); err != nil {
		return err
	}
	a.Progress = AwaitingCode
	a.rest()
	a.Deadline = challengeEnds
	if least := now.Add(RetryLife); a.Deadline.Before(least) {
		a.Deadline = earliest(least, a.ExpiresAt)
	}
	return nil
}

// Resending notes that the platform sent its code again.
func (a *Attempt) Resending(c Challenge, now time.Time) error {
	to, ok := ofChannel[c.Channel]
	if !ok {
		to = a.State
	}
	if err := a.move(Resent, to, now); err != nil {
		return err
	}
	// The pause begins now, not when it was asked for.
	a.ResendAt = now.Add(ResendPause)
	c.Sent = true
	a.asked(c, now)
	return nil
}

// Switch notes that the platform asks by another channel now.
func (a *Attempt) Switch(c Challenge, now time.Time) error {
	to, ok := ofChannel[c.Channel]
	if !ok {
		return a.Fail(Failure{Code: CodeChanged}, now)
	}
	if to == a.State { // the platform did not follow
		a.again()
		return nil
	}
	if err := a.move(Switched, to, now); err != nil {
		return err
	}
	a.ResendAt = time.Time{}
	a.asked(c, now)
	return nil
}

// StillAsked notes that the platform, asked how a selfie stands, has not decided.
func (a *Attempt) StillAsked(now time.Time) error {
	a.rest()
	a.PollAt = now.Add(FaceEvery)
	return nil
}

// again ends a step that changed nothing.
func (a *Attempt) again() {
	a.rest()
	a.Version++
}

// Open notes the QR that the platform opened, or shows now. scanned means that the phone has seen it.
func (a *Attempt) Open(expires, ends time.Time, scanned bool, now time.Time) error {
	trigger := Opened
	if a.State == AwaitingMobile {
		trigger = Rotated
		if !expires.After(a.QRExpiresAt) && scanned == (a.Progress == Scanned) {
			// Nothing that a caller could see.
			a.rest()
			a.PollAt = now.Add(ScanEvery)
			return nil
		}
	}
	if err := a.move(trigger, AwaitingMobile, now); err != nil {
		return err
	}
	a.Progress = AwaitingScan
	if scanned {
		a.Progress = Scanned
	}
	a.Channel, a.QRExpiresAt = "mobile", expires
	if trigger == Opened {
		a.within(now, MobileLife)
		a.Deadline = earliest(a.Deadline, ends)
	}
	a.rest()
	a.PollAt = now.Add(ScanEvery)
	return nil
}

// Captured notes that the platform has signed the creator in: what is left is to prove the session and keep it.
func (a *Attempt) Captured(now time.Time) error {
	var err error
	switch a.State {
	case NeedsFace:
		err = a.move(Passed, Pending, now)
	case AwaitingMobile:
		err = a.move(Approved, Pending, now)
	case Pending:
		a.Version++
	case NeedsOTP, NeedsApp, NeedsEmail, WrongCode, Success, Failed, none:
		return fmt.Errorf("%w: signed in while in %s", ErrState, a.State)
	}
	if err != nil {
		return err
	}
	a.Progress, a.UpdatedAt = Verifying, now
	a.within(now, PendingTotal)
	a.begin(StepVerify, now)
	return nil
}

// Submit takes a code. It is counted before anybody looks at it.
func (a *Attempt) Submit(now time.Time) error {
	if a.State == NeedsEmail && !a.Challenge.Sent || a.Step != StepNone {
		return ErrState
	}
	if err := a.move(Code, Pending, now); err != nil {
		return err
	}
	a.Submissions++
	a.Progress = CheckingCode
	a.within(now, PendingTotal)
	a.begin(StepCode, now)
	return nil
}

// Selfie takes the word of somebody that the selfie is done; the platform is asked.
func (a *Attempt) Selfie(now time.Time) error {
	if err := a.move(SelfieDone, Pending, now); err != nil {
		return err
	}
	a.Progress = AwaitingSelfie
	a.within(now, PendingTotal)
	a.begin(StepCheck, now)
	return nil
}

// Errors of wishes that come too early or too often.
var (
	ErrTooSoon  = errors.New("the last code was sent a moment ago")
	ErrTooMany  = errors.New("no more codes can be sent")
	ErrNoSuch   = errors.New("the challenge has no such channel")
	ErrBusy     = errors.New("another step is under way")
	ErrFinished = errors.New("the attempt has ended")
)

// Resend asks for the code to be sent, for the first time or again.
func (a *Attempt) Resend(now time.Time) error {
	switch {
	case a.State.Final():
		return ErrFinished
	case a.Step != StepNone:
		return ErrBusy
	case !a.State.TakesCode() || a.Channel == "app":
		return ErrState
	case a.Resends >= MaxResends:
		return ErrTooMany
	case now.Before(a.ResendAt):
		return ErrTooSoon
	}
	a.Resends++
	a.Version++
	a.UpdatedAt = now
	a.begin(StepResend, now)
	return nil
}

// GoTo asks for another channel.
func (a *Attempt) GoTo(channel string, now time.Time) error {
	switch {
	case a.State.Final():
		return ErrFinished
	case !a.State.Challenge():
		return ErrState
	case a.Step != StepNone && a.Step != StepCheck:
		return ErrBusy
	case !slices.Contains(a.Available, channel):
		return ErrNoSuch
	case channel == a.Channel:
		return nil
	}
	a.Version++
	a.UpdatedAt = now
	a.begin(StepSwitch, now)
	a.Target = channel
	return nil
}

// Succeed ends it well.
func (a *Attempt) Succeed(account id.Account, now time.Time) error {
	if err := a.move(Proven, Success, now); err != nil {
		return err
	}
	a.Account, a.Progress = account, Done
	a.finish(now)
	return nil
}

// Fail ends it with what the platform said.
func (a *Attempt) Fail(f Failure, now time.Time) error {
	t := Ended
	if a.State == AwaitingMobile {
		t = Denied
	}
	return a.end(t, f, now)
}

// Cancel ends it by the wish of the caller or the creator.
func (a *Attempt) Cancel(now time.Time) error {
	return a.end(Cancel, Failure{Code: CodeCancelled}, now)
}

// Stop ends it because something else happened: superseded, suspended, account deleted.
func (a *Attempt) Stop(code string, now time.Time) error {
	return a.end(Stop, Failure{Code: code}, now)
}

// expire ends it because its time is over.
func (a *Attempt) expire(now time.Time) error {
	code := CodeExpired
	switch {
	case !now.Before(a.ExpiresAt):
	case a.State == AwaitingMobile:
		code = CodeMobileExpired
	case a.State.TakesCode():
		code = CodeCodeExpired
	}
	return a.end(Deadline, Failure{Code: code}, now)
}

func (a *Attempt) end(t Trigger, f Failure, now time.Time) error {
	if err := a.move(t, Failed, now); err != nil {
		return err
	}
	known := f.Known()
	a.Failure, a.Progress = &known, Done
	a.finish(now)
	return nil
}

func (a *Attempt) finish(now time.Time) {
	a.rest()
	a.FinishedAt, a.Deadline = now, time.Time{}
	a.QRExpiresAt, a.ResendAt = time.Time{}, time.Time{}
}
