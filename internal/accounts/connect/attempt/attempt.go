package attempt

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// Kind is the flow by which an account is connected.
type Kind string

// The kinds.
const (
	Credentials Kind = "credentials"
	Mobile      Kind = "mobile_app"
	Cookie      Kind = "cookie"
	Curl        Kind = "curl"
	Token       Kind = "token"
	OAuth       Kind = "oauth"
	Reauth      Kind = "reauth"
)

// Progress is what happens within a state. Callers must not depend on its values.
type Progress string

// The values of Progress.
const (
	Queued         Progress = "queued"
	SigningIn      Progress = "signing_in"
	AwaitingCode   Progress = "awaiting_code"
	CheckingCode   Progress = "checking_code"
	AwaitingSelfie Progress = "awaiting_selfie"
	AwaitingScan   Progress = "awaiting_scan"
	// AwaitingConsent means that the creator has not come back from the platform's page yet.
	AwaitingConsent Progress = "awaiting_consent"
	Scanned         Progress = "scanned"
	Verifying       Progress = "verifying_session"
	Done            Progress = "done"
)

// Step is a request to the platform that a worker has to make.
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
	// StepExchange exchanges an authorization code.
	StepExchange Step = "exchange"
)

// Deadlines and limits of an attempt.
const (
	PendingTotal   = 180 * time.Second
	StepLimit      = 90 * time.Second
	CodeLife       = 10 * time.Minute
	EmailLife      = 15 * time.Minute
	FaceLife       = 20 * time.Minute
	MobileLife     = 10 * time.Minute
	ConsentLife    = 15 * time.Minute
	RetryLife      = 60 * time.Second
	WholeLife      = 30 * time.Minute
	MaxSubmissions = 5
	MaxResends     = 3
	MaxChallenges  = 4
	ResendPause    = 30 * time.Second
	FaceEvery      = 5 * time.Second
	ScanEvery      = 2 * time.Second
	// MaxTries bounds how often a step is tried that the platform did not accept.
	MaxTries = 4
	// RequeueAfter is how long a step may wait for a worker before it is put into the queue again. The worker that got
	// the job may have died before it could lease the step.
	RequeueAfter = 15 * time.Second
	// Lease is how long a worker holds a step without renewing its lease.
	Lease = 6 * time.Second
)

// Challenge is what the platform asks of the creator.
type Challenge struct {
	// Channel is sms, app, email or face; Available lists the channels that the creator can switch to.
	Channel   string
	Available []string
	// Mask is the masked phone number or email address.
	Mask      string
	ExpiresAt time.Time
	// Sent means that the platform has sent the code. It may send an email only on request.
	Sent bool
}

// Attempt is the state of one connect attempt, without its secrets. It is not safe for concurrent use; package connect
// changes it under a lock of its row.
type Attempt struct {
	Org id.Org
	ID  id.Attempt
	// Version increases with every change that a caller can see.
	Version int64
	Kind    Kind
	State   State
	Progress
	// Account is the account to reconnect, or, after success, the account that was connected.
	Account   id.Account
	Reconnect bool
	Label     string
	Region    string
	Reference string
	Metadata  map[string]string
	Remember  bool
	// Session is the link session that the attempt was started in; empty if it was started through the API.
	Session id.Session

	Challenge
	Challenges, Submissions, Resends int
	ResendAt                         time.Time
	// QRExpiresAt is when the current QR code is replaced.
	QRExpiresAt time.Time

	// Step is the step that is waiting or running; StepSeq identifies it, so that a late result is recognised.
	Step    Step
	StepSeq int64
	// StepAt is when the step was last put into the queue.
	StepAt time.Time
	Target string // the channel that StepSwitch requests
	// Tries counts how often the step was leased. RetryAt, if set, is when it may be leased again.
	Tries   int
	RetryAt time.Time
	// PollAt is when to ask the platform next, while no step is running.
	PollAt time.Time
	// Lease names the worker that runs the step; empty if none does.
	Lease    string
	LeaseEnd time.Time
	// Sent means that a step that must not be repeated may have reached the platform.
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

// transition moves the attempt along an edge of the table.
func (a *Attempt) transition(t Trigger, to State, now time.Time) error {
	if !edges[Edge{a.State, t, to}] {
		return fmt.Errorf("%w: %s in %s", ErrState, t, a.State)
	}
	a.State, a.UpdatedAt = to, now
	a.Version++
	return nil
}

// startStep replaces the current step by a new one that waits for a worker.
func (a *Attempt) startStep(s Step, now time.Time) {
	a.Step, a.Target, a.StepAt = s, "", now
	a.StepSeq++
	a.Tries, a.Sent, a.Lease = 0, false, ""
	a.RetryAt, a.PollAt, a.LeaseEnd = time.Time{}, time.Time{}, time.Time{}
}

// endStep ends the current step. StepSeq increases, so a worker that still runs it cannot write its result.
func (a *Attempt) endStep() { a.startStep(StepNone, time.Time{}) }

// New returns an attempt that waits for its first step.
func New(a Attempt, now time.Time) Attempt {
	a.State, a.Version, a.Progress = none, 0, Queued
	a.CreatedAt, a.ExpiresAt, a.Deadline = now, now.Add(WholeLife), now.Add(PendingTotal)
	first, trigger := StepSignIn, Start
	switch a.Kind {
	case Mobile:
		first, trigger = StepOpenQR, StartMobile
	case Cookie, Curl, Token:
		first = StepVerify
	case OAuth: // the creator comes first
		first, a.Progress, a.Deadline = StepNone, AwaitingConsent, now.Add(ConsentLife)
	case Credentials, Reauth:
	}
	if err := a.transition(trigger, Pending, now); err != nil {
		panic(err) // unreachable: the table has both triggers
	}
	a.startStep(first, now)
	return a
}

// setDeadline sets the deadline to d from now, but not after the end of the whole attempt.
func (a *Attempt) setDeadline(now time.Time, d time.Duration) {
	a.Deadline = earliest(now.Add(d), a.ExpiresAt)
}

// earliest returns the earlier time; a zero time counts as never.
func earliest(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}

// SetChallenge applies a challenge of the platform: the first, the next, or the same one again after a step that the
// platform did not accept. After MaxChallenges the attempt fails.
func (a *Attempt) SetChallenge(c Challenge, now time.Time) error {
	to, ok := stateOfChannel[c.Channel]
	if !ok {
		return a.Fail(Failure{Code: CodeChanged}, now)
	}
	again := c.Channel == a.Channel && a.Challenges > 0
	if !again {
		if a.Challenges++; a.Challenges > MaxChallenges {
			return a.Fail(Failure{Code: CodeChanged}, now)
		}
		// A new challenge has its own limits on codes and resends.
		a.Submissions, a.Resends, a.ResendAt = 0, 0, time.Time{}
	}
	if err := a.transition(Challenged, to, now); err != nil {
		return err
	}
	a.applyChallenge(c, now)
	return nil
}

// applyChallenge stores a challenge, ends the step and sets the deadlines of the state.
func (a *Attempt) applyChallenge(c Challenge, now time.Time) {
	a.Challenge = c
	a.endStep()
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
	a.setDeadline(now, life)
	a.Deadline = earliest(a.Deadline, c.ExpiresAt)
	if c.Sent && a.ResendAt.IsZero() {
		a.ResendAt = now.Add(ResendPause)
	}
}

// RejectCode applies that the platform rejected the code. The creator has at least RetryLife to try again.
func (a *Attempt) RejectCode(now time.Time) error {
	if a.Submissions >= MaxSubmissions {
		return a.Fail(Failure{Code: CodeTwoFactor}, now)
	}
	challengeEnds := a.ExpiresAt
	if !a.Challenge.ExpiresAt.IsZero() {
		challengeEnds = earliest(a.Challenge.ExpiresAt, a.ExpiresAt)
	}
	if err := a.transition(Rejected, WrongCode, now); err != nil {
		return err
	}
	a.Progress = AwaitingCode
	a.endStep()
	a.Deadline = challengeEnds
	if least := now.Add(RetryLife); a.Deadline.Before(least) {
		a.Deadline = earliest(least, a.ExpiresAt)
	}
	return nil
}

// CodeResent applies that the platform has sent a code again.
func (a *Attempt) CodeResent(c Challenge, now time.Time) error {
	to, ok := stateOfChannel[c.Channel]
	if !ok {
		to = a.State
	}
	if err := a.transition(Resent, to, now); err != nil {
		return err
	}
	// The pause starts now, not when the resend was requested.
	a.ResendAt = now.Add(ResendPause)
	c.Sent = true
	a.applyChallenge(c, now)
	return nil
}

// ChannelSwitched applies that the platform now uses another channel.
func (a *Attempt) ChannelSwitched(c Challenge, now time.Time) error {
	to, ok := stateOfChannel[c.Channel]
	if !ok {
		return a.Fail(Failure{Code: CodeChanged}, now)
	}
	if to == a.State { // the platform did not switch
		a.endStepUnchanged()
		return nil
	}
	if err := a.transition(Switched, to, now); err != nil {
		return err
	}
	a.ResendAt = time.Time{}
	a.applyChallenge(c, now)
	return nil
}

// SelfiePending applies that the platform has not decided about the selfie yet.
func (a *Attempt) SelfiePending(now time.Time) error {
	a.endStep()
	a.PollAt = now.Add(FaceEvery)
	return nil
}

// endStepUnchanged ends a step that did not change the challenge; callers see that the step is over.
func (a *Attempt) endStepUnchanged() {
	a.endStep()
	a.Version++
}

// ShowQR applies the QR code that the platform shows: the first one, or its replacement. scanned means that the phone
// has scanned it. expires is when this QR code is replaced, ends when the platform ends the whole sign-in.
func (a *Attempt) ShowQR(expires, ends time.Time, scanned bool, now time.Time) error {
	trigger := QROpened
	if a.State == AwaitingMobile {
		trigger = QRRotated
		if !expires.After(a.QRExpiresAt) && scanned == (a.Progress == Scanned) {
			// Nothing changed that a caller could see.
			a.endStep()
			a.PollAt = now.Add(ScanEvery)
			return nil
		}
	}
	if err := a.transition(trigger, AwaitingMobile, now); err != nil {
		return err
	}
	a.Progress = AwaitingScan
	if scanned {
		a.Progress = Scanned
	}
	a.Channel, a.QRExpiresAt = "mobile", expires
	if trigger == QROpened {
		a.setDeadline(now, MobileLife)
		a.Deadline = earliest(a.Deadline, ends)
	}
	a.endStep()
	a.PollAt = now.Add(ScanEvery)
	return nil
}

// SignedIn applies that the platform has signed the creator in. The session still has to be verified.
func (a *Attempt) SignedIn(now time.Time) error {
	var err error
	switch a.State {
	case NeedsFace:
		err = a.transition(SelfiePassed, Pending, now)
	case AwaitingMobile:
		err = a.transition(Approved, Pending, now)
	case Pending:
		a.Version++
	case NeedsOTP, NeedsApp, NeedsEmail, WrongCode, Success, Failed, none:
		return fmt.Errorf("%w: signed in while in %s", ErrState, a.State)
	}
	if err != nil {
		return err
	}
	a.Progress, a.UpdatedAt = Verifying, now
	a.setDeadline(now, PendingTotal)
	a.startStep(StepVerify, now)
	return nil
}

// AwaitsConsent reports whether the creator has to agree on the platform's page.
func (a *Attempt) AwaitsConsent() bool {
	return a.Kind == OAuth && a.State == Pending && a.Progress == AwaitingConsent
}

// Authorized accepts the authorization code with which the creator came back, and starts the step that exchanges it.
func (a *Attempt) Authorized(now time.Time) error {
	if !a.AwaitsConsent() {
		return ErrState
	}
	a.Version++
	a.Progress, a.UpdatedAt = SigningIn, now
	a.setDeadline(now, PendingTotal)
	a.startStep(StepExchange, now)
	return nil
}

// Submit accepts a code and starts the step that sends it. The code counts before the platform has checked it.
func (a *Attempt) Submit(now time.Time) error {
	if a.State == NeedsEmail && !a.Challenge.Sent || a.Step != StepNone {
		return ErrState
	}
	if err := a.transition(Submitted, Pending, now); err != nil {
		return err
	}
	a.Submissions++
	a.Progress = CheckingCode
	a.setDeadline(now, PendingTotal)
	a.startStep(StepCode, now)
	return nil
}

// ConfirmSelfie starts a check on the platform after a caller said that the selfie is done.
func (a *Attempt) ConfirmSelfie(now time.Time) error {
	if err := a.transition(SelfieDone, Pending, now); err != nil {
		return err
	}
	a.Progress = AwaitingSelfie
	a.setDeadline(now, PendingTotal)
	a.startStep(StepCheck, now)
	return nil
}

// Errors of requests by callers.
var (
	ErrTooSoon  = errors.New("the last code was sent a moment ago")
	ErrTooMany  = errors.New("no more codes can be sent")
	ErrNoSuch   = errors.New("the challenge has no such channel")
	ErrBusy     = errors.New("another step is in progress")
	ErrFinished = errors.New("the attempt has ended")
)

// Resend starts the step that makes the platform send the code, for the first time or again.
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
	a.startStep(StepResend, now)
	return nil
}

// RequestChannel starts the step that switches to another channel. The current channel is not an error.
func (a *Attempt) RequestChannel(channel string, now time.Time) error {
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
	a.startStep(StepSwitch, now)
	a.Target = channel
	return nil
}

// Succeed ends the attempt with the connected account.
func (a *Attempt) Succeed(account id.Account, now time.Time) error {
	if err := a.transition(Verified, Success, now); err != nil {
		return err
	}
	a.Account, a.Progress = account, Done
	a.finish(now)
	return nil
}

// Fail ends the attempt with a failure, caused by the platform or by this service.
func (a *Attempt) Fail(f Failure, now time.Time) error {
	t := FatalResponse
	if a.State == AwaitingMobile {
		t = Denied
	}
	return a.endFailed(t, f, now)
}

// Cancel ends the attempt on request of the caller or the creator.
func (a *Attempt) Cancel(now time.Time) error {
	return a.endFailed(Cancel, Failure{Code: CodeCancelled}, now)
}

// Stop ends the attempt for an external reason: superseded, org suspended, account deleted.
func (a *Attempt) Stop(code string, now time.Time) error {
	return a.endFailed(Stop, Failure{Code: code}, now)
}

// expire ends the attempt because a deadline has passed.
func (a *Attempt) expire(now time.Time) error {
	code := CodeExpired
	switch {
	case !now.Before(a.ExpiresAt):
	case a.State == AwaitingMobile:
		code = CodeMobileExpired
	case a.State.TakesCode():
		code = CodeCodeExpired
	}
	return a.endFailed(Deadline, Failure{Code: code}, now)
}

func (a *Attempt) endFailed(t Trigger, f Failure, now time.Time) error {
	if err := a.transition(t, Failed, now); err != nil {
		return err
	}
	known := f.Known()
	a.Failure, a.Progress = &known, Done
	a.finish(now)
	return nil
}

func (a *Attempt) finish(now time.Time) {
	a.endStep()
	a.FinishedAt, a.Deadline = now, time.Time{}
	a.QRExpiresAt, a.ResendAt = time.Time{}, time.Time{}
}
