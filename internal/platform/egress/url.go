package egress

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

const (
	maxURL   = 2048
	maxHost  = 253
	maxLabel = 63
)

// privateNames are suffixes of names that resolve inside a network, or not at all.
var privateNames = []string{"localhost", "local", "internal", "intranet", "lan", "home", "corp", "private", "home.arpa", "in-addr.arpa", "ip6.arpa", "onion"}

// parseURL checks the form of a customer's URL. It has strict rules for hosts, because URL parsers, resolvers and C
// libraries read hosts differently, and an address could hide in the difference. An exempt URL may have any scheme,
// host and port.
func parseURL(raw, port string, exempt func(*url.URL) bool) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, unsafeURL("length", "The URL is longer than 2048 characters.")
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }) {
		return nil, unsafeURL("form", "The URL has a space, a backslash or a character that is not ASCII; encode it.")
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Host == "" || u.Scheme == "" {
		return nil, unsafeURL("form", "This is not a URL of the form https://host/path.")
	}
	// Compare the authority as written with the parsed host: any difference means that the host is written unusually.
	_, rest, _ := strings.Cut(raw, "//")
	authority, _, _ := strings.Cut(rest, "/")
	authority, _, _ = strings.Cut(authority, "?")
	switch {
	case u.User != nil || strings.Contains(authority, "@"):
		return nil, unsafeURL("userinfo", "The URL has a user name or password in it.")
	case strings.Contains(raw, "#"):
		return nil, unsafeURL("form", "The URL has a fragment (#), which is never sent.")
	case authority != u.Host || strings.HasSuffix(authority, ":"):
		return nil, unsafeURL("host", "The host of the URL is not in plain form.")
	case exempt(u):
		return u, nil
	case u.Scheme != "https":
		return nil, unsafeURL("scheme", "The URL is not https.")
	case u.Port() != "" && u.Port() != port:
		return nil, unsafeURL("port", "The URL has a port other than 443.")
	case !isPublicName(strings.ToLower(u.Hostname())):
		return nil, unsafeURL("host", "The host of the URL is not a public DNS name. Addresses are not accepted.")
	}
	return u, nil
}

// unsafeURL returns the problem for a rejected URL. The detail must not reveal anything about our network.
func unsafeURL(code, detail string) *problem.Error {
	return problem.UnsafeURL.New(detail).At("/url", code, detail)
}

// isPublicName reports whether a host can be a name in the public DNS.
func isPublicName(host string) bool {
	labels := strings.Split(host, ".")
	if len(host) > maxHost || len(labels) < 2 || slices.ContainsFunc(labels, func(l string) bool { return !isValidLabel(l) }) {
		return false
	}
	// No top-level domain starts with a digit. The last labels of 127.1, 0x7f.1 and 1.2.3.04 do, and some parsers read
	// these as addresses.
	if last := labels[len(labels)-1]; last[0] >= '0' && last[0] <= '9' {
		return false
	}
	return !slices.ContainsFunc(privateNames, func(end string) bool { return strings.HasSuffix(host, "."+end) })
}

func isValidLabel(label string) bool {
	return label != "" && len(label) <= maxLabel && label[0] != '-' && label[len(label)-1] != '-' &&
		!strings.ContainsFunc(label, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' })
}

func isLoopbackHost(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback() && addr.Zone() == ""
}

// withRootDot makes the name in host:port absolute, so that the resolver does not append search domains.
func withRootDot(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || isLoopbackHost(host) {
		return address
	}
	return net.JoinHostPort(host+".", port)
}
