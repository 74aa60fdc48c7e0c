package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/idna"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// A site is a host that a customer chose for an account. Its traffic leaves through the account's region, like all
// traffic to platforms, but the host must be public at every dial. The proxy is in another network and cannot know what
// is public for us, so this machine resolves the name, checks all addresses and asks the proxy to connect to one of
// them. TLS still verifies the name.

// siteMarker begins the address of a site in pool keys, so that a site shares no connection with a platform on the same
// host. It is no part of any host name.
const siteMarker = "site!"

func isSite(address string) bool { return strings.HasPrefix(address, siteMarker) }

// maxSiteAddresses bounds the addresses of a site that one dial tries.
const maxSiteAddresses = 2

// ErrNotPublic means that the host of a site does not resolve, or not to public addresses only. The two are not
// distinguished, because the difference would reveal names of our network. Nothing was sent.
var ErrNotPublic = errors.New("the host of the site is not public")

// SplitSite splits the root of a site into its origin and its path, which is empty or starts with a slash.
func SplitSite(root string) (origin, path string) {
	const scheme = "://"
	host := strings.Index(root, scheme) + len(scheme)
	if i := strings.IndexByte(root[min(host, len(root)):], '/'); i >= 0 {
		return root[:host+i], root[host+i:]
	}
	return root, ""
}

// SiteOrigins returns the origin of a site as the only origin of a client. root is a result of CheckSite.
func SiteOrigins(root string) (Origins, error) {
	text, _ := SplitSite(root)
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return Origins{}, errSiteRoot
	}
	t, ok := targetOf(u)
	if !ok || !plainHost(t.host) {
		return Origins{}, errSiteRoot
	}
	return Origins{list: []origin{{text: text, host: u.Host, address: siteMarker + t.host + ":" + t.port, target: t}}}, nil
}

var errSiteRoot = errors.New("the site is not the root of a site")

// CheckSite checks the form of a site's URL and returns its root: the origin and the path, without a slash at the end
// and without the default port, with the host in ASCII. It does not resolve the host; every dial does. The error is the problem unsafe-url or
// validation-failed.
func (e *Egress) CheckSite(raw string) (root string, err error) {
	u, err := parseURL(WithASCIIHost(raw), "443", e.isExempt)
	if unsafe, ok := errors.AsType[*problem.Error](err); ok {
		for i := range unsafe.Fields {
			unsafe.Fields[i].Pointer = "/site"
		}
		return "", unsafe
	}
	path := strings.TrimRight(u.Path, "/")
	switch {
	case u.RawQuery != "" || u.ForceQuery:
		return "", invalidSite("The address of the site has a query (?).")
	case u.RawPath != "" || !isPlainPath(path):
		return "", invalidSite("The path of the site has empty parts, or characters other than letters, digits, -, ., _ and ~.")
	}
	t, _ := targetOf(u)
	root = u.Scheme + "://" + t.host
	if u.Scheme == "https" && t.port != "443" || u.Scheme == "http" && t.port != "80" {
		root += ":" + t.port
	}
	return root + path, nil
}

// WithASCIIHost returns a URL whose host is written in ASCII: people enter münchen.example, and DNS has
// xn--mnchen-3ya.example. A URL that has no such form is returned as it is, and is refused later.
func WithASCIIHost(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || isASCII(u.Host) {
		return raw
	}
	host, err := idna.Lookup.ToASCII(u.Hostname())
	if err != nil || host == "" {
		return raw
	}
	if port := u.Port(); port != "" {
		host = net.JoinHostPort(host, port)
	}
	u.Host = host
	return u.String()
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}

func invalidSite(detail string) *problem.Error {
	return problem.ValidationFailed.New(detail).At("/site", "form", detail)
}

// isPlainPath reports whether every URL parser reads a path in the same way. An empty path is plain.
func isPlainPath(path string) bool {
	for i, part := range strings.Split(path, "/") {
		if part == "" && i > 0 || part == "." || part == ".." || strings.Trim(part, plainPathBytes) != "" {
			return false
		}
	}
	return true
}

const plainPathBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"

// newExempt parses the origins in Config.Sites. A text that is not an origin exempts nothing.
func newExempt(list []string) Origins {
	var all Origins
	for _, text := range list {
		if one, err := ParseOrigins(text); err == nil {
			all.list = append(all.list, one.list...)
		}
	}
	return all
}

// isExempt reports whether the operator has listed the origin of a URL in Config.Sites.
func (e *Egress) isExempt(u *url.URL) bool {
	_, err := e.exempt.addressOf(u)
	return err == nil
}

// dialSite opens a tunnel to a site. If the proxy cannot reach an address of the site, it tries another one. An error
// is always a *fault.
func (e *Egress) dialSite(ctx context.Context, p *proxyNode, to target, key string) (net.Conn, error) {
	if slices.ContainsFunc(e.exempt.list, func(o origin) bool { return o.target == to }) {
		return e.dialer.openTunnel(ctx, p, to, to.address(), key)
	}
	started := e.deps.Now()
	var found []netip.Addr
	err := errBlocked
	// The form was checked before. It is checked again because sites are stored, and the rules may have changed.
	if to.secure && to.port == "443" && isPublicName(to.host) {
		found, err = e.guard.resolve(ctx, e.deps.Config.Resolver, to.host)
	}
	if err != nil {
		waitMinBlocked(ctx, e.deps.Now, started, e.minBlocked)
		if ctx.Err() != nil {
			return nil, &fault{proxy: p.name, reason: cancelled}
		}
		return nil, &fault{proxy: p.name, reason: blocked}
	}
	// Not every proxy has IPv6.
	slices.SortStableFunc(found, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	var conn net.Conn
	for _, addr := range found[:min(len(found), maxSiteAddresses)] {
		conn, err = e.dialer.openTunnel(ctx, p, to, net.JoinHostPort(addr.String(), to.port), key)
		if f, failed := errors.AsType[*fault](err); !failed || f.reason != unreachable {
			break
		}
	}
	return conn, err
}

// siteProblem returns the problem for a site that cannot be reached.
func siteProblem(region string, why reason, cause error) error {
	if why == blocked {
		return problem.UpstreamUnavailable.New("The host of the site does not resolve to a public address.").
			After(retryAfter).Because(fmt.Errorf("%w: %w", ErrNotPublic, cause))
	}
	return problem.UpstreamUnavailable.Newf("The site cannot be reached from the region %s.", region).
		After(retryAfter).Because(cause)
}
