package health

import (
	"context"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// Of what calls tell of one account no more than this is written down, unless they tell that all is well: calls may be many, and three
// failures in a minute are enough to know.
const (
	learnEvery = 5 * time.Second
	learnTimes = troublesMax
)

// tally counts an account's news since a moment.
type tally struct {
	since time.Time
	news  int
}

// Learn writes down what a call tells of the account: err is the call's, nil if the platform accepted the session. One that refused it is
// for Confirm. A success of an
// active account costs nothing more than once a minute. That it cannot be written down is no fault of the call.
func (h *Health) Learn(ctx context.Context, a account.Account, err error) {
	if failure := h.learn(context.WithoutCancel(ctx), a, err); failure != nil {
		h.Log.LogAttrs(ctx, slog.LevelWarn, "account not updated", slog.String("account", string(a.ID)), slog.Any("error", failure))
	}
}

func (h *Health) learn(ctx context.Context, a account.Account, err error) error {
	f := classify(err)
	if f.reason == account.ReasonUpstreamRateLimited {
		// The platform is there, and busy: a caller's haste is no trouble of the account's.
		h.cool(ctx, a, f.wait)
		return nil
	}
	if f.found == good && a.State == account.Active {
		return h.Accounts.Seen(ctx, a)
	}
	if !h.due(a.ID) {
		return nil
	}
	// How the account fared is not among what makes a node read it again, so what the caller has may be old.
	fresh, err := h.Accounts.Get(ctx, a.Org, a.ID)
	if err != nil {
		return err
	}
	return h.settle(ctx, fresh, f)
}

// due says whether the account's news are still to be written down.
func (h *Health) due(at id.Account) bool {
	now, due := h.Now(), false
	h.told.Change(at, func(t tally, found bool) (tally, cache.Outcome) {
		if !found || now.Sub(t.since) >= learnEvery {
			t = tally{since: now}
		}
		if due = t.news < learnTimes; !due {
			return t, cache.Keep
		}
		t.news++
		return t, cache.Replace
	})
	return due
}

// Confirm looks once more at an account whose session the platform has just refused, and acts if it is dead: a sign-in with the
// remembered credentials, or a person. It says whether a call may be tried again. All calls that meet the same refusal share one look.
func (h *Health) Confirm(ctx context.Context, a account.Account) (alive bool, err error) {
	done := h.looks.DoChan(string(a.ID), func() (any, error) {
		looked, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*h.Config.ProbeTimeout)
		defer cancel()
		return h.confirm(looked, a)
	})
	select {
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case r := <-done:
		alive, _ = r.Val.(bool)
		return alive, r.Err
	}
}

func (h *Health) confirm(ctx context.Context, refused account.Account) (bool, error) {
	a, _, err := h.Accounts.Session(ctx, refused.Org, refused.ID)
	if err != nil {
		return false, err
	}
	if !a.SameSession(refused) {
		return true, nil // another session, or another cookie, by now
	}
	drv, ok := h.Drivers(a.Environment)
	if !ok {
		return false, problem.UpstreamUnavailable.New("This server has no way to the account's platform.").After(5)
	}
	a, f, err := h.lookAgain(ctx, drv, a)
	if err != nil {
		return false, err
	}
	h.probes.WithLabelValues(string(f.found)).Inc()
	switch f.found {
	case good:
		return true, nil
	case dead, restricted:
		return false, h.settle(ctx, a, f)
	case trouble:
	}
	return false, problem.UpstreamUnavailable.New("The platform refused the account's session, and cannot be asked again right now.").After(5)
}

// Gone is what a caller is told whose session was found dead.
func (h *Health) Gone(ctx context.Context, owner id.Org, at id.Account) error {
	a, err := h.Accounts.Get(ctx, owner, at)
	if err != nil {
		return err
	}
	if refusal := h.Accounts.Refusal(a); refusal != nil {
		return refusal
	}
	// It was connected again while we looked, or the next probe has the last word.
	return problem.AccountReauthenticating.New("The account's session has just changed.").After(1)
}
