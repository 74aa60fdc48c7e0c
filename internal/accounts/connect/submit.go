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
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// Get reads an attempt.
func (c *Connects) Get(ctx context.Context, org id.Org, at id.Attempt) (Found, error) {
	r, err := c.get(ctx, org, at)
	if err != nil {
		return Found{}, err
	}
	return c.show(ctx, r)
}

// Filter chooses attempts; what is empty chooses all.
type Filter struct {
	State, Kind, Reference string
	// Accounts are those whose attempts are chosen; nil for all, and for attempts that have come to none.
	Accounts []id.Account
	// Before is the id that the page before ended with.
	Before id.Attempt
	Limit  int
}

// List reads attempts, the newest first.
func (c *Connects) List(ctx context.Context, org id.Org, f Filter) ([]Found, error) {
	if f.Before == "" {
		f.Before = "att_~" // behind every id
	}
	rows, err := db.New(c.DB.Pool()).List(ctx, db.ListParams{
		OrgID: org, Before: f.Before, State: f.State, Kind: f.Kind, Reference: f.Reference, Accounts: id.Texts(f.Accounts), MaxRows: int32(f.Limit),
	})
	if err != nil {
		return nil, fmt.Errorf("list attempts: %w", err)
	}
	list := make([]Found, len(rows))
	for i, row := range rows {
		r, err := read(row)
		if err != nil {
			return nil, err
		}
		if list[i], err = c.show(ctx, r); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Submission is what somebody gives to an attempt; exactly one of it.
type Submission struct {
	Code    secret.String
	Selfie  bool
	Channel string
	// Expected is the state that the caller believes in; empty for whichever.
	Expected attempt.State
}

// maxCode bounds a code, in characters.
const maxCode = 16

// NormaliseCode drops what people put between the characters of a code. It says no to what no code can be.
func NormaliseCode(code secret.String) (secret.String, bool) {
	var kept strings.Builder
	for _, r := range code.Reveal() {
		switch {
		case r == '-' || unicode.IsSpace(r) || r == '\u2010' || r == '\u2011' || r == '\u2013' || r == '\u2014' || r == '\u200b':
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
			kept.WriteRune(r)
		case r >= '０' && r <= '９': // what an East Asian keyboard writes
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

// Submit gives an attempt what it waits for.
func (c *Connects) Submit(ctx context.Context, org id.Org, at id.Attempt, s Submission) (Found, error) {
	var code secret.String
	if !s.Code.Empty() {
		var ok bool
		if code, ok = NormaliseCode(s.Code); !ok {
			return Found{}, problem.ValidationFailed.New("This is no code.").At("/code", "format", "must have 1 to 16 digits or letters; spaces and dashes do not count")
		}
	}
	return c.act(ctx, org, at, s.Expected, func(r *record, now time.Time) error {
		switch {
		case !code.Empty():
			if err := r.Submit(now); err != nil {
				return err
			}
			var err error
			r.input, err = c.sealInput(ctx, *r, r.StepSeq, code)
			return err
		case s.Channel != "":
			return r.GoTo(s.Channel, now)
		}
		if r.State != attempt.NeedsFace {
			return attempt.ErrState
		}
		return r.Selfie(now)
	})
}

// Resend has the platform send its code again.
func (c *Connects) Resend(ctx context.Context, org id.Org, at id.Attempt) (Found, error) {
	return c.act(ctx, org, at, "", func(r *record, now time.Time) error { return r.Resend(now) })
}

// SendEmail has the platform send its mail to the creator, for the first time or again.
func (c *Connects) SendEmail(ctx context.Context, org id.Org, at id.Attempt) (Found, error) {
	return c.act(ctx, org, at, "", func(r *record, now time.Time) error {
		if r.Channel != "email" {
			return attempt.ErrState
		}
		return r.Resend(now)
	})
}

// busyFor is how long somebody waits for a step under way before they are told so.
const busyFor = 8 * time.Second

// act changes an attempt by what somebody wants, and has the step taken that comes of it.
func (c *Connects) act(ctx context.Context, org id.Org, at id.Attempt, expected attempt.State, do func(*record, time.Time) error) (Found, error) {
	until := c.Now().Add(busyFor)
	for {
		r, now, err := c.try(ctx, org, at, expected, do)
		if err == nil {
			c.settled(ctx, r)
			return c.show(ctx, r)
		}
		// The background look at a selfie or a message being sent is over in a moment.
		left := until.Sub(c.Now())
		if !errors.Is(err, attempt.ErrBusy) || left <= 0 || ctx.Err() != nil {
			return Found{}, refusal(r, err, now)
		}
		if r, err = c.changed(ctx, org, at, func(r record) bool { return r.Step == attempt.StepNone || r.State.Final() }, left); err != nil {
			return Found{}, err
		}
		if r.Step != attempt.StepNone && !r.State.Final() {
			return Found{}, refusal(r, attempt.ErrBusy, now)
		}
	}
}

// try is one try of act. It returns the time at which the attempt was judged.
func (c *Connects) try(
	ctx context.Context, org id.Org, at id.Attempt, expected attempt.State, do func(*record, time.Time) error,
) (r record, now time.Time, err error) {
	err = c.DB.Tx(ctx, func(tx postgres.Tx) (err error) {
		if r, err = lock(ctx, tx, org, at); err != nil {
			return err
		}
		if now, err = c.DB.Now(ctx, tx); err != nil {
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
		if err := c.write(ctx, tx, &r); err != nil {
			return err
		}
		if r.StepSeq == seq || r.Step == attempt.StepNone {
			return nil
		}
		return c.enqueue(ctx, tx, r)
	})
	return r, now, err
}

// refusal says why somebody's wish was not taken.
func refusal(r record, err error, now time.Time) error {
	conflict := func(kind problem.Kind, detail string) *problem.Error {
		return kind.New(detail).With("attemptId", r.ID).With("state", r.State).With("nextActions", r.NextActions())
	}
	switch {
	case errors.Is(err, attempt.ErrFinished):
		e := conflict(problem.AttemptCompleted, "The attempt has ended and takes nothing more.")
		if r.Failure != nil {
			e = e.With("failureCode", r.Failure.Code)
		}
		return e
	case errors.Is(err, attempt.ErrTooSoon):
		wait := max(1, int(math.Ceil(r.ResendAt.Sub(now).Seconds())))
		return problem.ResendTooSoon.Newf("The last code was sent a moment ago. Another one can be sent in %d s.", wait).After(wait)
	case errors.Is(err, attempt.ErrTooMany):
		return conflict(problem.AttemptStateConflict, "No more codes can be sent in this attempt.")
	case errors.Is(err, attempt.ErrNoSuch):
		return problem.ValidationFailed.New("The platform does not offer this channel now.").At("/otp_channel", "enum", "must be one of "+strings.Join(r.Available, ", "))
	case errors.Is(err, attempt.ErrBusy):
		return conflict(problem.AttemptStateConflict, "A step is under way. Repeat this in a moment.").After(1)
	case errors.Is(err, attempt.ErrState):
		return conflict(problem.AttemptStateConflict, fmt.Sprintf("The attempt is in %s and does not wait for this.", r.State))
	}
	return err
}

// Verdict waits until a step that was just begun is over, at most so long.
func (c *Connects) Verdict(ctx context.Context, org id.Org, at id.Attempt, within time.Duration) (Found, error) {
	over := func(r record) bool {
		return r.State != attempt.Pending && r.Step == attempt.StepNone || r.State == attempt.AwaitingMobile || r.State.Final()
	}
	r, err := c.changed(ctx, org, at, over, within)
	if err != nil {
		return Found{}, err
	}
	return c.show(ctx, r)
}

// Cancel ends an attempt by the wish of the caller or the creator. One that was cancelled stays so.
func (c *Connects) Cancel(ctx context.Context, org id.Org, by audit.By, at id.Attempt) (Found, error) {
	var r record
	err := c.DB.Tx(ctx, func(tx postgres.Tx) (err error) {
		if r, err = lock(ctx, tx, org, at); err != nil {
			return err
		}
		if r.Failure != nil && r.Failure.Code == attempt.CodeCancelled {
			return nil
		}
		if r.State.Final() {
			return attempt.ErrFinished
		}
		now, err := c.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		if err := r.Cancel(now); err != nil {
			return err
		}
		if err := c.write(ctx, tx, &r); err != nil {
			return err
		}
		return c.Audit.Record(ctx, tx, org, by, string(at), nil)
	})
	if err != nil {
		return Found{}, refusal(r, err, r.UpdatedAt)
	}
	c.settled(ctx, r)
	return c.show(ctx, r)
}

// Leave ends the open attempts of an account that is being disconnected, in the transaction that takes it out of use. Whoever waits for
// them finds out a moment later.
func (c *Connects) Leave(ctx context.Context, tx postgres.Tx, org id.Org, at id.Account) error {
	rows, err := db.New(tx).OpenOfAccount(ctx, db.OpenOfAccountParams{OrgID: org, AccountID: at})
	if err != nil {
		return fmt.Errorf("look for open attempts of an account: %w", err)
	}
	for _, row := range rows {
		r, err := read(row)
		if err != nil {
			return err
		}
		now, err := c.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		if err := r.Stop(attempt.CodeDeleted, now); err != nil {
			return err
		}
		// Not by write: the account's own row is being changed by who called.
		if err := update(ctx, tx, r); err != nil {
			return err
		}
		if err := c.publish(ctx, tx, r); err != nil {
			return err
		}
	}
	return nil
}

// wipe destroys the data key of an attempt that has ended. What fails here is done by the sweep.
func (c *Connects) wipe(ctx context.Context, org id.Org, at id.Attempt) {
	ctx = context.WithoutCancel(ctx)
	_, err := c.Seal.Shred(ctx, org, holder(at))
	if err == nil {
		err = db.New(c.DB.Pool()).Shredded(ctx, db.ShreddedParams{OrgID: org, ID: at})
	}
	if err != nil {
		c.Log.LogAttrs(ctx, slog.LevelWarn, "key of an ended attempt not destroyed yet", slog.String("attempt_id", string(at)), slog.Any("error", err))
	}
}
