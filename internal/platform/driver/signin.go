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

// Continuation is a sign-in between two steps. It is secret: seal it.
type Continuation struct{ text secret.String }

// Encode is the continuation as text, to be sealed.
func (c Continuation) Encode() secret.String { return c.text }

// DecodeContinuation undoes Encode.
func DecodeContinuation(text secret.String) Continuation { return Continuation{text} }

// resume is what a continuation holds.
type resume struct {
	Session stored    `json:"session"`
	Asked   *asked    `json:"asked,omitempty"`
	QR      *storedQR `json:"qr,omitempty"`
}

// asked is the challenge that waits for an answer.
type asked struct {
	Token     string            `json:"token"`
	Channel   catalog.Channel   `json:"channel"`
	Available []catalog.Channel `json:"available,omitempty"`
	Mask      string            `json:"mask,omitempty"`
	ExpiresAt time.Time         `json:"expiresAt,omitzero"`
	Page      string            `json:"page,omitempty"`
	Sent      bool              `json:"sent"`
}

func keepAsked(ch catalog.Challenge) *asked {
	return &asked{ch.Token.Reveal(), ch.Channel, ch.Available, ch.Mask, ch.ExpiresAt, ch.Page.Reveal(), ch.Sent}
}

func (a *asked) challenge() *catalog.Challenge {
	return &catalog.Challenge{
		Token: secret.New(a.Token), Channel: a.Channel, Available: a.Available, Mask: a.Mask, ExpiresAt: a.ExpiresAt, Page: secret.New(a.Page), Sent: a.Sent,
	}
}

type storedQR struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
}

// Input is what the creator or the caller adds to go on; exactly one of it.
type Input struct {
	Code   secret.String
	Resend bool
	Switch catalog.Channel
	// Check asks how a selfie or a QR stands.
	Check bool
}

// Step is where a sign-in stands. Exactly one of Challenge, QR, Session and Failure is set; with WrongCode the challenge is the old
// one and can be answered again.
type Step struct {
	Challenge *catalog.Challenge
	WrongCode bool
	QR        *QR
	Session   *Session
	Failure   *Failure
	// Next goes on from here, unless the sign-in is over. A failure that has one is a step that was not taken: take it again.
	Next Continuation
}

// Over says whether the sign-in has ended.
func (s Step) Over() bool { return s.Session != nil || s.Failure != nil && s.Next.text.Empty() }

// QR is what the creator's phone opens.
type QR struct {
	URL               secret.String
	ExpiresAt, EndsAt time.Time
	// Scanned means that the phone has opened it and not yet decided.
	Scanned bool
}

// Failure is why a sign-in is over, or why a step was not taken. Code is one of the contract's failure codes, or FailStep.
type Failure struct {
	Code string
	// Retryable means that the same input may succeed later, after RetryAfter if that is set.
	Retryable  bool
	RetryAfter time.Duration
	// UpstreamCode and UpstreamMessage are what the platform said; 0 and empty if nothing.
	UpstreamCode    int
	UpstreamMessage string

	// untouched means that the platform did nothing with the request.
	untouched bool
}

// Codes of failures that the driver decides itself; the others come from the manifest.
const (
	FailEgress      = "egress_unavailable"
	FailUnavailable = "upstream_unavailable"
	FailTimeout     = "upstream_timeout"
	FailChanged     = "upstream_changed"
	FailLocked      = "account_locked"
	// FailStep means that the platform does not do this now: the challenge stands. It never ends a sign-in.
	FailStep        = "step_refused"
	failWrongCode   = "wrong_code"
	failQRExpired   = "mobile_session_expired"
	failQRDenied    = "mobile_denied"
	failCodeExpired = "code_expired"
)

// limits of a step: a platform may think about a sign-in for long, but has little to say.
func (d *HTTP) limits() egress.Limits {
	return egress.Limits{Header: d.Patience, Total: d.Patience + 15*time.Second, Bytes: 1 << 20}
}

// SignIn starts a sign-in with name and password.
func (d *HTTP) SignIn(ctx context.Context, via Via, email, password secret.String) (Step, error) {
	req, err := d.Catalog.SignIn.Login(email, password)
	if err != nil {
		return Step{}, err
	}
	return d.step(ctx, via, resume{Session: d.fresh().store()}, req)
}

// OpenQR starts a sign-in by the creator's phone.
func (d *HTTP) OpenQR(ctx context.Context, via Via) (Step, error) {
	req, err := d.Catalog.SignIn.OpenQR()
	if err != nil {
		return Step{}, err
	}
	session := d.fresh()
	r, step, err := d.send(ctx, via, session, req)
	if err != nil || step.Failure != nil {
		return step, err
	}
	if !r.ok() {
		return failed(d.judge(r)), nil
	}
	qr, unreadable := d.Catalog.SignIn.QR(r.body)
	if unreadable != nil {
		return failed(Failure{Code: FailChanged}), nil //nolint:nilerr // that the answer cannot be read is how the step ended
	}
	session, _ = session.after(d.Catalog, r.header, d.Now())
	next := resume{Session: session.store(), QR: &storedQR{qr.ID, qr.Secret.Reveal()}}
	return Step{QR: &QR{URL: qr.URL, ExpiresAt: qr.ExpiresAt, EndsAt: qr.EndsAt}, Next: next.encode()}, nil
}

// fresh is a session of nobody yet, on a device of its own.
func (d *HTTP) fresh() Session {
	s := Session{}
	if name := d.Catalog.Session.Device; name != "" {
		var b [16]byte
		_, _ = rand.Read(b[:])
		s = s.withHeader(name, secret.New(hex.EncodeToString(b[:])))
	}
	return s
}

func (r resume) encode() Continuation { return Continuation{encode(r)} }

// Continue takes the next step of a sign-in.
func (d *HTTP) Continue(ctx context.Context, via Via, from Continuation, in Input) (Step, error) {
	var at resume
	if json.Unmarshal([]byte(from.text.Reveal()), &at) != nil {
		return Step{}, errStored
	}
	var step Step
	var err error
	if at.QR != nil {
		step, err = d.checkQR(ctx, via, at)
		in = Input{Check: true}
	} else {
		var req catalog.Request
		if req, err = d.input(at, in); err != nil {
			return Step{}, err
		}
		step, err = d.step(ctx, via, at, req)
	}
	if err == nil && step.Failure != nil && step.Failure.notTaken(in) {
		step.Next = from
	}
	return step, err
}

// notTaken says whether the sign-in stands where it stood. To ask how it stands can be repeated; a code that was sent and not
// answered may be used up, so only a platform that says it did nothing gets it again.
func (f *Failure) notTaken(in Input) bool {
	switch {
	case !f.Retryable:
		return f.Code == FailStep
	case f.Code == failCodeExpired, f.Code == failQRExpired:
		return false
	}
	return in.Check || f.untouched
}

func (d *HTTP) input(at resume, in Input) (catalog.Request, error) {
	if at.Asked == nil {
		return catalog.Request{}, errStored
	}
	token := secret.New(at.Asked.Token)
	switch {
	case !in.Code.Empty():
		return d.Catalog.SignIn.Answer(token, in.Code)
	case in.Resend:
		return d.Catalog.SignIn.Resend(token)
	case in.Switch != "":
		return d.Catalog.SignIn.Switch(token, in.Switch)
	case in.Check:
		return d.Catalog.SignIn.Check(token)
	}
	return catalog.Request{}, errors.New("a step of a sign-in needs an input")
}

// send exchanges a request of a sign-in; what went wrong on the way is a failure.
func (d *HTTP) send(ctx context.Context, via Via, s Session, req catalog.Request) (*reply, Step, error) {
	r, err := d.exchange(ctx, via, s, req, d.limits())
	if err == nil {
		return r, Step{}, nil
	}
	if ctx.Err() != nil {
		return nil, Step{}, fmt.Errorf("sign in: %w", context.Cause(ctx))
	}
	f, known := broken(err)
	if !known {
		return nil, Step{}, fmt.Errorf("sign in: %w", err)
	}
	f.untouched = errors.Is(err, egress.ErrNotSent)
	return nil, failed(f), nil
}

// broken is the failure that an error of the way stands for.
func broken(err error) (Failure, bool) {
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

func failed(f Failure) Step { return Step{Failure: &f} }

// step exchanges a request of a sign-in and reads what the platform makes of it.
func (d *HTTP) step(ctx context.Context, via Via, at resume, req catalog.Request) (Step, error) {
	s := at.Session.session()
	r, step, err := d.send(ctx, via, s, req)
	if err != nil || step.Failure != nil {
		return step, err
	}
	s, _ = s.after(d.Catalog, r.header, d.Now())
	if ch, asked := d.Catalog.SignIn.Challenge(r.body); asked {
		if ch.Channel == "" {
			return failed(Failure{Code: FailChanged}), nil
		}
		next := resume{Session: s.store(), Asked: keepAsked(ch)}
		return Step{Challenge: &ch, Next: next.encode()}, nil
	}
	if r.ok() {
		return d.signedIn(s), nil
	}
	f := d.judge(r)
	switch {
	case f.Code == failWrongCode && at.Asked != nil:
		at.Session = s.store()
		return Step{WrongCode: true, Challenge: at.Asked.challenge(), Next: at.encode()}, nil
	case f.Code == FailStep && at.Asked == nil:
		f.Code = FailChanged // at the first step there is nothing that could stand
	}
	return failed(f), nil
}

// signedIn is the end of a sign-in, if the platform gave all that a session needs.
func (d *HTTP) signedIn(s Session) Step {
	if len(s.missing(d.Catalog)) > 0 {
		return failed(Failure{Code: FailChanged})
	}
	return Step{Session: &s}
}

// checkQR asks whether the creator's phone has decided.
func (d *HTTP) checkQR(ctx context.Context, via Via, at resume) (Step, error) {
	req, err := d.Catalog.SignIn.CheckQR(catalog.QR{ID: at.QR.ID, Secret: secret.New(at.QR.Secret)})
	if err != nil {
		return Step{}, err
	}
	s := at.Session.session()
	r, step, err := d.send(ctx, via, s, req)
	if err != nil || step.Failure != nil {
		return step, err
	}
	s, _ = s.after(d.Catalog, r.header, d.Now())
	if !r.ok() {
		return failed(d.judge(r)), nil
	}
	status, unreadable := d.Catalog.SignIn.QRStatus(r.body)
	if unreadable != nil {
		return failed(Failure{Code: FailChanged}), nil //nolint:nilerr // that the answer cannot be read is how the step ended
	}
	switch status {
	case catalog.QRApproved:
		return d.signedIn(s), nil
	case catalog.QRDenied:
		return failed(Failure{Code: failQRDenied}), nil
	case catalog.QRExpired:
		return failed(Failure{Code: failQRExpired, Retryable: true}), nil
	case catalog.QRWaiting, catalog.QRScanned:
	}
	qr, unreadable := d.Catalog.SignIn.QR(r.body)
	if unreadable != nil {
		return failed(Failure{Code: FailChanged}), nil //nolint:nilerr // that the answer cannot be read is how the step ended
	}
	shown := &QR{URL: qr.URL, ExpiresAt: qr.ExpiresAt, EndsAt: qr.EndsAt, Scanned: status == catalog.QRScanned}
	at.Session = s.store()
	return Step{QR: shown, Next: at.encode()}, nil
}

// judge is the failure that a refusal stands for: by the platform's own code, else by what kind of refusal it is.
func (d *HTTP) judge(r *reply) Failure {
	refusal := d.Catalog.Classify(r.status, r.header, r.body)
	f := Failure{Code: d.Catalog.SignIn.Failure(refusal.Code), UpstreamCode: refusal.Code, UpstreamMessage: refusal.Message, RetryAfter: refusal.RetryAfter}
	if f.Code == "" {
		f.Code = failureOf(refusal.Kind, r.status)
	}
	switch f.Code {
	case FailUnavailable, FailTimeout, failCodeExpired, failQRExpired:
		f.Retryable = true
	}
	f.untouched = refusal.Kind == catalog.RefusedRateLimited || refusal.Kind == catalog.RefusedUnavailable
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

// SignOut ends the session on the platform. A session that has ended already is no error.
func (d *HTTP) SignOut(ctx context.Context, via Via, s Session) error {
	req, err := d.Catalog.SignIn.Logout()
	if err != nil {
		return err
	}
	r, err := d.exchange(ctx, via, s, req, d.limits())
	if err != nil {
		return fmt.Errorf("sign out: %w", err)
	}
	if refused := d.refused(r); refused != nil && refused.Kind != catalog.RefusedSession {
		return fmt.Errorf("sign out: %w", refused)
	}
	return nil
}
