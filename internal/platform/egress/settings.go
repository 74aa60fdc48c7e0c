package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// Region is a pool of proxies whose traffic leaves from one country.
type Region struct {
	Name    string
	Proxies []Proxy
}

// Proxy holds the address and credentials of a proxy. All of it is secret and must not reach callers or logs.
type Proxy struct {
	scheme   string // http, https or socks5
	address  secret.String
	user     secret.String
	password secret.String
}

var regionName = regexp.MustCompile(`^[a-z]{2}$`)

// IsRegion reports whether a name has the form of a region, a two-letter code.
func IsRegion(name string) bool { return regionName.MatchString(name) }

// ParseRegions parses the setting STAGEDOOR_EGRESS: "us=http://user:password@host:port,socks5://host:port uk=…". White
// space separates regions and commas separate proxies. Errors do not contain any part of a proxy.
func ParseRegions(text secret.String) ([]Region, error) {
	var list []Region
	seen := map[string]string{}
	for i, part := range strings.Fields(text.Reveal()) {
		name, proxies, ok := strings.Cut(part, "=")
		if !ok || !IsRegion(name) {
			return nil, fmt.Errorf("part %d does not start with a region: write it as us=http://user:password@host:port", i+1)
		}
		if slices.ContainsFunc(list, func(r Region) bool { return r.Name == name }) {
			return nil, fmt.Errorf("region %s is listed twice: write all its proxies in one part, separated by commas", name)
		}
		r := Region{Name: name}
		for n, address := range strings.Split(proxies, ",") {
			p, err := parseProxy(address)
			if err != nil {
				return nil, fmt.Errorf("proxy %d of region %s %w", n+1, name, err)
			}
			if other := seen[p.identity()]; other != "" {
				return nil, fmt.Errorf("proxy %d of region %s is already in region %s: list each proxy once, because it leaves from one country", n+1, name, other)
			}
			seen[p.identity()] = name
			r.Proxies = append(r.Proxies, p)
		}
		list = append(list, r)
	}
	return list, nil
}

// parseProxy parses one proxy. It drops the error of url.Parse, which could contain the password.
func parseProxy(text string) (Proxy, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Proxy{}, errors.New("is not a URL: write it as http://user:password@host:port, with special characters percent-encoded")
	}
	scheme := u.Scheme
	if scheme == "socks5h" {
		scheme = "socks5" // the proxy always resolves names, so the two are the same here
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	password, _ := u.User.Password()
	switch {
	case scheme != "http" && scheme != "https" && scheme != "socks5":
		return Proxy{}, errors.New("has a scheme other than http, https or socks5")
	case u.Hostname() == "" || err != nil || port == 0:
		return Proxy{}, errors.New("lacks a host or a port: write it as http://user:password@host:port")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return Proxy{}, errors.New("has something after its port: write it as http://user:password@host:port")
	case len(u.User.Username()) > 255 || len(password) > 255:
		return Proxy{}, errors.New("has a user or password of more than 255 bytes")
	}
	return Proxy{scheme: scheme, address: secret.New(u.Host), user: secret.New(u.User.Username()), password: secret.New(password)}, nil
}

// identity returns a text that identifies the proxy. Two users of one gateway are two proxies, but a new password
// does not make another proxy.
func (p Proxy) identity() string {
	return p.scheme + "://" + p.user.Reveal() + "@" + strings.ToLower(p.address.Reveal())
}

// Origins are the origins that a client may call: scheme, host and port. The zero value allows none.
type Origins struct{ list []origin }

// origin is one origin. A list of them is short, so lookups are linear.
type origin struct {
	text    string // as it was passed to ParseOrigins
	host    string // for the Host header
	address string // host:port, for pool keys; that of a site begins with siteMarker
	target
}

// target is the destination of a tunnel.
type target struct {
	host   string
	port   string
	secure bool
}

func (t target) address() string { return net.JoinHostPort(t.host, t.port) }

// ErrOrigin means that the URL of a request is not in the client's origins. Nothing was sent.
var ErrOrigin = errors.New("the URL is not in an origin of the platform")

// ParseOrigins parses origins, such as https://platform.example or http://127.0.0.1:18200.
func ParseOrigins(list ...string) (Origins, error) {
	var o Origins
	for _, text := range list {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
			return Origins{}, fmt.Errorf("%q is not an origin: write it as https://platform.example", text)
		}
		t, ok := targetOf(u)
		if !ok || !plainHost(t.host) {
			return Origins{}, fmt.Errorf("%q is not an http or https origin with a plain host: write it as https://platform.example", text)
		}
		o.list = append(o.list, origin{text: text, host: u.Host, address: t.host + ":" + t.port, target: t})
	}
	return o, nil
}

// byText returns the origin that was passed to ParseOrigins as this text, or nil if there is none.
func (o Origins) byText(text string) *origin {
	for i := range o.list {
		if o.list[i].text == text {
			return &o.list[i]
		}
	}
	return nil
}

// addressOf returns the address of the origin that a URL is in, or ErrOrigin if it is in none.
func (o Origins) addressOf(u *url.URL) (address string, err error) {
	if t, ok := targetOf(u); ok {
		for i := range o.list {
			if o.list[i].target == t {
				return o.list[i].address, nil
			}
		}
	}
	return "", ErrOrigin
}

func targetOf(u *url.URL) (target, bool) {
	t := target{host: strings.ToLower(u.Hostname()), port: u.Port()}
	switch u.Scheme {
	case "https":
		t.secure = true
		if t.port == "" {
			t.port = "443"
		}
	case "http":
		if t.port == "" {
			t.port = "80"
		}
	default:
		return target{}, false
	}
	return t, true
}

// plainHost reports whether a host can be part of a pool key: a DNS name or an IPv4 address.
func plainHost(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Is4()
	}
	return host != "" && !strings.ContainsFunc(host, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_'
	})
}
