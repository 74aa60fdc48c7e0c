package app

import (
	"context"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/server/dashboard"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/web"
)

// people are the users of the dashboard and what serves them.
type people struct {
	members   *member.Members
	dashboard *dashboard.Dashboard
	// identity is the client for the identity provider.
	identity *http.Client
}

func (n *Node) buildDashboard(orgs *org.Orgs, source func(*http.Request) string, hashIP func(string) string) (err error) {
	n.identity = egress.NewDirect(n.cfg.Dev)
	n.dashboard, err = dashboard.New(dashboard.Deps{
		Config: dashboard.Config{
			PublicURL: n.cfg.PublicURL, ConnectURL: n.connectURL(), Key: n.cfg.IPHashKey, Signup: n.cfg.Signup == "open", Dev: n.cfg.Dev,
			OIDC: dashboard.OIDC{Issuer: n.cfg.OIDCIssuer, ClientID: n.cfg.OIDCClientID, Secret: n.cfg.OIDCSecret, Name: n.cfg.OIDCName},
		},
		Members: n.members, Orgs: orgs, Site: web.Dist(), Client: n.identity,
		Banner:        n.banner,
		SignupsPaused: func(context.Context) bool { return n.control.Refuse(switches.Signups) != nil },
		Draining:      n.draining.Load, Source: source, HashIP: hashIP, Log: n.log, Now: clock.Now,
	})
	return err
}

// banner returns the operators' banner; nil for none.
func (n *Node) banner(context.Context) (*dashboard.Banner, error) {
	b := n.control.Banner()
	if b == nil {
		return nil, nil //nolint:nilnil // no banner is not an error
	}
	return &dashboard.Banner{Level: b.Level, Text: b.Text, URL: b.URL}, nil
}
