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

// Profile fetches the creator's own profile from the platform: the catalog's Me, as JSON. It is a live call, so it proves the session; a
// session that the platform refuses is asked for twice, and then the caller is told where the account stands.
func (h *Health) Profile(ctx context.Context, owner id.Org, at id.Account) (json.RawMessage, error) {
	a, session, err := h.Accounts.Session(ctx, owner, at)
	if err != nil {
		return nil, err
	}
	drv, method, err := h.me(a)
	if err != nil {
		return nil, err
	}
	a, result, err := h.call(ctx, drv, method, a, session)
	if refusedSession(err) {
		alive, failure := h.Confirm(ctx, a)
		if failure != nil {
			return nil, failure
		}
		if !alive {
			return nil, h.Gone(ctx, owner, at)
		}
		if a, session, err = h.Accounts.Session(ctx, owner, at); err != nil {
			return nil, err
		}
		a, result, err = h.call(ctx, drv, method, a, session)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	refused, ok := errors.AsType[*driver.Refused](err)
	if refusedSession(err) { // it is not steady enough to be called; the next probe has the last word
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

// me finds the method of the account's platform.
func (h *Health) me(a account.Account) (driver.Driver, *catalog.Method, error) {
	drv, ok := h.Drivers(a.Environment)
	c := h.Catalogs[a.Environment]
	if !ok || c == nil {
		return nil, nil, problem.UpstreamUnavailable.New("This server has no way to the account's platform.").After(5)
	}
	method, ok := c.Method("me", "get")
	if !ok {
		return nil, nil, fmt.Errorf("the catalog of %s has no me.get", c.ID)
	}
	return drv, method, nil
}

func (h *Health) call(
	ctx context.Context, drv driver.Driver, m *catalog.Method, a account.Account, session driver.Session,
) (account.Account, json.RawMessage, error) {
	args, err := m.FromObject([]byte("{}"), false)
	if err != nil {
		return a, nil, fmt.Errorf("ask for the profile: %w", err)
	}
	answer, err := drv.Call(ctx, a.Via(), session, m, args)
	return h.rotated(ctx, a, answer), answer.Result, err
}
