package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/internal/db"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// errNotOurs means that the step was ended, or is another worker's now.
var errNotOurs = errors.New("the step is not this worker's any more")

// step takes the step that a job names, if it is still to be taken.
func (c *Connects) step(ctx context.Context, job stepArgs) error {
	r, o, ok, err := c.take(ctx, job)
	if err != nil || !ok {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, attempt.StepLimit, errors.New("the step took too long"))
	defer cancel()
	stop := c.keep(ctx, r, cancel)
	defer stop()
	s, err := c.openSecrets(ctx, r)
	if err != nil {
		return c.giveBack(ctx, r, err)
	}
	if r.Step == attempt.StepVerify {
		return c.verify(ctx, r, o, s)
	}
	answer, err := c.drive(ctx, r, o, s)
	if err != nil {
		return c.giveBack(ctx, r, err)
	}
	return c.apply(ctx, r, s, answer)
}

// take leases the step to this worker.
func (c *Connects) take(ctx context.Context, job stepArgs) (r record, o org.Org, ok bool, err error) {
	if o, err = c.Orgs.Get(ctx, job.Org); err != nil {
		return r, o, false, err
	}
	var ended bool
	err = c.DB.Tx(ctx, func(tx postgres.Tx) (err error) {
		ended = false
		if r, err = lock(ctx, tx, job.Org, job.Attempt); err != nil {
			return err
		}
		now, err := c.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		if o.SuspendedAt != nil && !r.State.Final() {
			ended = true
			if err := r.Stop(attempt.CodeSuspended, now); err != nil {
				return err
			}
			return c.write(ctx, tx, &r)
		}
		version := r.Version
		if ok = r.Take(c.Config.Process, job.Step, now); !ok {
			return nil
		}
		return c.save(ctx, tx, &r, version)
	})
	if err == nil && ended {
		c.settled(ctx, r)
	}
	return r, o, ok && err == nil, err
}

// renewEvery is how often a worker says that it is still at a step.
const renewEvery = 2 * time.Second

// keep renews the lease until the step is over, and ends the step when somebody else has it.
func (c *Connects) keep(ctx context.Context, r record, lost context.CancelFunc) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(renewEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			held, err := c.renewLease(ctx, r, attempt.Lease)
			if err == nil && !held {
				lost()
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// renewLease makes the lease of a step end a while from now, and says whether this worker still has it.
func (c *Connects) renewLease(ctx context.Context, r record, last time.Duration) (held bool, err error) {
	now, err := c.DB.Now(ctx, c.DB.Pool())
	if err != nil {
		return false, err
	}
	end := now.Add(last)
	n, err := db.New(c.DB.Pool()).Renew(ctx, db.RenewParams{OrgID: r.Org, ID: r.ID, Lease: r.Lease, StepSeq: r.StepSeq, LeaseEnd: &end})
	if err != nil {
		return false, fmt.Errorf("renew the lease of a step: %w", err)
	}
	return n > 0, nil
}

// via is the way out for an attempt.
func via(r record) driver.Via {
	who := string(r.ID)
	if r.Account != "" {
		who = string(r.Account)
	}
	return driver.Via{Region: r.Region, Account: who}
}

// drive does the step on the platform.
func (c *Connects) drive(ctx context.Context, r record, o org.Org, s secrets) (driver.Step, error) {
	platform, ok := c.Platforms[o.Environment]
	if !ok {
		return driver.Step{}, fmt.Errorf("there is no platform for %s", o.Environment)
	}
	d := platform.Driver
	switch r.Step {
	case attempt.StepSignIn:
		return d.SignIn(ctx, via(r), s.email, s.password)
	case attempt.StepOpenQR:
		return d.OpenQR(ctx, via(r))
	case attempt.StepCheck:
		return d.Continue(ctx, via(r), s.next, driver.Input{Check: true})
	case attempt.StepCode, attempt.StepResend, attempt.StepSwitch:
		in, err := c.input(ctx, r)
		if err != nil {
			return driver.Step{}, err
		}
		// From here on nobody knows whether the platform has had it, until it has answered.
		n, err := db.New(c.DB.Pool()).MarkSent(ctx, db.MarkSentParams{OrgID: r.Org, ID: r.ID, Lease: r.Lease, StepSeq: r.StepSeq})
		if err != nil {
			return driver.Step{}, fmt.Errorf("mark a step as sent: %w", err)
		}
		if n == 0 {
			return driver.Step{}, errNotOurs
		}
		return d.Continue(ctx, via(r), s.next, in)
	case attempt.StepNone, attempt.StepVerify:
	}
	return driver.Step{}, fmt.Errorf("no step of a sign-in: %q", r.Step)
}

func (c *Connects) input(ctx context.Context, r record) (driver.Input, error) {
	switch r.Step {
	case attempt.StepResend:
		return driver.Input{Resend: true}, nil
	case attempt.StepSwitch:
		return driver.Input{Switch: catalog.Channel(r.Target)}, nil
	case attempt.StepCode, attempt.StepNone, attempt.StepSignIn, attempt.StepOpenQR, attempt.StepCheck, attempt.StepVerify:
	}
	code, err := c.openInput(ctx, r)
	return driver.Input{Code: code}, err
}

// apply writes what the platform answered.
func (c *Connects) apply(ctx context.Context, r record, s secrets, answer driver.Step) error {
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
		// Sealed before the transaction: it may ask the keyring.
		if err := c.sealSecrets(ctx, &r, changed); err != nil {
			return c.giveBack(ctx, r, err)
		}
	}
	err := c.finish(ctx, r, func(now *record, at time.Time) error {
		now.sealed, now.sealedVersion = r.sealed, r.sealedVersion
		if now.Step == attempt.StepCode {
			now.input = nil
		}
		return transition(now, answer, at)
	})
	if errors.Is(err, errNotOurs) && answer.Session != nil {
		c.signOut(ctx, r, *answer.Session)
	}
	return err
}

// transition is the edge that an answer stands for.
func transition(r *record, answer driver.Step, now time.Time) error {
	switch {
	case answer.Session != nil:
		return r.Captured(now)
	case answer.QR != nil:
		return r.Open(answer.QR.ExpiresAt, answer.QR.EndsAt, answer.QR.Scanned, now)
	case answer.WrongCode:
		return r.Wrong(now)
	case answer.Challenge != nil:
		return asked(r, challengeOf(answer.Challenge), now)
	case answer.Failure != nil && !answer.Over():
		return r.NotTaken(failureOf(answer.Failure), now)
	case answer.Failure != nil:
		return ended(r, failureOf(answer.Failure), now)
	}
	return r.Fail(attempt.Failure{Code: attempt.CodeInternal}, now)
}

// ended is a failure of the platform's. A platform that was not there for the first step is asked again.
func ended(r *record, f attempt.Failure, now time.Time) error {
	if (r.Step == attempt.StepSignIn || r.Step == attempt.StepOpenQR) && f.Code == driver.FailUnavailable {
		return r.NotTaken(f, now)
	}
	return r.Fail(f, now)
}

func asked(r *record, ch attempt.Challenge, now time.Time) error {
	switch {
	case r.Step == attempt.StepResend:
		return r.Resending(ch, now)
	case r.Step == attempt.StepSwitch:
		return r.Switch(ch, now)
	case r.Step == attempt.StepCheck && r.State != attempt.Pending:
		return r.StillAsked(now)
	}
	return r.Ask(ch, now)
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

// finish writes the end of a step, if it is still this worker's, and has the next one taken.
func (c *Connects) finish(ctx context.Context, mine record, do func(*record, time.Time) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var r record
	err := c.DB.Tx(ctx, func(tx postgres.Tx) (err error) {
		if r, err = lock(ctx, tx, mine.Org, mine.ID); err != nil {
			return err
		}
		return c.settle(ctx, tx, mine, &r, do)
	})
	if err != nil {
		return err
	}
	c.settled(ctx, r)
	return nil
}

// settle applies the end of a step within a transaction.
func (c *Connects) settle(ctx context.Context, tx postgres.Tx, mine record, r *record, do func(*record, time.Time) error) error {
	if r.Lease != mine.Lease || r.StepSeq != mine.StepSeq {
		return errNotOurs
	}
	version := r.Version
	now, err := c.DB.Now(ctx, tx)
	if err != nil {
		return err
	}
	if err := do(r, now); err != nil {
		return err
	}
	if err := c.save(ctx, tx, r, version); err != nil {
		return err
	}
	if r.Step != attempt.StepNone && r.StepSeq != mine.StepSeq {
		return c.enqueue(ctx, tx, *r)
	}
	return nil
}

// save stores a change; one that nobody can see is only stored.
func (c *Connects) save(ctx context.Context, tx postgres.Tx, r *record, version int64) error {
	if r.Version == version {
		return update(ctx, tx, *r)
	}
	return c.write(ctx, tx, r)
}

// settled does what follows the commit.
func (c *Connects) settled(ctx context.Context, r record) {
	for _, do := range r.after {
		do(ctx)
	}
	c.tell(r.ID)
	if r.State.Final() {
		c.wipe(ctx, r.Org, r.ID)
	}
}

// giveBack ends a step that could not be taken for a reason of ours: another worker takes it at once, unless it must not be repeated.
func (c *Connects) giveBack(ctx context.Context, r record, why error) error {
	if errors.Is(why, errNotOurs) {
		return why
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := c.renewLease(ctx, r, 0)
	return errors.Join(why, err)
}

// signOut ends a session that nobody will use.
func (c *Connects) signOut(ctx context.Context, r record, s driver.Session) {
	o, err := c.Orgs.Get(ctx, r.Org)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := c.Platforms[o.Environment].Driver.SignOut(ctx, via(r), s); err != nil {
		c.Log.LogAttrs(ctx, slog.LevelWarn, "session of an ended attempt not signed out", slog.String("attempt_id", string(r.ID)), slog.Any("error", err))
	}
}
