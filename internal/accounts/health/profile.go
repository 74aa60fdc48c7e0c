package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

// Profile fetches the creator's own profile from the platform: the catalog's Me, as JSON. It is a live call, so a
// success counts as a probe. If the platform refuses the session twice, Profile returns the problem of the account's
// state.
func (h *Health) Profile(ctx context.Context, owner id.Org, at id.Account) (json.RawMessage, error) {
	a, session, err := h.deps.Accounts.Session(ctx, owner, at)
	if err != nil {
		return nil, err
	}
	drv, method, err := h.profileMethod(a)
	if err != nil {
		return nil, err
	}
	a, result, err := h.callMethod(ctx, drv, method, a, session)
	if refusedSession(err) {
		alive, failure := h.Confirm(ctx, a)
		if failure != nil {
			return nil, failure
		}
		if !alive {
			return nil, h.Gone(ctx, owner, at)
		}
		if a, session, err = h.deps.Accounts.Session(ctx, owner, at); err != nil {
			return nil, err
		}
		a, result, err = h.callMethod(ctx, drv, method, a, session)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	refused, ok := errors.AsType[*driver.Refused](err)
	if refusedSession(err) { // confirmed alive, then refused again: the next probe decides
		return nil, h.Gone(ctx, owner, at)
	}
	h.Learn(ctx, a, err)
	switch {
	case ok:
		return nil, refused.Problem(method)
	case err != nil:
		return nil, err
	}
	return result, nil
}

func refusedSession(err error) bool {
	refused, ok := errors.AsType[*driver.Refused](err)
	return ok && refused.Kind == catalog.RefusedSession
}

// profileMethod returns the driver of the account's platform and its method that returns the signed-in user. It fails if
// the account's credentials belong to no user.
func (h *Health) profileMethod(a account.Account) (driver.Driver, *catalog.Method, error) {
	p, ok := h.deps.Platforms(a.Place.Platform)
	if !ok {
		return nil, nil, problem.UpstreamUnavailable.New("This server is not connected to the account's platform.").After(5)
	}
	return p.Driver, p.Catalog.Verify, p.Catalog.RefuseCredentials(p.Catalog.Verify, a.Credentials)
}

// callMethod calls a method without arguments and stores the cookies that the response changed.
func (h *Health) callMethod(
	ctx context.Context, drv driver.Driver, m *catalog.Method, a account.Account, session driver.Session,
) (account.Account, json.RawMessage, error) {
	args, err := m.FromObject([]byte("{}"), false)
	if err != nil {
		return a, nil, fmt.Errorf("prepare %s: %w", m.ID(), err)
	}
	answer, err := drv.Call(ctx, a.Via(), session, m, args)
	return h.storeRotation(ctx, a, answer), answer.Result, err
}
