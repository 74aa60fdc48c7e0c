package link

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

// The connect methods that a page can offer.
const (
	OAuth       = "oauth"
	Token       = "token"
	Credentials = "credentials"
	MobileApp   = "mobile_app"
)

// Methods lists the connect methods in the order in which a page offers them.
func Methods() []string { return []string{OAuth, Token, Credentials, MobileApp} }

// Whether to remember a creator's credentials: RememberAsk lets the creator decide.
const (
	RememberAsk    = "ask"
	RememberAlways = "always"
	RememberNever  = "never"
)

// Locales lists the languages of the pages.
func Locales() []string { return []string{"en", "es", "pt", "fr", "de"} }

// Draft holds the settings of a new session. Empty fields get their defaults.
type Draft struct {
	Kinds                      []string
	ReferenceID, Label, Region string
	// Platform and Site must have been checked.
	Platform, Site string
	Account        id.Account
	ReturnURL      string
	AllowedOrigins []string
	ExpiresIn      time.Duration
	Locale         string
	Remember       string
	// DeliverEmail is where to mail the link; empty for no mail. PlatformName is the name of the platform in that mail.
	DeliverEmail, PlatformName string
}

// Limits of a draft. maxLabel and maxRef are in characters, maxURL in bytes.
const (
	minLife     = time.Minute
	maxLife     = 7 * 24 * time.Hour
	defaultLife = 30 * time.Minute
	maxLabel    = 120
	maxRef      = 255
	maxOrigins  = 10
	maxURL      = 2048
)

func (d Draft) withDefaults() Draft {
	if len(d.Kinds) == 0 {
		d.Kinds = []string{Credentials, MobileApp}
	}
	d.ExpiresIn = cmp.Or(d.ExpiresIn, defaultLife)
	d.Remember = cmp.Or(d.Remember, RememberAsk)
	if d.AllowedOrigins == nil {
		d.AllowedOrigins = []string{}
	}
	return d
}

// validate reports everything that is wrong with a draft in one problem, and never repeats a value of the caller.
func (d Draft) validate(env environment.Environment, regions []string) error {
	bad := problem.ValidationFailed.New("The session has values that are not allowed.")
	for _, kind := range d.Kinds {
		if !slices.Contains(Methods(), kind) {
			bad.At("/kinds", "enum", "must only contain "+strings.Join(Methods(), ", "))
			break
		}
	}
	if unique := slices.Compact(slices.Sorted(slices.Values(d.Kinds))); len(unique) < len(d.Kinds) {
		bad.At("/kinds", "unique", "must not name a kind twice")
	}
	if utf8.RuneCountInString(d.Label) > maxLabel {
		bad.At("/label", "length", "must have at most 120 characters")
	}
	if utf8.RuneCountInString(d.ReferenceID) > maxRef {
		bad.At("/reference_id", "length", "must have at most 255 characters")
	}
	if d.Region != "" && !slices.Contains(regions, d.Region) {
		bad.At("/proxy_country", "enum", "must be one of "+strings.Join(regions, ", "))
	}
	if d.ReturnURL != "" && !validURL(d.ReturnURL, env) {
		bad.At("/return_url", "format", urlRule(env))
	}
	validateOrigins(bad, "/allowed_origins", d.AllowedOrigins, env)
	if d.ExpiresIn < minLife || d.ExpiresIn > maxLife {
		bad.At("/expires_in_sec", "range", "must be from 60 to 604800")
	}
	if d.Locale != "" && !slices.Contains(Locales(), d.Locale) {
		bad.At("/locale", "enum", "must be one of "+strings.Join(Locales(), ", "))
	}
	if d.Remember != RememberAsk && d.Remember != RememberAlways && d.Remember != RememberNever {
		bad.At("/remember_credentials", "enum", "must be ask, always or never")
	}
	if _, ok := member.CleanEmail(d.DeliverEmail); !ok && d.DeliverEmail != "" {
		bad.At("/deliver/email", "format", "must be an email address, such as luna@example.com")
	}
	if len(bad.Fields) > 0 {
		return bad
	}
	return nil
}

func validateOrigins(bad *problem.Error, pointer string, list []string, env environment.Environment) {
	if len(list) > maxOrigins {
		bad.At(pointer, "maxItems", "must have at most 10 origins")
	}
	for _, origin := range list {
		if !ValidOrigin(origin, env) {
			bad.At(pointer, "format", "must be exact origins such as https://app.example.com: a scheme, a host, a port if it is not 443, and nothing else"+loopbackRule(env))
			return
		}
	}
}

func urlRule(env environment.Environment) string {
	return "must be an https URL of at most 2048 characters, without credentials and without a fragment" + loopbackRule(env)
}

func loopbackRule(env environment.Environment) string {
	if env.IsTest() {
		return "; in the sandbox also http on localhost or 127.0.0.1"
	}
	return ""
}

// CheckReturn refuses a return URL that a creator's browser must not be sent to.
func CheckReturn(text string, env environment.Environment) error {
	if text == "" || validURL(text, env) {
		return nil
	}
	return problem.ValidationFailed.New("A creator's browser cannot be sent to this URL.").At("/return_url", "format",
		urlRule(env))
}

// validURL reports whether a creator's browser may be sent to a URL.
func validURL(text string, env environment.Environment) bool {
	u, err := url.Parse(text)
	return err == nil && len(text) <= maxURL && u.User == nil && u.Fragment == "" && !strings.HasSuffix(text, "#") && u.Opaque == "" &&
		isSafeScheme(u, env) && isSafeHost(u)
}

// ValidOrigin reports whether a text is an origin in exactly the form that browsers send. It becomes part of a
// header, so nothing else may pass: no wildcard, no path, no space.
func ValidOrigin(text string, env environment.Environment) bool {
	u, err := url.Parse(text)
	return err == nil && len(text) <= maxURL && u.Scheme+"://"+u.Host == text && isSafeScheme(u, env) && isSafeHost(u) &&
		!hasDefaultPort(u)
}

// hasDefaultPort reports whether a URL contains a port that browsers omit.
func hasDefaultPort(u *url.URL) bool {
	return u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80"
}

func isSafeScheme(u *url.URL, env environment.Environment) bool {
	return u.Scheme == "https" || u.Scheme == "http" && env.IsTest() && isLoopback(u.Hostname())
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// isSafeHost allows names and IPv4 addresses in lower case. A content security policy cannot contain an IPv6 address.
func isSafeHost(u *url.URL) bool {
	host, port := u.Hostname(), u.Port()
	if host == "" || len(host) > 253 || strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" || strings.Contains(host, "..") ||
		strings.HasPrefix(host, ".") || strings.HasPrefix(host, "-") || strings.HasSuffix(host, "-") {
		return false
	}
	rest := strings.TrimPrefix(u.Host, host)
	return rest == "" || rest == ":"+port && port != "" && port != "0" && port[0] != '0' && len(port) <= 5
}
