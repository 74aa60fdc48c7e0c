// Package curlimport reads what a creator copied from a browser: a cURL command in one of several shell dialects, or
// cookies in one of several formats. Its functions are pure: they execute, fetch and store nothing, and no error
// repeats a value of the pasted text.
//
// Start with Curl and Cookies. A command is split into words (bash.go, cmd.go, powershell.go), the words become a
// request (flags.go, invoke.go), and the request is checked here. The result goes into driver.NewSession, which keeps
// the cookies and headers that the manifest names.
package curlimport

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// maxCurl bounds the length of a command, in bytes.
const maxCurl = 64 << 10

// Pasted is what a command contains of a session.
type Pasted struct {
	Cookies map[string]secret.String
	// Headers holds all headers of the command except Cookie and User-Agent, by their name in lower case.
	Headers   map[string]secret.String
	UserAgent string
	// Host is the host of the command, in the spelling of Curl's argument hosts.
	Host string
}

// Curl reads a browser's "Copy as cURL" or "Copy as PowerShell". hosts are the platform's hosts, each with a port if
// it is not the default port of the command's scheme. It fails with curl-unparseable, curl-unsupported or
// curl-wrong-host.
func Curl(text secret.String, hosts []string) (Pasted, error) {
	plain := strings.TrimSpace(strings.TrimPrefix(text.Reveal(), "\ufeff"))
	switch {
	case len(plain) > maxCurl:
		return Pasted{}, unparseable("maxLength", "The command is longer than 64 KiB.")
	case plain == "":
		return Pasted{}, unparseable("required", "There is no command.")
	case !utf8.ValidString(plain):
		return Pasted{}, unparseable("encoding", "The command is not UTF-8 text.")
	case strings.ContainsRune(plain, 0):
		return Pasted{}, unparseable("character", "The command contains the character NUL.")
	}
	r, err := parseCommand(strings.ReplaceAll(plain, "\r\n", "\n"))
	if err != nil {
		return Pasted{}, err
	}
	return r.toPasted(hosts)
}

func parseCommand(text string) (*request, error) {
	switch detectDialect(text) {
	case dialectInvoke:
		return readInvoke(text)
	case dialectBash:
		return readWords(bashWords(text))
	case dialectCmd:
		return readWords(cmdWords(text))
	case dialectPowerShell:
		return readWords(powerShellWords(text))
	case dialectNone:
	}
	return nil, unparseable("syntax", "The text does not start with curl, as a copied command does.")
}

type dialect int

const (
	dialectNone dialect = iota
	dialectBash
	dialectCmd
	dialectPowerShell
	dialectInvoke
)

// detectDialect tells the shells apart by how they continue a line, or, for a single line, by its quotes.
func detectDialect(text string) dialect {
	first := text
	if end := strings.IndexAny(text, " \t\n"); end >= 0 {
		first = text[:end]
	}
	name := strings.ToLower(first)
	switch {
	case strings.HasPrefix(name, "$session"), name == "invoke-webrequest", name == "invoke-restmethod":
		return dialectInvoke
	case name != "curl" && name != "curl.exe":
		return dialectNone
	}
	rest := strings.TrimLeft(text[len(first):], " \t")
	if strings.HasPrefix(rest, "^") {
		return dialectCmd
	}
	if line, _, more := strings.Cut(rest, "\n"); more && line != "" {
		switch line[len(line)-1] {
		case '\\':
			return dialectBash
		case '^':
			return dialectCmd
		case '`':
			return dialectPowerShell
		}
	}
	return detectByQuotes(name, rest)
}

func detectByQuotes(name, rest string) dialect {
	at := strings.IndexAny(rest, `"'`)
	single := at >= 0 && rest[at] == '\''
	switch {
	case name == "curl.exe" && single:
		return dialectPowerShell
	case name == "curl.exe":
		return dialectCmd
	case !single && hasCmdQuotes(rest):
		return dialectCmd
	}
	return dialectBash
}

// hasCmdQuotes reports whether the text escapes quotes by doubling them, or puts quotes around percent signs, as only
// cmd needs it. An empty argument "" does not count.
func hasCmdQuotes(text string) bool {
	if strings.Contains(text, `"%"`) {
		return true
	}
	for i := 1; i+1 < len(text); i++ {
		if text[i] == '"' && text[i+1] == '"' && text[i-1] != ' ' {
			return true
		}
	}
	return false
}

// request is a parsed command, before its host is checked.
type request struct {
	urls    []string
	agent   string            // from an option
	headers map[string]string // by name in lower case
	cookies []string          // values of Cookie headers, in order
	jar     []Cookie          // cookies with a domain, from PowerShell
}

func newRequest() *request { return &request{headers: map[string]string{}} }

// addHeader adds a header; the last one of a name counts. A name that starts with a colon is a pseudo-header of
// HTTP/2 and is ignored.
func (r *request) addHeader(name, value string) error {
	name, value = strings.ToLower(strings.Trim(name, " \t")), strings.Trim(value, " \t")
	switch {
	case strings.HasPrefix(name, ":") && httpguts.ValidHeaderFieldName(name[1:]):
		return nil
	case !httpguts.ValidHeaderFieldName(name):
		return unparseable("syntax", "A header name contains an invalid character.")
	case !httpguts.ValidHeaderFieldValue(value):
		return unparseable("character", "A header contains a control character.")
	case name == "cookie":
		r.cookies = append(r.cookies, value)
	default:
		r.headers[name] = value
	}
	return nil
}

// toPasted checks the request's host and returns its session. Cookies with a domain win over those of Cookie headers.
func (r *request) toPasted(hosts []string) (Pasted, error) {
	if len(r.urls) != 1 {
		return Pasted{}, unparseable("syntax", "The command must have exactly one URL.")
	}
	host, err := r.host(hosts)
	if err != nil {
		return Pasted{}, err
	}
	out := Pasted{Cookies: selectCookies(r.jar, []string{host}), Headers: map[string]secret.String{}, UserAgent: r.agent,
		Host: host}
	for _, text := range r.cookies {
		for name, value := range headerCookies(text) {
			if _, ok := out.Cookies[name]; !ok {
				out.Cookies[name] = value
			}
		}
	}
	for name, value := range r.headers {
		if name == "user-agent" {
			out.UserAgent = value // if there are both, curl sends the header
			continue
		}
		out.Headers[name] = secret.New(value)
	}
	if !httpguts.ValidHeaderFieldValue(out.UserAgent) {
		return Pasted{}, unparseable("character", "The user agent contains a control character.")
	}
	return out, nil
}

// host returns which of the hosts the URL has. A Host header must be one of them, too.
func (r *request) host(hosts []string) (string, error) {
	u, err := url.Parse(r.urls[0])
	if err != nil {
		return "", unparseable("url", "The command's address is not a URL.")
	}
	u.Scheme = strings.ToLower(u.Scheme)
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", wrongHost("The command's URL must start with https:// or http://.")
	case u.User != nil:
		return "", unparseable("url", "The command's URL contains a user name. Remove it.")
	}
	found, ok := matchHost(u.Scheme, u.Host, hosts)
	if !ok {
		return "", wrongHost("The command goes to a host that does not belong to the platform.")
	}
	if given, sent := r.headers["host"]; sent {
		if _, ok := matchHost(u.Scheme, given, hosts); !ok {
			return "", wrongHost("The command's Host header names a host that does not belong to the platform.")
		}
	}
	return found, nil
}

// matchHost finds a host in a list. A missing port is the default port of the scheme.
func matchHost(scheme, host string, hosts []string) (string, bool) {
	usual := "443"
	if scheme == "http" {
		usual = "80"
	}
	name, port := splitHostPort(host, usual)
	at := slices.IndexFunc(hosts, func(one string) bool {
		n, p := splitHostPort(one, usual)
		return n != "" && n == name && p == port
	})
	if at < 0 {
		return "", false
	}
	return hosts[at], true
}

// splitHostPort returns a host's name, in lower case and without a trailing dot, and its port, or usual if it has none.
func splitHostPort(host, usual string) (name, port string) {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), ""
	}
	port = cmp.Or(port, usual)
	return strings.TrimSuffix(strings.ToLower(name), "."), port
}

func unparseable(code, detail string) error {
	return problem.CurlUnparseable.New(detail).At("/curl", code, detail)
}

func unsupported(detail string) error {
	return problem.CurlUnsupported.New(detail).At("/curl", "unsupported", detail)
}

func wrongHost(detail string) error {
	return problem.CurlWrongHost.New(detail).At("/curl", "host", detail)
}
