// Package curlimport reads what a creator copied from a browser: a cURL command in one of its dialects, or cookies in one of their
// forms. Its functions are pure: nothing is executed, fetched or stored, and no error repeats a value of what was pasted.
//
// Start with Curl and Cookies. A command becomes words (bash.go, cmd.go, powershell.go), the words become a request
// (flags.go, invoke.go), and the request is judged here. What comes out goes into driver.NewSession, which keeps the cookies
// and headers that the manifest names.
package curlimport

import (
	"net"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// maxCurl is how long a command may be, in bytes.
const maxCurl = 64 << 10

// Pasted is what a command tells of a session.
type Pasted struct {
	Cookies map[string]secret.String
	// Headers are all that the command sends, by name in lower case, without the cookies and the browser's name.
	Headers   map[string]secret.String
	UserAgent string
	// Host is that of the command, as one of the hosts asked for.
	Host string
}

// Curl reads a browser's "Copy as cURL" or "Copy as PowerShell". The hosts are those of the platform, each with a port if it
// is not the usual one of the command's scheme.
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
		return Pasted{}, unparseable("character", "The command holds the character NUL.")
	}
	r, err := read(strings.ReplaceAll(plain, "\r\n", "\n"))
	if err != nil {
		return Pasted{}, err
	}
	return r.judge(hosts)
}

func read(text string) (*request, error) {
	switch dialectOf(text) {
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

// dialectOf tells the shells apart by how they continue a line, and if there is one line only, by how it quotes.
func dialectOf(text string) dialect {
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
	return dialectOfQuotes(name, rest)
}

func dialectOfQuotes(name, rest string) dialect {
	at := strings.IndexAny(rest, `"'`)
	single := at >= 0 && rest[at] == '\''
	switch {
	case name == "curl.exe" && single:
		return dialectPowerShell
	case name == "curl.exe":
		return dialectCmd
	case !single && doubled(rest):
		return dialectCmd
	}
	return dialectBash
}

// doubled says whether quotes are escaped or percent signs are fenced as only cmd needs it. An empty "" argument is not that.
func doubled(text string) bool {
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

// request is what a command asks for, before it is judged.
type request struct {
	urls    []string
	agent   string            // by an option
	headers map[string]string // by name in lower case
	cookies []string          // texts of Cookie headers, in order
	jar     []Cookie
}

func newRequest() *request { return &request{headers: map[string]string{}} }

// header takes one in; the last of a name counts. A name starting with a colon is HTTP/2's own and not a header.
func (r *request) header(name, value string) error {
	name, value = strings.ToLower(strings.Trim(name, " \t")), strings.Trim(value, " \t")
	switch {
	case strings.HasPrefix(name, ":") && httpguts.ValidHeaderFieldName(name[1:]):
		return nil
	case !httpguts.ValidHeaderFieldName(name):
		return unparseable("syntax", "A header's name holds a character that names cannot have.")
	case !httpguts.ValidHeaderFieldValue(value):
		return unparseable("character", "A header holds a control character.")
	case name == "cookie":
		r.cookies = append(r.cookies, value)
	default:
		r.headers[name] = value
	}
	return nil
}

func (r *request) judge(hosts []string) (Pasted, error) {
	if len(r.urls) != 1 {
		return Pasted{}, unparseable("syntax", "The command must have one address, and only one.")
	}
	host, err := r.host(hosts)
	if err != nil {
		return Pasted{}, err
	}
	out := Pasted{Cookies: choose(r.jar, []string{host}), Headers: map[string]secret.String{}, UserAgent: r.agent, Host: host}
	for _, text := range r.cookies {
		for name, value := range headerCookies(text) {
			if _, ok := out.Cookies[name]; !ok {
				out.Cookies[name] = value
			}
		}
	}
	for name, value := range r.headers {
		if name == "user-agent" {
			out.UserAgent = value // curl sends the header, not the option, if there are both
			continue
		}
		out.Headers[name] = secret.New(value)
	}
	if !httpguts.ValidHeaderFieldValue(out.UserAgent) {
		return Pasted{}, unparseable("character", "The browser's name holds a control character.")
	}
	return out, nil
}

// host finds which of the hosts the address has. A Host header must be one of them too.
func (r *request) host(hosts []string) (string, error) {
	u, err := url.Parse(r.urls[0])
	if err != nil {
		return "", unparseable("url", "The command's address is not a URL.")
	}
	u.Scheme = strings.ToLower(u.Scheme)
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", wrongHost("The command's address must start with https:// or http://.")
	case u.User != nil:
		return "", unparseable("url", "The command's address holds a user name. Remove it.")
	}
	found, ok := match(u.Scheme, u.Host, hosts)
	if !ok {
		return "", wrongHost("The command goes to a host that does not belong to the platform.")
	}
	if given, sent := r.headers["host"]; sent {
		if _, ok := match(u.Scheme, given, hosts); !ok {
			return "", wrongHost("The command's Host header names a host that does not belong to the platform.")
		}
	}
	return found, nil
}

// match finds a host among several. A port that is not written is the scheme's.
func match(scheme, host string, hosts []string) (string, bool) {
	usual := "443"
	if scheme == "http" {
		usual = "80"
	}
	name, port := split(host, usual)
	at := slices.IndexFunc(hosts, func(one string) bool {
		n, p := split(one, usual)
		return n != "" && n == name && p == port
	})
	if at < 0 {
		return "", false
	}
	return hosts[at], true
}

// split separates a host's name, in lower case and without a last dot, from its port.
func split(host, usual string) (name, port string) {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), ""
	}
	if port == "" {
		port = usual
	}
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
