package connectpages

import (
	"context"
	"errors"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// A reconnect link belongs to a session that does not exist yet, because loading its page must change nothing. Pressing
// the button finds or creates the session and opens it in this browser.

// findDisconnected reads the account that the link reconnects. It returns false if it has answered the request. A link
// expires when its account is connected.
func (v *visit) findDisconnected() (id.Org, id.Account, bool) {
	org, account, ok := v.findAccount(func(ctx context.Context, token string) (id.Org, id.Account, error) {
		return v.deps.Links.ReadReconnect(ctx, token, v.deps.Now())
	})
	if !ok || v.stopIfSuspended(v.org) {
		return "", "", false
	}
	ctx, cancel := v.context()
	defer cancel()
	c, err := v.deps.Connections.Connection(ctx, org, account)
	switch {
	case errors.Is(err, problem.AccountNotFound.New("")) || err == nil && !c.Lost:
		v.showGone(http.StatusGone)
		return "", "", false
	case err != nil:
		v.showError(err)
		return "", "", false
	}
	v.setPlace(c.Platform, c.Site)
	s := link.Preview(org, reconnectDraft(account, c))
	v.session = &s
	return org, account, !v.stopIfUnavailable()
}

// reconnectDraft returns the draft of a session that connects an account again at its place.
func reconnectDraft(account id.Account, c Connection) link.Draft {
	d := link.ReconnectDraft(account, c.Credentials)
	d.Platform, d.Site = c.Platform, c.Site
	return d
}

func (v *visit) getReconnect() {
	if _, _, ok := v.findDisconnected(); ok {
		v.showOpen("")
	}
}

func (v *visit) postReconnect() {
	org, account, ok := v.findDisconnected()
	switch {
	case !ok:
		return
	case v.r.PostFormValue("do") != "open":
		v.redirect(v.path)
		return
	case v.browser().Empty():
		v.showOpen("open.cookies")
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	s, token, err := v.deps.Connections.Reconnect(ctx, v.actor(string(account), "connect.session"), org, account)
	if err != nil {
		v.showError(err)
		return
	}
	v.session, v.path = &s, "/s/"+token.Reveal()
	v.openLink(false)
}
