package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

func (c *Connects) Get(ctx context.Context, org id.Org, at id.Attempt) (Found, error) {
	r, err := c.get(ctx, org, at)
	if err != nil {
		return Found{}, err
	}
	return c.present(ctx, r)
}

// Filter selects attempts. Empty fields do not filter.
type Filter struct {
	State, Kind, Reference string
	// Accounts restricts the result to attempts for these accounts; nil also includes attempts without an account.
	Accounts []id.Account
	// Before is the last id of the previous page.
	Before id.Attempt
	Limit  int
}

// List returns attempts, newest first.
func (c *Connects) List(ctx context.Context, org id.Org, f Filter) ([]Found, error) {
	if f.Before == "" {
		f.Before = "att_~" // sorts after every id
	}
	rows, err := db.New(c.deps.DB).List(ctx, db.ListParams{
		OrgID: org, Before: f.Before, State: f.State, Kind: f.Kind, Reference: f.Reference, Accounts: id.Texts(f.Accounts), MaxRows: int32(f.Limit),
	})
	if err != nil {
		return nil, fmt.Errorf("list attempts: %w", err)
	}
	list := make([]Found, len(rows))
	for i, row := range rows {
		r, err := decodeRow(row)
		if err != nil {
			return nil, err
		}
		if list[i], err = c.present(ctx, r); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Submission is an input of an attempt. Exactly one of Code, Selfie and Channel is set.
type Submission struct {
	Code    secret.String
	Selfie  bool
	Channel string
	// Expected is the state that the attempt must have; empty for any.
	Expected attempt.State
}

// maxCode bounds a code, in characters.
const maxCode = 16

// NormaliseCode removes spaces and dashes from a code and converts full-width digits. It returns false for a text that
// cannot be a code.
func NormaliseCode(code secret.String) (secret.String, bool) {
	var kept strings.Builder
	for _, r := range code.Reveal() {
		switch {
		case r == '-' || unicode.IsSpace(r) || r == '\u2010' || r == '\u2011' || r == '\u2013' || r == '\u2014' || r == '\u200b':
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
			kept.WriteRune(r)
		case r >= '０' && r <= '９': // full-width digits of East Asian keyboards
			kept.WriteRune('0' + r - '０')
		default:
			return secret.String{}, false
		}
		if kept.Len() > maxCode {
			return secret.String{}, false
		}
	}
	return secret.New(kept.String()), kept.Len() > 0
}

// Submit passes an input to an attempt that waits for it and starts the step that sends it to the platform. Use Verdict
// to wait for the result.
func (c *Connects) Submit(ctx context.Context, org id.Org, at id.Attempt, s Submission) (Found, error) {
	var code secret.String
	if !s.Code.Empty() {
		var ok bool
		if code, ok = NormaliseCode(s.Code); !ok {
			return Found{}, problem.ValidationFailed.New("This is not a code.").At("/code", "format",
				"must have 1 to 16 digits or letters; spaces and dashes do not count")
		}
	}
	return c.change(ctx, org, at, s.Expected, func(r *record, now time.Time) error {
		switch {
		case !code.Empty():
			if err := r.Submit(now); err != nil {
				return err
			}
			var err error
			r.input, err = c.sealInput(ctx, *r, r.StepSeq, code)
			return err
		case s.Channel != "":
			return r.RequestChannel(s.Channel, now)
		}
		if r.State != attempt.NeedsFace {
			return attempt.ErrState
		}
		return r.ConfirmSelfie(now)
	})
}

// Resend starts the step that makes the platform send its code again.
func (c *Connects) Resend(ctx context.Context, org id.Org, at id.Attempt) (Found, error) {
	return c.change(ctx, org, at, "", func(r *record, now time.Time) error { return r.Resend(now) })
}

// SendEmail starts the step that makes the platform send its email to the creator, for the first time or again.
func (c *Connects) SendEmail(ctx context.Context, org id.Org, at id.Attempt) (Found, error) {
	return c.change(ctx, org, at, "", func(r *record, now time.Time) error {
		if r.Channel != "email" {
			return attempt.ErrState
		}
		return r.Resend(now)
	})
}

// busyWait bounds how long a request waits for another step before it fails with attempt-state-conflict.
const busyWait = 8 * time.Second

// change applies do to an attempt on behalf of a caller and enqueues the step that follows. While another step runs, it
// waits and tries again.
func (c *Connects) change(ctx context.Context, org id.Org, at id.Attempt, expected attempt.State,
	do func(*record, time.Time) error) (Found, error) {
	until := c.deps.Now().Add(busyWait)
	for {
		r, now, err := c.tryChange(ctx, org, at, expected, do)
		if err == nil {
			c.afterCommit(ctx, r)
			return c.present(ctx, r)
		}
		// A poll for a selfie, or a message being sent, is over in a moment.
		left := until.Sub(c.deps.Now())
		if !errors.Is(err, attempt.ErrBusy) || left <= 0 || ctx.Err() != nil {
			return Found{}, refusalProblem(r, err, now)
		}
		if r, err = c.waitUntil(ctx, org, at, func(r record) bool { return r.Step == attempt.StepNone || r.State.Final() },
			left); err != nil {
			return Found{}, err
		}
		if r.Step != attempt.StepNone && !r.State.Final() {
			return Found{}, refusalProblem(r, attempt.ErrBusy, now)
		}
	}
}

// tryChange is one try of change. It returns the attempt as it was, also with an error, and the time of the try.
func (c *Connects) tryChange(
	ctx context.Context, org id.Org, at id.Attempt, expected attempt.State, do func(*record, time.Time) error,
) (r record, now time.Time, err error) {
	err = c.deps.DB.Tx(ctx, func(tx postgres.Tx) (err error) {
		if r, err = lockAttempt(ctx, tx, org, at); err != nil {
			return err
		}
		if now, err = c.deps.DB.Now(ctx, tx); err != nil {
			return err
		}
		switch {
		case r.State.Final():
			return attempt.ErrFinished
		case expected != "" && r.State != expected:
			return attempt.ErrState
		case r.Step != attempt.StepNone && r.State.Challenge():
			return attempt.ErrBusy
		}
		seq := r.StepSeq
		if err := do(&r, now); err != nil {
			return err
		}
		if err := c.writeChange(ctx, tx, &r); err != nil {
			return err
		}
		if r.StepSeq == seq || r.Step == attempt.StepNone {
			return nil
		}
		return c.enqueue(ctx, tx, r)
	})
	return r, now, err
}

// refusalProblem converts an error of change for the caller.
func refusalProblem(r record, err error, now time.Time) error {
	conflict := func(kind problem.Kind, detail string) *problem.Error {
		return kind.New(detail).With("attemptId", r.ID).With("state", r.State).With("nextActions", r.NextActions())
	}
	switch {
	case errors.Is(err, attempt.ErrFinished):
		e := conflict(problem.AttemptCompleted, "The attempt has ended and accepts no more input.")
		if r.Failure != nil {
			e = e.With("failureCode", r.Failure.Code)
		}
		return e
	case errors.Is(err, attempt.ErrTooSoon):
		wait := max(1, int(math.Ceil(r.ResendAt.Sub(now).Seconds())))
		return problem.ResendTooSoon.Newf("The last code was just sent. Another one can be sent in %d s.", wait).After(wait)
	case errors.Is(err, attempt.ErrTooMany):
		return conflict(problem.AttemptStateConflict, "No more codes can be sent in this attempt.")
	case errors.Is(err, attempt.ErrNoSuch):
		return problem.ValidationFailed.New("The platform does not offer this channel now.").At("/otp_channel", "enum", "must be one of "+strings.Join(r.Available, ", "))
	case errors.Is(err, attempt.ErrBusy):
		return conflict(problem.AttemptStateConflict, "Another step is in progress. Try again in a moment.").After(1)
	case errors.Is(err, attempt.ErrState):
		return conflict(problem.AttemptStateConflict, fmt.Sprintf(
			"The attempt is in state %s and does not accept this input.", r.State))
	}
	return err
}

// Verdict waits at most within until the step that was just started has ended, and returns the attempt as it is then.
func (c *Connects) Verdict(ctx context.Context, org id.Org, at id.Attempt, within time.Duration) (Found, error) {
	over := func(r record) bool {
		return r.State != attempt.Pending && r.Step == attempt.StepNone || r.State == attempt.AwaitingMobile || r.AwaitsConsent() || r.State.Final()
	}
	r, err := c.waitUntil(ctx, org, at, over, within)
	if err != nil {
		return Found{}, err
	}
	return c.present(ctx, r)
}

// Cancel ends an attempt on request of the caller or the creator. Cancelling it again is not an error.
func (c *Connects) Cancel(ctx context.Context, org id.Org, by audit.By, at id.Attempt) (Found, error) {
	var r record
	err := c.deps.DB.Tx(ctx, func(tx postgres.Tx) (err error) {
		if r, err = lockAttempt(ctx, tx, org, at); err != nil {
			return err
		}
		if r.Failure != nil && r.Failure.Code == attempt.CodeCancelled {
			return nil
		}
		if r.State.Final() {
			return attempt.ErrFinished
		}
		now, err := c.deps.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		if err := r.Cancel(now); err != nil {
			return err
		}
		if err := c.writeChange(ctx, tx, &r); err != nil {
			return err
		}
		return c.deps.Audit.Record(ctx, tx, org, by, string(at), nil)
	})
	if err != nil {
		return Found{}, refusalProblem(r, err, r.UpdatedAt)
	}
	c.afterCommit(ctx, r)
	return c.present(ctx, r)
}

// Leave ends the open attempts of an account that is being disconnected, in the transaction that takes it out of use.
// It notifies no waiters; they notice by polling. All attempts of the account lose what they have of it.
func (c *Connects) Leave(ctx context.Context, tx postgres.Tx, org id.Org, at id.Account) error {
	rows, err := db.New(tx).OpenOfAccount(ctx, db.OpenOfAccountParams{OrgID: org, AccountID: at})
	if err != nil {
		return fmt.Errorf("find open attempts of an account: %w", err)
	}
	for _, row := range rows {
		r, err := decodeRow(row)
		if err != nil {
			return err
		}
		now, err := c.deps.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		if err := r.Stop(attempt.CodeDeleted, now); err != nil {
			return err
		}
		r.Label, r.Reference, r.Metadata = "", "", nil // the event outlives the account
		// Not writeChange: the caller is changing the account's row in this transaction.
		if err := updateRow(ctx, tx, r); err != nil {
			return err
		}
		if err := c.writeEvents(ctx, tx, r); err != nil {
			return err
		}
	}
	if err := db.New(tx).ForgetAccount(ctx, db.ForgetAccountParams{OrgID: org, AccountID: at}); err != nil {
		return fmt.Errorf("empty the attempts of an account: %w", err)
	}
	return nil
}

// destroyKey destroys the data key of an ended attempt. If that fails, Clean tries again.
func (c *Connects) destroyKey(ctx context.Context, org id.Org, at id.Attempt) {
	ctx = context.WithoutCancel(ctx)
	_, err := c.deps.Seal.Shred(ctx, org, holder(at))
	if err == nil {
		err = db.New(c.deps.DB).Shredded(ctx, db.ShreddedParams{OrgID: org, ID: at})
	}
	if err != nil {
		c.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot destroy key of ended attempt", slog.String(logkey.AttemptID, string(at)),
			slog.Any(logkey.Error, err))
	}
}
