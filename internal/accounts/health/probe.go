package health

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// system is the actor of changes that this package causes.
var system = audit.By{Kind: audit.ActorSystem, ID: "health", Label: "health"}

// runProbe probes one claimed account and logs the result.
func (h *Health) runProbe(ctx context.Context, ref account.Ref) {
	began := h.deps.Now()
	what, err := h.checkAccount(ctx, ref)
	if ctx.Err() != nil {
		h.releaseProbe(context.WithoutCancel(ctx), ref)
		return
	}
	level := slog.LevelDebug
	attrs := []slog.Attr{slog.String(logkey.Account, string(ref.Account)), slog.String(logkey.Found, string(what)), slog.Duration(logkey.Took, h.deps.Now().Sub(began))}
	if err != nil {
		// The probe is due again when the lease expires.
		level, attrs = slog.LevelWarn, append(attrs, slog.Any(logkey.Error, err))
	}
	h.deps.Log.LogAttrs(ctx, level, "account examined", attrs...)
}

// releaseProbe makes a probe that was aborted due immediately, so that another node runs it.
func (h *Health) releaseProbe(ctx context.Context, ref account.Ref) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := h.scheduleIn(ctx, ref, 0); err != nil {
		h.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot release probe", slog.String(logkey.Account, string(ref.Account)),
			slog.Any(logkey.Error, err))
	}
}

// scheduleIn schedules the next probe of an account after wait, by the database's clock.
func (h *Health) scheduleIn(ctx context.Context, ref account.Ref, wait time.Duration) error {
	now, err := h.deps.Accounts.Time(ctx)
	if err != nil {
		return err
	}
	at := now.Add(wait)
	return h.deps.Accounts.ScheduleProbe(ctx, ref, &at)
}

// skipInterval is the time to the next probe of an account that cannot be probed now.
const skipInterval = 15 * time.Minute

// checkAccount does what is due for an account: a probe, or the next step of a sign-in. It returns the result of the
// probe, empty if there was none.
func (h *Health) checkAccount(ctx context.Context, ref account.Ref) (result, error) {
	o, err := h.org(ctx, ref.Org)
	if err != nil {
		return "", err
	}
	a, session, err := h.deps.Accounts.StoredSession(ctx, ref.Org, ref.Account)
	switch {
	case errors.Is(err, problem.AccountNotFound.New("")):
		return "", nil // disconnected in the meantime
	case errors.Is(err, problem.AccountDisconnected.New("")) && a.Credentials == catalog.ByOAuth && !hasProbes(a.State):
		return dead, nil // the refresh has found and recorded it
	case errors.Is(err, problem.AccountDisconnected.New("")) && hasProbes(a.State): // no session is stored
		return dead, h.handleLostSession(ctx, a, finding{result: dead, reason: account.ReasonSessionExpired})
	case isPlatformProblem(err) && hasProbes(a.State): // the session could not be refreshed
		return failed, h.recordResult(ctx, a, classifyError(err))
	case err != nil && a.State != account.Reauthenticating:
		return "", err
	case o.SuspendedAt != nil: // sessions of a suspended org are kept but not used
		return "", h.scheduleIn(ctx, ref, skipInterval)
	case a.State == account.Reauthenticating:
		return "", h.continueReauth(ctx, a)
	case !hasProbes(a.State):
		return "", h.deps.Accounts.ScheduleProbe(ctx, ref, nil)
	}
	platform, ok := h.deps.Platforms(a.Place.Platform)
	if !ok {
		return "", h.scheduleIn(ctx, ref, skipInterval)
	}
	a, f, err := h.probeTwice(ctx, platform.Driver, a, session)
	if errors.Is(err, problem.AccountDisconnected.New("")) { // the refresh has found and recorded it
		return dead, nil
	}
	if err != nil {
		return "", err
	}
	h.probes.WithLabelValues(string(f.result)).Inc()
	return f.result, h.recordResult(ctx, a, f)
}

// isPlatformProblem reports whether an error is a problem of the platform or of the way to it.
func isPlatformProblem(err error) bool {
	p, ok := errors.AsType[*problem.Error](err)
	return ok && (p.Kind.Upstream() || p.Kind.Code == problem.EgressUnavailable.Code)
}

func hasProbes(s account.State) bool {
	_, probed := account.ProbeAfter(s, 0)
	return probed
}

// probeTwice probes an account, and a second time if the session seems dead.
func (h *Health) probeTwice(ctx context.Context, drv driver.Driver, a account.Account,
	session driver.Session) (account.Account, finding, error) {
	a, f, err := h.probe(ctx, drv, a, session)
	if err != nil || f.result != dead {
		return a, f, err
	}
	return h.reprobe(ctx, drv, a)
}

// settleSteps is how often reprobe reads a refused session again within Config.Settle.
const settleSteps = 3

// reprobe probes an account whose session was refused. It first waits up to Config.Settle for the stored session to
// change, because a call in progress may be about to store a new cookie. A session by OAuth is refreshed instead.
func (h *Health) reprobe(ctx context.Context, drv driver.Driver, refused account.Account) (account.Account, finding,
	error) {
	if refused.Credentials == catalog.ByOAuth {
		a, session, err := h.deps.Accounts.Renew(ctx, refused)
		if isPlatformProblem(err) {
			return a, classifyError(err), nil
		}
		if err != nil {
			return a, finding{}, err
		}
		return h.probe(ctx, drv, a, session)
	}
	for step := 1; ; step++ {
		a, session, err := h.deps.Accounts.StoredSession(ctx, refused.Org, refused.ID)
		if err != nil {
			return a, finding{}, err
		}
		if !a.SameSession(refused) || step > settleSteps {
			return h.probe(ctx, drv, a, session)
		}
		select {
		case <-ctx.Done():
			return a, finding{}, context.Cause(ctx)
		case <-time.After(h.deps.Config.Settle / settleSteps):
		}
	}
}

// probe asks the platform whose session it is and stores the cookies that the response changed. It returns an error
// only if ctx ended; everything else is a finding.
func (h *Health) probe(ctx context.Context, drv driver.Driver, a account.Account, session driver.Session) (account.Account, finding, error) {
	limited, cancel := context.WithTimeout(ctx, h.deps.Config.ProbeTimeout)
	defer cancel()
	who, answer, err := drv.Probe(limited, a.Via(), session)
	if ctx.Err() != nil {
		return a, finding{}, context.Cause(ctx)
	}
	a = h.storeRotation(ctx, a, answer)
	f := classifyError(err)
	if f.result == good && who.ID != a.UpstreamID {
		f = finding{result: dead, reason: account.ReasonLoggedOut} // the session now belongs to another creator
	}
	if f.reason == account.ReasonUpstreamRateLimited && f.wait > 0 {
		h.pauseCalls(ctx, a, f.wait)
	}
	return a, f, nil
}

// storeRotation stores the cookies that a response changed. A failure is only logged; at worst the next call needs a
// new sign-in.
func (h *Health) storeRotation(ctx context.Context, a account.Account, answer driver.Answer) account.Account {
	next, err := h.deps.Accounts.Rotate(context.WithoutCancel(ctx), a, answer.Changed, answer.Session)
	if err != nil {
		h.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot store rotated cookies", slog.String(logkey.Account, string(a.ID)),
			slog.Any(logkey.Error, err))
	}
	return next
}

// pauseCalls pauses the account's calls on all nodes.
func (h *Health) pauseCalls(ctx context.Context, a account.Account, pause time.Duration) {
	if err := h.deps.Limits.Cool(ctx, a.Org, a.ID, pause); err != nil {
		h.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot pause calls of account", slog.String(logkey.Account, string(a.ID)),
			slog.Any(logkey.Error, err))
	}
}

// recordResult records a finding: it fires the trigger that follows from it, or stores the account's health.
func (h *Health) recordResult(ctx context.Context, a account.Account, f finding) error {
	now, err := h.deps.Accounts.Time(ctx)
	if err != nil {
		return err
	}
	until, listener := h.deps.Accounts.AwaitsListener(a, now)
	v := decideOutcome(a, f, listenerWait{listener, until}, now)
	cause := account.Cause{On: v.on, Reason: f.reason, Observed: &a, Probed: true, FailingSince: v.health.FailingSince}
	if v.on == "" {
		a.Health = v.health
		if err := h.deps.Accounts.RecordProbe(ctx, a, f.result == good); err != nil || v.onListenerUp == "" {
			return err
		}
		// The listener may have come up during the probe, before the health that we have just written. Then neither
		// side has seen the other, so fire its trigger here.
		fresh, err := h.deps.Accounts.Get(ctx, a.Org, a.ID)
		if err != nil || fresh.Listener.State != account.ListenerUp || fresh.State != a.State {
			return err
		}
		cause.On = v.onListenerUp
	}
	if v.on == account.SessionLost {
		return h.handleLostSession(ctx, a, f)
	}
	if v.on == account.Banned {
		cause.Upstream = contract.UpstreamError{UpstreamCode: problem.UpstreamCode(f.code), UpstreamMessage: &f.message}
	}
	return h.trigger(ctx, a, cause)
}

// trigger moves an account along an edge. If its session or state has changed in the meantime, the finding is dropped
// and a new probe is due shortly.
func (h *Health) trigger(ctx context.Context, a account.Account, c account.Cause) error {
	_, err := h.deps.Accounts.Trigger(ctx, system, a.Org, a.ID, c)
	switch {
	case errors.Is(err, account.ErrStale), errors.Is(err, account.ErrIllegal):
		return h.scheduleIn(ctx, account.Ref{Org: a.Org, Account: a.ID}, staleRetry)
	case errors.Is(err, problem.AccountNotFound.New("")):
		return nil
	}
	return err
}

const (
	// staleRetry is the time to the next probe of an account that changed during a probe.
	staleRetry = 5 * time.Second
	// reauthRetry is the time to the next try to start a sign-in that could not be started.
	reauthRetry = time.Minute
	// giveUpAfter bounds how long an account stays in reauthenticating if no sign-in can be started.
	giveUpAfter = 24 * time.Hour
)

// handleLostSession acts on a session that is confirmed dead: it starts a sign-in with the remembered credentials, if
// there are any and the limit on tries allows it, or moves the account to reconnect_required.
func (h *Health) handleLostSession(ctx context.Context, a account.Account, f finding) error {
	cause := account.Cause{On: account.SessionLost, Reason: f.reason, Observed: &a, Probed: true}
	now, err := h.deps.Accounts.Time(ctx)
	if err != nil {
		return err
	}
	at, can := a.NextReauth(now)
	if !can || a.State == account.Restricted {
		return h.trigger(ctx, a, cause)
	}
	if !at.After(now) {
		err := h.deps.Reauthenticate(ctx, a.Org, a.ID)
		if err == nil || errors.Is(err, problem.AttemptInProgress.New("")) {
			return nil // starting the attempt has moved the account
		}
		h.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot start sign-in", slog.String(logkey.Account, string(a.ID)),
			slog.Any(logkey.Error, err))
		at = now.Add(reauthRetry)
	}
	cause.ProbeAt = &at
	return h.trigger(ctx, a, cause)
}

// continueReauth handles an account in reauthenticating: it starts the sign-in that is due, also after an attempt whose
// worker died, or gives up.
func (h *Health) continueReauth(ctx context.Context, a account.Account) error {
	now, err := h.deps.Accounts.Time(ctx)
	if err != nil {
		return err
	}
	ref := account.Ref{Org: a.Org, Account: a.ID}
	if until, held := a.ReauthUntil(now); held {
		return h.deps.Accounts.ScheduleProbe(ctx, ref, &until)
	}
	at, can := a.NextReauth(now)
	if !can || now.Sub(a.StateChangedAt) > giveUpAfter {
		return h.trigger(ctx, a, account.Cause{On: account.SignInFailed, Reason: account.ReasonSessionExpired, Observed: &a})
	}
	if at.After(now) {
		return h.deps.Accounts.ScheduleProbe(ctx, ref, &at)
	}
	if err = h.deps.Reauthenticate(ctx, a.Org, a.ID); err == nil {
		return nil
	}
	if errors.Is(err, problem.CredentialsMissing.New("")) {
		return h.trigger(ctx, a, account.Cause{On: account.SignInFailed, Reason: account.ReasonSessionExpired, Observed: &a})
	}
	at = now.Add(reauthRetry)
	return errors.Join(err, h.deps.Accounts.ScheduleProbe(ctx, ref, &at))
}
