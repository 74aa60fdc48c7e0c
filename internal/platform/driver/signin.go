package driver

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
)

// Continuation is the state of a sign-in between two steps. It contains secrets, so the caller must encrypt it.
type Continuation struct{ text secret.String }

// Encode returns the continuation as text, to be encrypted and stored.
func (c Continuation) Encode() secret.String { return c.text }

// DecodeContinuation returns the continuation that Encode returned as text.
func DecodeContinuation(text secret.String) Continuation { return Continuation{text} }

// signInState is the JSON inside a continuation. Asked or QR is set.
type signInState struct {
	Session stored    `json:"session"`
	Asked   *asked    `json:"asked,omitempty"`
	QR      *storedQR `json:"qr,omitempty"`
}

// asked is the stored form of the pending challenge.
type asked struct {
	Token     string            `json:"token"`
	Channel   catalog.Channel   `json:"channel"`
	Available []catalog.Channel `json:"available,omitempty"`
	Mask      string            `json:"mask,omitempty"`
	ExpiresAt time.Time         `json:"expiresAt,omitzero"`
	Page      string            `json:"page,omitempty"`
	Sent      bool              `json:"sent"`
	Lasts     time.Duration     `json:"lasts,omitempty"`
}

func storeChallenge(ch catalog.Challenge) *asked {
	return &asked{ch.Token.Reveal(), ch.Channel, ch.Available, ch.Mask, ch.ExpiresAt, ch.Page.Reveal(), ch.Sent, ch.Lasts}
}

func (a *asked) challenge() *catalog.Challenge {
	return &catalog.Challenge{
		Token: secret.New(a.Token), Channel: a.Channel, Available: a.Available, Mask: a.Mask, ExpiresAt: a.ExpiresAt, Page: secret.New(a.Page), Sent: a.Sent,
		Lasts: a.Lasts,
	}
}

type storedQR struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
}

// Input is the creator's or caller's input for the next step. Exactly one field is set.
type Input struct {
	Code   secret.String
	Resend bool
	Switch catalog.Channel
	// Check asks for the state of a selfie or a QR sign-in.
	Check bool
}

// Step is the result of a step of a sign-in. Exactly one of Challenge, QR, Session and Failure is set. With
// WrongCode, the challenge is the previous one and can be answered again.
type Step struct {
	Challenge *catalog.Challenge
	WrongCode bool
	QR        *QR
	Session   *Session
	Failure   *Failure
	// Next continues from here. It is empty if the sign-in has ended. If Failure is set and Next is not empty, the
	// step had no effect and can be repeated.
	Next Continuation
}

// Over reports whether the sign-in has ended.
func (s Step) Over() bool { return s.Session != nil || s.Failure != nil && s.Next.text.Empty() }

// QR is a pending QR sign-in. URL is valid until ExpiresAt, the sign-in until EndsAt.
type QR struct {
	URL               secret.String
	ExpiresAt, EndsAt time.Time
	// Scanned means that the phone has opened the URL and the creator has not yet decided.
	Scanned bool
}

// Failure is the reason why a sign-in ended or a step had no effect. Code is one of the failure codes of the API, or
// FailStep.
type Failure struct {
	Code string
	// Retryable means that the same input may succeed later, after RetryAfter if it is set.
	Retryable  bool
	RetryAfter time.Duration
	// UpstreamCode and UpstreamMessage are the platform's. They are empty if it gave none.
	UpstreamCode    string
	UpstreamMessage string

	// untouched means that the platform did not process the request.
	untouched bool
}

// Failure codes that the driver itself assigns. All others come from the manifest.
const (
	FailEgress      = "egress_unavailable"
	FailUnavailable = "upstream_unavailable"
	FailTimeout     = "upstream_timeout"
	FailChanged     = "upstream_changed"
	FailLocked      = "account_locked"
	// FailRateLimited means that the platform takes no sign-ins from us for a while. Only a manifest assigns it.
	FailRateLimited = "upstream_rate_limited"
	// FailStep means that the platform refused the step and the challenge remains open. It never ends a sign-in.
	FailStep        = "step_refused"
	failWrongCode   = "wrong_code"
	failQRExpired   = "mobile_session_expired"
	failQRDenied    = "mobile_denied"
	failCodeExpired = "code_expired"
)

// limits returns the limits of a step. A platform may take long to sign in, but its responses are small.
func (d *HTTP) limits() egress.Limits {
	return egress.Limits{Header: d.deps.Patience, Total: d.deps.Patience + 15*time.Second, Bytes: 1 << 20}
}

// SignIn starts a sign-in with e-mail and password. before is the session that the account had; its zero value if it had
// none. Of it only the cookies are sent by which the platform recognises the device.
func (d *HTTP) SignIn(ctx context.Context, via Via, email, password secret.String, before Session) (Step, error) {
	req, err := d.deps.Catalog.SignIn.Login(email, password)
	if err != nil {
		return Step{}, err
	}
	session := d.newDeviceSession()
	session.cookies = before.rememberedCookies(d.deps.Catalog)
	return d.takeStep(ctx, via, catalog.StepCredentials, signInState{Session: session.toStored()}, req)
}

// OpenQR starts a sign-in that the creator approves on their phone.
func (d *HTTP) OpenQR(ctx context.Context, via Via) (Step, error) {
	req, err := d.deps.Catalog.SignIn.OpenQR()
	if err != nil {
		return Step{}, err
	}
	session := d.newDeviceSession()
	r, step, err := d.sendStep(ctx, via, session, req)
	if err != nil || step.Failure != nil {
		return step, err
	}
	if !r.ok() {
		return failedStep(d.classifyFailure(catalog.StepQR, d.classifyReply(r))), nil
	}
	qr, unreadable := d.deps.Catalog.SignIn.QR(r.body)
	if unreadable != nil {
		return failedStep(Failure{Code: FailChanged}), nil //nolint:nilerr // an unreadable response ends the step
	}
	session, _ = session.withSetCookies(d.deps.Catalog, r.header, d.deps.Now())
	next := signInState{Session: session.toStored(), QR: &storedQR{qr.ID, qr.Secret.Reveal()}}
	return Step{QR: &QR{URL: qr.URL, ExpiresAt: qr.ExpiresAt, EndsAt: qr.EndsAt}, Next: next.encode()}, nil
}

// newDeviceSession returns a session without cookies on a new random device.
func (d *HTTP) newDeviceSession() Session {
	s := Session{}
	if name := d.deps.Catalog.Session.Device; name != "" {
		var b [16]byte
		_, _ = rand.Read(b[:])
		s = s.withHeader(name, secret.New(hex.EncodeToString(b[:])))
	}
	return s
}

func (r signInState) encode() Continuation { return Continuation{encode(r)} }

// Continue takes the next step of a sign-in.
func (d *HTTP) Continue(ctx context.Context, via Via, from Continuation, in Input) (Step, error) {
	var at signInState
	if json.Unmarshal([]byte(from.text.Reveal()), &at) != nil {
		return Step{}, errStored
	}
	var step Step
	var err error
	if at.QR != nil { // a QR sign-in has only one kind of input
		step, err = d.checkQR(ctx, via, at)
		in = Input{Check: true}
	} else {
		var name string
		var req catalog.Request
		if name, req, err = d.inputRequest(at, in); err != nil {
			return Step{}, err
		}
		step, err = d.takeStep(ctx, via, name, at, req)
	}
	// Giving the old continuation back keeps the sign-in open.
	if err == nil && step.Failure != nil && step.Failure.canRepeat(in) {
		step.Next = from
	}
	return step, err
}

// canRepeat reports whether the step had no effect, so that it can be repeated from the same continuation. A check has
// no effect. A code without a response may be used up, so it can be repeated only if the platform did not process it.
func (f *Failure) canRepeat(in Input) bool {
	switch {
	case !f.Retryable:
		return f.Code == FailStep
	case f.Code == failCodeExpired, f.Code == failQRExpired:
		return false
	}
	return in.Check || f.untouched
}

// inputRequest returns the step for an input, and its request.
func (d *HTTP) inputRequest(at signInState, in Input) (step string, req catalog.Request, err error) {
	if at.Asked == nil {
		return "", catalog.Request{}, errStored
	}
	token := secret.New(at.Asked.Token)
	switch {
	case !in.Code.Empty():
		req, err = d.deps.Catalog.SignIn.Answer(token, in.Code)
		return catalog.StepCode, req, err
	case in.Resend:
		req, err = d.deps.Catalog.SignIn.Resend(token)
		return catalog.StepResend, req, err
	case in.Switch != "":
		req, err = d.deps.Catalog.SignIn.Switch(token, in.Switch)
		return catalog.StepSwitch, req, err
	case in.Check:
		req, err = d.deps.Catalog.SignIn.Check(token)
		return catalog.StepCheck, req, err
	}
	return "", catalog.Request{}, errors.New("a sign-in step needs an input")
}

// sendStep sends a request of a sign-in. A transport failure becomes a step with a Failure.
func (d *HTTP) sendStep(ctx context.Context, via Via, s Session, req catalog.Request) (*reply, Step, error) {
	r, err := d.exchange(ctx, via, s, req, d.limits())
	if err == nil {
		return r, Step{}, nil
	}
	if ctx.Err() != nil {
		return nil, Step{}, fmt.Errorf("sign in: %w", context.Cause(ctx))
	}
	f, known := transportFailure(err)
	if !known {
		return nil, Step{}, fmt.Errorf("sign in: %w", err)
	}
	f.untouched = errors.Is(err, egress.ErrNotSent)
	return nil, failedStep(f), nil
}

// transportFailure returns the failure for an error of egress. It returns false for any other error.
func transportFailure(err error) (Failure, bool) {
	switch {
	case errors.Is(err, problem.EgressUnavailable.New("")):
		return Failure{Code: FailEgress, Retryable: true, RetryAfter: 5 * time.Second}, true
	case errors.Is(err, egress.ErrNoAnswer), errors.Is(err, egress.ErrStalled), errors.Is(err, egress.ErrTooLong):
		return Failure{Code: FailTimeout, Retryable: true}, true
	case errors.Is(err, egress.ErrMalformed), errors.Is(err, egress.ErrTooLarge), errors.Is(err, egress.ErrBomb):
		return Failure{Code: FailChanged}, true
	case errors.Is(err, egress.ErrBroken), errors.Is(err, problem.UpstreamUnavailable.New("")):
		return Failure{Code: FailUnavailable, Retryable: true}, true
	}
	return Failure{}, false
}

func failedStep(f Failure) Step { return Step{Failure: &f} }

// takeStep sends a request of a sign-in and interprets the response: a challenge, a session or a failure.
func (d *HTTP) takeStep(ctx context.Context, via Via, name string, at signInState, req catalog.Request) (Step, error) {
	s := at.Session.toSession()
	r, step, err := d.sendStep(ctx, via, s, req)
	if err != nil || step.Failure != nil {
		return step, err
	}
	s, _ = s.withSetCookies(d.deps.Catalog, r.header, d.deps.Now())
	// A challenge may come with a success or an error status, so look for it first.
	refused := d.classifyReply(r)
	var refusal catalog.Refusal
	if refused != nil {
		refusal = refused.Refusal
	}
	if ch, asked := d.deps.Catalog.SignIn.Challenge(r.body, refusal); asked {
		return d.challengeStep(s, ch), nil
	}
	switch {
	case refused == nil && name == catalog.StepResend && at.Asked != nil:
		// The platform only confirms that it has sent another code. The session is still a half one.
		ch := at.Asked.challenge()
		ch.Sent = true
		return d.challengeStep(s, *ch), nil
	case refused == nil:
		return d.completeSignIn(s), nil
	}
	f := d.classifyFailure(name, refused)
	switch {
	case f.Code == failWrongCode && at.Asked != nil:
		at.Session = s.toStored()
		return Step{WrongCode: true, Challenge: at.Asked.challenge(), Next: at.encode()}, nil
	case f.Code == FailStep && at.Asked == nil:
		f.Code = FailChanged // at the first step there is no challenge that could remain open
	}
	return failedStep(f), nil
}

// challengeStep returns the step for a challenge. The continuation keeps the cookies, which may be all by which the
// platform recognises the sign-in.
func (d *HTTP) challengeStep(s Session, ch catalog.Challenge) Step {
	if ch.Channel == "" {
		return failedStep(Failure{Code: FailChanged})
	}
	if ch.Lasts > 0 {
		ch.ExpiresAt = d.deps.Now().Add(ch.Lasts)
	}
	next := signInState{Session: s.toStored(), Asked: storeChallenge(ch)}
	return Step{Challenge: &ch, Next: next.encode()}
}

// completeSignIn returns the final step, which is a failure if the session lacks a required cookie or header.
func (d *HTTP) completeSignIn(s Session) Step {
	if len(s.missingParts(d.deps.Catalog)) > 0 {
		return failedStep(Failure{Code: FailChanged})
	}
	return Step{Session: &s}
}

// checkQR asks for the state of a QR sign-in. The URL in the returned step may be a new one.
func (d *HTTP) checkQR(ctx context.Context, via Via, at signInState) (Step, error) {
	req, err := d.deps.Catalog.SignIn.CheckQR(catalog.QR{ID: at.QR.ID, Secret: secret.New(at.QR.Secret)})
	if err != nil {
		return Step{}, err
	}
	s := at.Session.toSession()
	r, step, err := d.sendStep(ctx, via, s, req)
	if err != nil || step.Failure != nil {
		return step, err
	}
	s, _ = s.withSetCookies(d.deps.Catalog, r.header, d.deps.Now())
	if !r.ok() {
		return failedStep(d.classifyFailure(catalog.StepQRCheck, d.classifyReply(r))), nil
	}
	status, unreadable := d.deps.Catalog.SignIn.QRStatus(r.body)
	if unreadable != nil {
		return failedStep(Failure{Code: FailChanged}), nil //nolint:nilerr // an unreadable response ends the step
	}
	switch status {
	case catalog.QRApproved:
		return d.completeSignIn(s), nil
	case catalog.QRDenied:
		return failedStep(Failure{Code: failQRDenied}), nil
	case catalog.QRExpired:
		return failedStep(Failure{Code: failQRExpired, Retryable: true}), nil
	case catalog.QRWaiting, catalog.QRScanned:
	}
	qr, unreadable := d.deps.Catalog.SignIn.QR(r.body)
	if unreadable != nil {
		return failedStep(Failure{Code: FailChanged}), nil //nolint:nilerr // an unreadable response ends the step
	}
	shown := &QR{URL: qr.URL, ExpiresAt: qr.ExpiresAt, EndsAt: qr.EndsAt, Scanned: status == catalog.QRScanned}
	at.Session = s.toStored()
	return Step{QR: shown, Next: at.encode()}, nil
}

// classifyFailure turns the refusal of a step into a failure: by the manifest if it lists such a refusal, else by the
// kind of refusal.
func (d *HTTP) classifyFailure(step string, r *Refused) Failure {
	code, wait := d.deps.Catalog.SignIn.Failure(step, r.Status, r.Refusal)
	f := Failure{Code: code, UpstreamCode: r.Code, UpstreamMessage: r.Message, RetryAfter: wait}
	if f.Code == "" {
		f.Code = failureOf(r.Kind, r.Status)
	}
	switch f.Code {
	case FailUnavailable, FailTimeout, FailRateLimited, failCodeExpired, failQRExpired:
		f.Retryable = true
	}
	f.untouched = r.Kind == catalog.RefusedRateLimited || r.Kind == catalog.RefusedUnavailable
	return f
}

func failureOf(kind catalog.RefusalKind, status int) string {
	switch kind {
	case catalog.RefusedRateLimited, catalog.RefusedUnavailable, catalog.RefusedError:
		if status == http.StatusGatewayTimeout {
			return FailTimeout
		}
		return FailUnavailable
	case catalog.RefusedRestricted:
		return FailLocked
	case catalog.RefusedConflict, catalog.RefusedRejected:
		return FailStep
	case catalog.RefusedSession, catalog.RefusedCreatorOnly, catalog.RefusedForbidden, catalog.RefusedNotFound:
	}
	return FailChanged
}

// SignOut ends the session on the platform. It is not an error if the session has already ended. A key stays valid,
// because only its owner can delete it.
func (d *HTTP) SignOut(ctx context.Context, via Via, s Session) error {
	switch s.Credentials() {
	case catalog.ByToken:
		return nil
	case catalog.ByOAuth:
		return d.revokeTokens(ctx, via, s)
	case catalog.BySession:
	}
	req, err := d.deps.Catalog.SignIn.Logout()
	if err != nil {
		return err
	}
	r, err := d.exchange(ctx, via, s, req, d.limits())
	if err != nil {
		return fmt.Errorf("sign out: %w", err)
	}
	if refused := d.classifyReply(r); refused != nil && refused.Kind != catalog.RefusedSession {
		return fmt.Errorf("sign out: %w", refused)
	}
	return nil
}
