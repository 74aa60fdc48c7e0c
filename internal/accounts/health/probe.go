package health

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// system is who acts.
var system = audit.By{Kind: audit.ActorSystem, ID: "health", Label: "health"}

// work looks at one account that is due.
func (h *Health) work(ctx context.Context, ref account.Ref) {
	began := h.Now()
	what, err := h.examine(ctx, ref)
	if ctx.Err() != nil {
		h.giveBack(context.WithoutCancel(ctx), ref)
		return
	}
	level := slog.LevelDebug
	attrs := []slog.Attr{slog.String("account", string(ref.Account)), slog.String("found", string(what)), slog.Duration("took", h.Now().Sub(began))}
	if err != nil {
		// The lease runs out and somebody tries again.
		level, attrs = slog.LevelWarn, append(attrs, slog.Any("error", err))
	}
	h.Log.LogAttrs(ctx, level, "account examined", attrs...)
}

// giveBack lets another node go on at once with what this one was stopped at.
func (h *Health) giveBack(ctx context.Context, ref account.Ref) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := h.later(ctx, ref, 0); err != nil {
		h.Log.LogAttrs(ctx, slog.LevelWarn, "account not given back", slog.String("account", string(ref.Account)), slog.Any("error", err))
	}
}

// later has an account looked at again a while from now.
func (h *Health) later(ctx context.Context, ref account.Ref, wait time.Duration) error {
	now, err := h.Accounts.Time(ctx)
	if err != nil {
		return err
	}
	at := now.Add(wait)
	return h.Accounts.Probe(ctx, ref, &at)
}

// notNow is when an account is looked at again that cannot be probed.
const notNow = 15 * time.Minute

// examine does what is due for an account, and says what it found.
func (h *Health) examine(ctx context.Context, ref account.Ref) (found, error) {
	o, err := h.org(ctx, ref.Org)
	if err != nil {
		return "", err
	}
	a, session, err := h.Accounts.Stored(ctx, ref.Org, ref.Account)
	switch {
	case errors.Is(err, problem.AccountNotFound.New("")):
		return "", nil // disconnected meanwhile
	case errors.Is(err, problem.AccountDisconnected.New("")) && probed(a.State):
		return dead, h.lost(ctx, a, finding{found: dead, reason: account.ReasonSessionExpired})
	case err != nil && a.State != account.Reauthenticating:
		return "", err
	case o.SuspendedAt != nil: // its sessions are kept, and not used
		return "", h.later(ctx, ref, notNow)
	case a.State == account.Reauthenticating:
		return "", h.reauthenticate(ctx, a)
	case !probed(a.State):
		return "", h.Accounts.Probe(ctx, ref, nil)
	}
	drv, ok := h.Drivers(a.Environment)
	if !ok {
		return "", h.later(ctx, ref, notNow)
	}
	a, f, err := h.look(ctx, drv, a, session)
	if err != nil {
		return "", err
	}
	h.probes.WithLabelValues(string(f.found)).Inc()
	return f.found, h.settle(ctx, a, f)
}

func probed(s account.State) bool {
	_, probed := account.ProbeAfter(s, 0)
	return probed
}

// look probes an account, and a second time if its session seems dead.
func (h *Health) look(ctx context.Context, drv driver.Driver, a account.Account, session driver.Session) (account.Account, finding, error) {
	a, f, err := h.probe(ctx, drv, a, session)
	if err != nil || f.found != dead {
		return a, f, err
	}
	return h.lookAgain(ctx, drv, a)
}

// settleSteps is how often a session that was refused is read again.
const settleSteps = 3

// lookAgain probes an account whose session was refused: with the session as it is stored once calls that were under way have had the
// time to store a new cookie.
func (h *Health) lookAgain(ctx context.Context, drv driver.Driver, refused account.Account) (account.Account, finding, error) {
	for step := 1; ; step++ {
		a, session, err := h.Accounts.Stored(ctx, refused.Org, refused.ID)
		if err != nil {
			return a, finding{}, err
		}
		if !a.SameSession(refused) || step > settleSteps {
			return h.probe(ctx, drv, a, session)
		}
		select {
		case <-ctx.Done():
			return a, finding{}, context.Cause(ctx)
		case <-time.After(h.Config.Settle / settleSteps):
		}
	}
}

// probe asks the platform who the session belongs to, and stores what it changed.
func (h *Health) probe(ctx context.Context, drv driver.Driver, a account.Account, session driver.Session) (account.Account, finding, error) {
	limited, cancel := context.WithTimeout(ctx, h.Config.ProbeTimeout)
	defer cancel()
	who, answer, err := drv.Probe(limited, a.Via(), session)
	if ctx.Err() != nil {
		return a, finding{}, context.Cause(ctx)
	}
	a = h.rotated(ctx, a, answer)
	f := classify(err)
	if f.found == good && who.ID != a.UpstreamID {
		f = finding{found: dead, reason: account.ReasonLoggedOut} // it is somebody else's by now
	}
	if f.reason == account.ReasonUpstreamRateLimited && f.wait > 0 {
		h.cool(ctx, a, f.wait)
	}
	return a, f, nil
}

// rotated stores the cookies that an answer changed. That it failed costs the next call a sign-in at worst.
func (h *Health) rotated(ctx context.Context, a account.Account, answer driver.Answer) account.Account {
	next, err := h.Accounts.Rotate(context.WithoutCancel(ctx), a, answer.Changed, answer.Session)
	if err != nil {
		h.Log.LogAttrs(ctx, slog.LevelWarn, "rotation not stored", slog.String("account", string(a.ID)), slog.Any("error", err))
	}
	return next
}

func (h *Health) cool(ctx context.Context, a account.Account, pause time.Duration) {
	if err := h.Limits.Cool(ctx, a.Org, a.ID, pause); err != nil {
		h.Log.LogAttrs(ctx, slog.LevelWarn, "pause not told to other nodes", slog.String("account", string(a.ID)), slog.Any("error", err))
	}
}

// settle writes down what was found.
func (h *Health) settle(ctx context.Context, a account.Account, f finding) error {
	now, err := h.Accounts.Time(ctx)
	if err != nil {
		return err
	}
	until, listener := h.Accounts.AwaitsListener(a, now)
	v := decide(a, f, awaited{listener, until}, now)
	cause := account.Cause{On: v.on, Reason: f.reason, About: &a, Probed: true, TroubledAt: v.health.TroubledAt}
	if v.on == "" {
		a.Health = v.health
		if err := h.Accounts.Checked(ctx, a, f.found == good); err != nil || v.once == "" {
			return err
		}
		// The listener may have come up while we probed, and not have seen what we have just written.
		fresh, err := h.Accounts.Get(ctx, a.Org, a.ID)
		if err != nil || fresh.Listener.State != account.ListenerUp || fresh.State != a.State {
			return err
		}
		cause.On = v.once
	}
	if v.on == account.SessionLost {
		return h.lost(ctx, a, f)
	}
	if v.on == account.Banned {
		cause.Data = map[string]any{"upstreamCode": f.code, "upstreamMessage": f.message}
	}
	return h.trigger(ctx, a, cause)
}

// trigger takes an account along an edge. If it has moved on meanwhile, the news are nobody's any more, and it is looked at again.
func (h *Health) trigger(ctx context.Context, a account.Account, c account.Cause) error {
	_, err := h.Accounts.Trigger(ctx, system, a.Org, a.ID, c)
	switch {
	case errors.Is(err, account.ErrStale), errors.Is(err, account.ErrIllegal):
		return h.later(ctx, account.Ref{Org: a.Org, Account: a.ID}, confirmAgain)
	case errors.Is(err, problem.AccountNotFound.New("")):
		return nil
	}
	return err
}

const (
	// confirmAgain is how soon an account is looked at that moved while it was being looked at.
	confirmAgain = 5 * time.Second
	// startAgain is how soon a sign-in is started again that could not be started.
	startAgain = time.Minute
	// giveUpAfter is how long an account waits for a sign-in that cannot be started.
	giveUpAfter = 24 * time.Hour
)

// lost acts on a session that is dead beyond doubt: a sign-in with the remembered credentials, if there are any and a try is left, or a
// person.
func (h *Health) lost(ctx context.Context, a account.Account, f finding) error {
	cause := account.Cause{On: account.SessionLost, Reason: f.reason, About: &a, Probed: true}
	now, err := h.Accounts.Time(ctx)
	if err != nil {
		return err
	}
	at, can := a.NextReauth(now)
	if !can || a.State == account.Restricted {
		return h.trigger(ctx, a, cause)
	}
	if !at.After(now) {
		err := h.Reauthenticate(ctx, a.Org, a.ID)
		if err == nil || errors.Is(err, problem.AttemptInProgress.New("")) {
			return nil // the account has moved with the attempt
		}
		h.Log.LogAttrs(ctx, slog.LevelWarn, "sign-in not started", slog.String("account", string(a.ID)), slog.Any("error", err))
		at = now.Add(startAgain)
	}
	cause.ProbeAt = &at
	return h.trigger(ctx, a, cause)
}

// reauthenticate looks after an account whose sign-in is due: not begun yet, or begun by somebody who never came back.
func (h *Health) reauthenticate(ctx context.Context, a account.Account) error {
	now, err := h.Accounts.Time(ctx)
	if err != nil {
		return err
	}
	ref := account.Ref{Org: a.Org, Account: a.ID}
	if until, held := a.ReauthUntil(now); held {
		return h.Accounts.Probe(ctx, ref, &until)
	}
	at, can := a.NextReauth(now)
	if !can || now.Sub(a.StateChangedAt) > giveUpAfter {
		return h.trigger(ctx, a, account.Cause{On: account.SignInFailed, Reason: account.ReasonSessionExpired, About: &a})
	}
	if at.After(now) {
		return h.Accounts.Probe(ctx, ref, &at)
	}
	if err = h.Reauthenticate(ctx, a.Org, a.ID); err == nil {
		return nil
	}
	if errors.Is(err, problem.CredentialsMissing.New("")) {
		return h.trigger(ctx, a, account.Cause{On: account.SignInFailed, Reason: account.ReasonSessionExpired, About: &a})
	}
	at = now.Add(startAgain)
	return errors.Join(err, h.Accounts.Probe(ctx, ref, &at))
}
