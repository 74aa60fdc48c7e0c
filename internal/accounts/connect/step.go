package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// errLostStep means that the step has ended or another worker has leased it.
var errLostStep = errors.New("the worker has lost the step")

// takeStep runs the step that a job names, unless it is no longer the current one.
func (c *Connects) takeStep(ctx context.Context, job stepArgs) error {
	r, o, ok, err := c.leaseStep(ctx, job)
	if err != nil || !ok {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, attempt.StepLimit, errors.New("the step has timed out"))
	defer cancel()
	stop := c.renewWhileRunning(ctx, r, cancel)
	defer stop()
	s, err := c.openSecrets(ctx, r)
	if err != nil {
		return c.releaseStep(ctx, r, err)
	}
	if r.Step == attempt.StepVerify {
		return c.verifyStep(ctx, r, o, s)
	}
	answer, err := c.runStep(ctx, r, s)
	if err != nil {
		return c.releaseStep(ctx, r, err)
	}
	return c.recordAnswer(ctx, r, s, answer)
}

// leaseStep leases the step to this worker; ok is false if it is no longer the current one or is leased already. An
// attempt of a suspended org ends instead.
func (c *Connects) leaseStep(ctx context.Context, job stepArgs) (r record, o org.Org, ok bool, err error) {
	if o, err = c.deps.Orgs.Get(ctx, job.Org); err != nil {
		return r, o, false, err
	}
	var ended bool
	err = c.deps.DB.Tx(ctx, func(tx postgres.Tx) (err error) {
		ended = false
		if r, err = lockAttempt(ctx, tx, job.Org, job.Attempt); err != nil {
			return err
		}
		now, err := c.deps.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		if o.SuspendedAt != nil && !r.State.Final() {
			ended = true
			if err := r.Stop(attempt.CodeSuspended, now); err != nil {
				return err
			}
			return c.writeChange(ctx, tx, &r)
		}
		version := r.Version
		if ok = r.LeaseStep(c.deps.Config.Process, job.Step, now); !ok {
			return nil
		}
		return c.saveChange(ctx, tx, &r, version)
	})
	if err == nil && ended {
		c.afterCommit(ctx, r)
	}
	return r, o, ok && err == nil, err
}

// renewEvery is how often a worker renews the lease of its step.
const renewEvery = 2 * time.Second

// renewWhileRunning renews the lease until stop is called, and calls lost when another worker has the step. Failures to
// renew are ignored; the lease covers a few of them.
func (c *Connects) renewWhileRunning(ctx context.Context, r record, lost context.CancelFunc) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range clock.Ticks(ctx, renewEvery) {
			held, err := c.renewLease(ctx, r, attempt.Lease)
			if err == nil && !held {
				lost()
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// renewLease sets the lease of a step to end after last, and reports whether this worker still holds it.
func (c *Connects) renewLease(ctx context.Context, r record, last time.Duration) (held bool, err error) {
	now, err := c.deps.DB.Now(ctx, c.deps.DB)
	if err != nil {
		return false, err
	}
	end := now.Add(last)
	n, err := db.New(c.deps.DB).Renew(ctx, db.RenewParams{OrgID: r.Org, ID: r.ID, Lease: r.Lease, StepSeq: r.StepSeq, LeaseEnd: &end})
	return n > 0, err
}

// via returns the route to the platform: that of the account to reconnect, or one of the attempt's own.
func via(r record) driver.Via {
	who := string(r.ID)
	if r.Account != "" {
		who = string(r.Account)
	}
	return driver.Via{Region: r.Region, Account: who, Site: r.place.Root}
}

// sessionBefore returns the session that the account to reconnect had, or an empty one. It only spares the creator a
// code, so a session that cannot be opened does not matter.
func (c *Connects) sessionBefore(ctx context.Context, r record) driver.Session {
	if r.Account == "" {
		return driver.Session{}
	}
	_, before, err := c.deps.Accounts.StoredSession(ctx, r.Org, r.Account)
	if err != nil {
		return driver.Session{}
	}
	return before
}

// runStep makes the step's request to the platform.
func (c *Connects) runStep(ctx context.Context, r record, s secrets) (driver.Step, error) {
	platform, ok := c.deps.Platforms.Get(r.place.Platform)
	if !ok {
		return driver.Step{}, registry.Unavailable(r.place.Platform)
	}
	d := platform.Driver
	switch r.Step {
	case attempt.StepSignIn:
		return d.SignIn(ctx, via(r), s.email, s.password, c.sessionBefore(ctx, r))
	case attempt.StepOpenQR:
		return d.OpenQR(ctx, via(r))
	case attempt.StepCheck:
		return d.Continue(ctx, via(r), s.next, driver.Input{Check: true})
	case attempt.StepCode, attempt.StepResend, attempt.StepSwitch:
		in, err := c.stepInput(ctx, r)
		if err != nil {
			return driver.Step{}, err
		}
		if err := c.markSent(ctx, r); err != nil {
			return driver.Step{}, err
		}
		return d.Continue(ctx, via(r), s.next, in)
	case attempt.StepExchange:
		if err := c.markSent(ctx, r); err != nil {
			return driver.Step{}, err
		}
		return d.Exchange(ctx, via(r), s.code, s.verifier)
	case attempt.StepNone, attempt.StepVerify:
	}
	return driver.Step{}, fmt.Errorf("not a step of a sign-in: %q", r.Step)
}

// markSent records that the platform may or may not have received the step, until its response is recorded: if this
// worker dies, the step must not be repeated.
func (c *Connects) markSent(ctx context.Context, r record) error {
	n, err := db.New(c.deps.DB).MarkSent(ctx, db.MarkSentParams{OrgID: r.Org, ID: r.ID, Lease: r.Lease, StepSeq: r.StepSeq})
	if err != nil {
		return fmt.Errorf("mark a step as sent: %w", err)
	}
	if n == 0 {
		return errLostStep
	}
	return nil
}

func (c *Connects) stepInput(ctx context.Context, r record) (driver.Input, error) {
	switch r.Step {
	case attempt.StepResend:
		return driver.Input{Resend: true}, nil
	case attempt.StepSwitch:
		return driver.Input{Switch: catalog.Channel(r.Target)}, nil
	case attempt.StepCode, attempt.StepNone, attempt.StepSignIn, attempt.StepOpenQR, attempt.StepCheck, attempt.StepVerify,
		attempt.StepExchange:
	}
	code, err := c.openInput(ctx, r)
	return driver.Input{Code: code}, err
}

// recordAnswer writes the platform's response: the new secrets, and the state that follows.
func (c *Connects) recordAnswer(ctx context.Context, r record, s secrets, answer driver.Step) error {
	changed := s
	if answer.Next.Encode().Reveal() != "" {
		changed.next = answer.Next
	}
	switch {
	case answer.Session != nil:
		changed = secrets{email: s.email, password: s.password, session: answer.Session.Encode()}
	case answer.QR != nil:
		changed.qr = answer.QR.URL
	case answer.Challenge != nil:
		changed.page = answer.Challenge.Page
	}
	if changed.encode().Reveal() != s.encode().Reveal() {
		// Seal before the transaction, because it may have to read keys.
		if err := c.sealSecrets(ctx, &r, changed); err != nil {
			return c.releaseStep(ctx, r, err)
		}
	}
	err := c.finishStep(ctx, r, func(now *record, at time.Time) error {
		now.sealed, now.sealedVersion = r.sealed, r.sealedVersion
		if now.Step == attempt.StepCode {
			now.input = nil
		}
		return applyAnswer(now, answer, at)
	})
	if errors.Is(err, errLostStep) && answer.Session != nil {
		c.signOut(ctx, r, *answer.Session)
	}
	return err
}

// applyAnswer applies a response of the platform to the attempt.
func applyAnswer(r *record, answer driver.Step, now time.Time) error {
	switch {
	case answer.Session != nil:
		return r.SignedIn(now)
	case answer.QR != nil:
		return r.ShowQR(answer.QR.ExpiresAt, answer.QR.EndsAt, answer.QR.Scanned, now)
	case answer.WrongCode:
		return r.RejectCode(now)
	case answer.Challenge != nil:
		return applyChallenge(r, challengeOf(answer.Challenge), now)
	case answer.Failure != nil && !answer.Over():
		return r.StepNotAccepted(failureOf(answer.Failure), now)
	case answer.Failure != nil:
		return applyFailure(r, failureOf(answer.Failure), now)
	}
	return r.Fail(attempt.Failure{Code: attempt.CodeInternal}, now)
}

// applyFailure applies a failure that ends the sign-in. If the platform was unavailable for the first step, the step is
// retried instead.
func applyFailure(r *record, f attempt.Failure, now time.Time) error {
	if (r.Step == attempt.StepSignIn || r.Step == attempt.StepOpenQR) && f.Code == driver.FailUnavailable {
		return r.StepNotAccepted(f, now)
	}
	return r.Fail(f, now)
}

func applyChallenge(r *record, ch attempt.Challenge, now time.Time) error {
	switch {
	case r.Step == attempt.StepResend:
		return r.CodeResent(ch, now)
	case r.Step == attempt.StepSwitch:
		return r.ChannelSwitched(ch, now)
	case r.Step == attempt.StepCheck && r.State != attempt.Pending:
		return r.SelfiePending(now)
	}
	return r.SetChallenge(ch, now)
}

func challengeOf(ch *catalog.Challenge) attempt.Challenge {
	out := attempt.Challenge{Channel: string(ch.Channel), Mask: ch.Mask, ExpiresAt: ch.ExpiresAt, Sent: ch.Sent}
	for _, one := range ch.Available {
		out.Available = append(out.Available, string(one))
	}
	return out
}

func failureOf(f *driver.Failure) attempt.Failure {
	return attempt.Failure{Code: f.Code, RetryAfter: f.RetryAfter, UpstreamCode: f.UpstreamCode, UpstreamMessage: f.UpstreamMessage}
}

// finishStep applies do to the attempt and ends the step, in one transaction, and enqueues the next step. It fails with
// errLostStep if the worker has lost the step. It runs even if ctx has ended, because the platform has responded.
func (c *Connects) finishStep(ctx context.Context, mine record, do func(*record, time.Time) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var r record
	err := c.deps.DB.Tx(ctx, func(tx postgres.Tx) (err error) {
		if r, err = lockAttempt(ctx, tx, mine.Org, mine.ID); err != nil {
			return err
		}
		return c.finishStepIn(ctx, tx, mine, &r, do)
	})
	if err != nil {
		return err
	}
	c.afterCommit(ctx, r)
	return nil
}

// finishStepIn is finishStep within the caller's transaction; r is the locked row.
func (c *Connects) finishStepIn(ctx context.Context, tx postgres.Tx, mine record, r *record,
	do func(*record, time.Time) error) error {
	if r.Lease != mine.Lease || r.StepSeq != mine.StepSeq {
		return errLostStep
	}
	version := r.Version
	now, err := c.deps.DB.Now(ctx, tx)
	if err != nil {
		return err
	}
	if err := do(r, now); err != nil {
		return err
	}
	if err := c.saveChange(ctx, tx, r, version); err != nil {
		return err
	}
	if r.Step != attempt.StepNone && r.StepSeq != mine.StepSeq {
		return c.enqueue(ctx, tx, *r)
	}
	return nil
}

// saveChange stores a change. Only a change that callers can see, with a version other than version, writes events.
func (c *Connects) saveChange(ctx context.Context, tx postgres.Tx, r *record, version int64) error {
	if r.Version == version {
		return updateRow(ctx, tx, *r)
	}
	return c.writeChange(ctx, tx, r)
}

// afterCommit notifies waiters and other nodes of a committed change, and destroys the data key of an ended attempt.
func (c *Connects) afterCommit(ctx context.Context, r record) {
	for _, do := range r.after {
		do(ctx)
	}
	c.publishChange(r.ID)
	if r.State.Final() {
		c.metrics.observeEnd(&r)
		c.destroyKey(ctx, r.Org, r.ID)
	}
}

// releaseStep ends the lease of a step that failed for a reason of ours, so that a worker takes it again immediately,
// unless it must not be repeated. It returns why.
func (c *Connects) releaseStep(ctx context.Context, r record, why error) error {
	if errors.Is(why, errLostStep) {
		return why
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := c.renewLease(ctx, r, 0)
	return errors.Join(why, err)
}

// signOut ends a session that will not be used. A failure is only logged.
func (c *Connects) signOut(ctx context.Context, r record, s driver.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	platform, ok := c.deps.Platforms.Get(r.place.Platform)
	if !ok {
		return
	}
	if err := platform.Driver.SignOut(ctx, via(r), s); err != nil {
		c.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot sign out session of ended attempt",
			slog.String(logkey.AttemptID, string(r.ID)), slog.Any(logkey.Error, err))
	}
}
