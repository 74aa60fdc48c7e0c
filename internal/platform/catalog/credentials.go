package catalog

import (
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/manifest"
)

// Credentials is what an account is signed in with. The API and the database have the same values.
type Credentials string

// The credentials.
const (
	// BySession is the session of a person, as in a browser.
	BySession Credentials = "session"
	// ByToken is a key that the platform issued to programs.
	ByToken Credentials = "token"
	// ByOAuth is an authorisation that the creator gave by OAuth.
	ByOAuth Credentials = "oauth"
)

// Accepts reports whether the platform takes a call of the method with these credentials.
func (m *Method) Accepts(by Credentials) bool { return accepts(m.Credentials, by) }

// Accepts reports whether an account with these credentials can read the feed.
func (f *Feed) Accepts(by Credentials) bool { return accepts(f.Credentials, by) }

func accepts(list []Credentials, by Credentials) bool {
	return len(list) == 0 || slices.Contains(list, by)
}

// Credentials lists what an account of the platform can be signed in with.
func (c *Catalog) Credentials() []Credentials {
	if c.Session.JWT != nil {
		return []Credentials{BySession, ByToken}
	}
	return []Credentials{BySession}
}

// Describe names credentials of the platform, with an article.
func (c *Catalog) Describe(by Credentials) string {
	switch {
	case by == ByToken && c.Session.JWT != nil:
		return withArticle(c.Session.JWT.Name)
	case by == ByToken:
		return "a key"
	case by == ByOAuth:
		return "an authorisation by OAuth"
	}
	return "the session of a person"
}

// withArticle puts a or an before a name.
func withArticle(name string) string {
	if strings.ContainsAny(name[:1], "AEIOUaeiou") {
		return "an " + name
	}
	return "a " + name
}

// RefuseCredentials returns the problem for a method that does not accept an account's credentials, or nil if it does.
func (c *Catalog) RefuseCredentials(m *Method, by Credentials) error {
	if m.Accepts(by) {
		return nil
	}
	var ways []string
	for _, accepted := range m.Credentials {
		ways = append(ways, c.connectWith(accepted))
	}
	return problem.CredentialsNotAccepted.Newf("%s does not accept %s for %s. Connect the account with %s to call it.", c.Name,
		c.Describe(by), m.ID(), strings.Join(ways, " or ")).With("method", m.ID()).With("credentials", by).With("accepted", m.Credentials)
}

// connectWith names what a person connects an account with to get credentials.
func (c *Catalog) connectWith(by Credentials) string {
	if by == BySession {
		return "email and password"
	}
	return c.Describe(by)
}

// compileCredentials checks the credentials that a method or a feed accepts.
func (c *compiler) compileCredentials(pos manifest.Pos, names []string) []Credentials {
	var list []Credentials
	for _, name := range names {
		by := Credentials(name)
		if !slices.Contains(c.cat.Credentials(), by) {
			c.fault(pos, "credentials: no account of the platform is signed in with %s", name)
		}
		list = append(list, by)
	}
	return list
}
