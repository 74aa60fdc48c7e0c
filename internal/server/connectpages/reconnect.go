package connectpages

import (
	"context"
	"errors"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// A reconnect link shows the form of a session that does not exist yet: opening the link must change nothing. Sending the form finds or
// makes the session and goes on there.

// findLost reads which account the link connects again; false means that the page is answered. A link is over once its account is
// connected.
func (v *visit) findLost() (id.Org, id.Account, bool) {
	org, account, ok := v.findAccount(func(ctx context.Context, token string) (id.Org, id.Account, error) {
		return v.Links.ReadReconnect(ctx, token, v.Now())
	})
	if !ok || v.suspended(v.org) {
		return "", "", false
	}
	ctx, cancel := v.context()
	defer cancel()
	c, err := v.Connections.Connection(ctx, org, account)
	switch {
	case errors.Is(err, problem.AccountNotFound.New("")) || err == nil && !c.Lost:
		v.showGone(http.StatusGone)
		return "", "", false
	case err != nil:
		v.trouble(err)
		return "", "", false
	}
	return org, account, true
}

func (v *visit) getReconnect() {
	org, account, ok := v.findLost()
	if !ok {
		return
	}
	s := link.Preview(org, account)
	v.session = &s
	v.showStart("", "", "")
}

func (v *visit) postReconnect() {
	org, account, ok := v.findLost()
	if !ok {
		return
	}
	do := v.r.PostFormValue("do")
	if do != "start" && do != "mobile" {
		v.again(v.path)
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	s, token, err := v.Connections.Reconnect(ctx, v.by(string(account), "connect.session"), org, account)
	if err != nil {
		v.trouble(err)
		return
	}
	v.session, v.path = &s, "/s/"+token.Reveal()
	v.opened()
	v.start(do)
}
