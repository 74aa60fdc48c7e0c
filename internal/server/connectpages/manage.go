package connectpages

import (
	"context"
	"errors"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// findAccount reads the account of the link and loads its org. It returns false if it has answered the request.
func (v *visit) findAccount(read func(ctx context.Context, token string) (id.Org, id.Account, error)) (id.Org, id.Account, bool) {
	if v.stopIfGuessing() {
		return "", "", false
	}
	ctx, cancel := v.context()
	defer cancel()
	org, account, err := read(ctx, v.r.PathValue("token"))
	if err != nil {
		v.showError(err)
		return "", "", false
	}
	o, err := v.deps.Orgs.Org(ctx, org)
	if err != nil {
		v.showError(err)
		return "", "", false
	}
	v.setOrg(o, "")
	return org, account, true
}

// getManage shows a creator what an org may do with the account.
func (v *visit) getManage() {
	org, account, ok := v.findAccount(v.deps.Links.Read)
	if !ok {
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	c, err := v.deps.Connections.Connection(ctx, org, account)
	switch {
	case errors.Is(err, problem.AccountNotFound.New("")):
		v.show(http.StatusOK, "revoked", &page{})
	case err != nil:
		v.showError(err)
	default:
		v.setPlace(c.Platform, c.Site)
		since, err := v.words.date(c.Since.UTC())
		if err != nil {
			v.fail(err)
			return
		}
		v.show(http.StatusOK, "manage", &page{Connection: c, Since: since})
	}
}

// postManage ends the connection.
func (v *visit) postManage() {
	org, account, ok := v.findAccount(v.deps.Links.Read)
	if !ok {
		return
	}
	if v.r.PostFormValue("do") != "revoke" {
		v.redirect(v.path)
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	err := v.deps.Connections.Disconnect(ctx, v.actor(string(account), "account.revoke"), org, account)
	if err != nil && !errors.Is(err, problem.AccountNotFound.New("")) {
		v.showError(err)
		return
	}
	v.redirect(v.path)
}
