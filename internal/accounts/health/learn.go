package health

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// Learn records at most maxLearned results of an account per learnWindow and node, except for successes of an active
// account. Calls may be many, and three failures within a minute are enough to make the account degraded.
const (
	learnWindow = 5 * time.Second
	maxLearned  = maxFailures
)

// tally counts the recorded results of an account since a time.
type tally struct {
	since time.Time
	count int
}

// Learn records the result of a call: err is the call's error, nil if the platform accepted the session. Use Confirm
// instead if the platform refused it. A success of an active account writes to the database at most once a minute. If
// recording fails, Learn only logs it: the call is not affected.
func (h *Health) Learn(ctx context.Context, a account.Account, err error) {
	if failure := h.learn(context.WithoutCancel(ctx), a, err); failure != nil {
		h.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot record result of call", slog.String(logkey.Account, string(a.ID)),
			slog.Any(logkey.Error, failure))
	}
}

func (h *Health) learn(ctx context.Context, a account.Account, err error) error {
	if err != nil && errors.Is(err, problem.ServiceUnavailable.New("")) {
		return nil // this node could not even open a connection
	}
	f := classifyError(err)
	if f.reason == account.ReasonUpstreamRateLimited {
		// Rate limiting is the caller's doing and not a failure of the account.
		h.pauseCalls(ctx, a, f.wait)
		return nil
	}
	if f.result == good && a.State == account.Active {
		h.deps.Accounts.RecordSeen(ctx, a)
		return nil
	}
	if !h.mayRecord(a.ID) {
		return nil
	}
	// Health does not increase the session version, so the caller's cached copy may have an old one.
	fresh, err := h.deps.Accounts.Get(ctx, a.Org, a.ID)
	if err != nil {
		return err
	}
	return h.recordResult(ctx, fresh, f)
}

// mayRecord reports whether Learn may record another result of the account now, and counts it.
func (h *Health) mayRecord(at id.Account) bool {
	now, due := h.deps.Now(), false
	h.learned.Change(at, func(t tally, found bool) (tally, cache.Outcome) {
		if !found || now.Sub(t.since) >= learnWindow {
			t = tally{since: now}
		}
		if due = t.count < maxLearned; !due {
			return t, cache.Keep
		}
		t.count++
		return t, cache.Replace
	})
	return due
}

// Confirm probes an account whose session the platform has just refused. If the session is dead, it starts a sign-in or
// moves the account to reconnect_required; if the account is restricted, it records that. alive means that the call may
// be retried. Concurrent calls for the same account share one probe.
func (h *Health) Confirm(ctx context.Context, a account.Account) (alive bool, err error) {
	done := h.confirms.DoChan(string(a.ID), func() (any, error) {
		looked, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*h.deps.Config.ProbeTimeout)
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
	a, session, err := h.deps.Accounts.Session(ctx, refused.Org, refused.ID)
	if err != nil {
		return false, err
	}
	if !a.SameSession(refused) {
		return true, nil // the session or a cookie has been replaced since
	}
	platform, ok := h.deps.Platforms(a.Place.Platform)
	if !ok {
		return false, problem.UpstreamUnavailable.New("This server is not connected to the account's platform.").After(5)
	}
	var f finding
	if a.Credentials == catalog.ByOAuth {
		// Refresh only a token that the platform refuses in general. A method may refuse a good one.
		a, f, err = h.probeTwice(ctx, platform.Driver, a, session)
	} else {
		a, f, err = h.reprobe(ctx, platform.Driver, a)
	}
	if err != nil {
		return false, err
	}
	h.probes.WithLabelValues(string(f.result)).Inc()
	switch f.result {
	case good:
		return true, nil
	case dead, restricted:
		return false, h.recordResult(ctx, a, f)
	case failed:
	}
	return false, problem.UpstreamUnavailable.New(
		"The platform refused the account's session and cannot be reached to confirm it.").After(5)
}

// Gone returns the problem for a caller whose session Confirm found dead.
func (h *Health) Gone(ctx context.Context, owner id.Org, at id.Account) error {
	a, err := h.deps.Accounts.Get(ctx, owner, at)
	if err != nil {
		return err
	}
	if refusal := h.deps.Accounts.Refusal(a); refusal != nil {
		return refusal
	}
	// The account was connected again in the meantime, or only the next probe can tell.
	return problem.AccountReauthenticating.New("The account's session has just changed.").After(1)
}
