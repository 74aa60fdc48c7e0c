package catalog

import (
	"net/url"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/manifest"
)

// OAuth describes the sign-in by OAuth 2.0: an authorization code with PKCE, and refresh tokens.
type OAuth struct {
	// Authorize is the page on which the creator agrees, Token the endpoint that issues tokens, and Revoke the one that
	// ends them, or empty if there is none. Each is a path on the platform's origin, or an https URL.
	Authorize, Token, Revoke string
	Scopes                   []string
	// ClientInBody means that the client authenticates with members of the form instead of HTTP Basic.
	ClientInBody bool
	// Ended lists the error codes of the token endpoint that mean that a code or a refresh token has ended.
	Ended []string
	// Send holds further parameters of the authorize page.
	Send map[string]string
}

// oauthParameters are the parameters of the authorize page that only the service itself sets.
var oauthParameters = []string{
	"client_id", "client_secret", "code_challenge", "code_challenge_method", "redirect_uri", "request", "request_uri",
	"response_mode", "response_type", "scope", "state",
}

// compileOAuth checks and copies signIn.oauth. An absolute URL must be on a host that the section lists, so that a
// mistake in one URL cannot send the client's secret elsewhere.
func (c *compiler) compileOAuth() *OAuth {
	in := c.doc.SignIn.OAuth
	if in == nil {
		return nil
	}
	used := map[string]bool{}
	for _, at := range []struct{ key, address string }{{"authorize", in.Authorize}, {"token", in.Token}, {"revoke", in.Revoke}} {
		if at.address != "" {
			c.checkEndpoint(in, at.key, at.address, used)
		}
	}
	for _, host := range in.Hosts {
		if !used[host] {
			c.upstreamFault("signIn.oauth.hosts: no URL is on %s", host)
		}
	}
	for name := range in.Send {
		if slices.Contains(oauthParameters, name) {
			c.upstreamFault("signIn.oauth.send: %s is set by the service", name)
		}
	}
	ended := in.Ended
	if ended == nil {
		ended = []string{"invalid_grant"}
	}
	return &OAuth{
		Ended:     ended,
		Authorize: in.Authorize, Token: in.Token, Revoke: in.Revoke, Scopes: in.Scopes, ClientInBody: in.Client == "body", Send: in.Send,
	}
}

func (c *compiler) checkEndpoint(in *manifest.OAuth, key, address string, used map[string]bool) {
	if strings.HasPrefix(address, "/") {
		if c.doc.Upstream.Site != nil {
			c.upstreamFault("signIn.oauth.%s: a platform with sites needs an https URL, because the client's secret must not be sent to "+
				"a creator's site", key)
		}
		return
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path == "":
		c.upstreamFault("signIn.oauth.%s: %q is neither a path nor an https URL without a query", key, address)
	case !slices.Contains(in.Hosts, u.Host):
		c.upstreamFault("signIn.oauth.%s: hosts does not list %s", key, u.Host)
	default:
		used[u.Host] = true
	}
}
