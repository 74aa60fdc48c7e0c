package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"code.dny.dev/ssrf"
)

// errBlocked means that an address is not public.
var errBlocked = errors.New("the destination is not public")

// guard decides which addresses are public, for webhooks and sites. The ssrf library knows the IANA registries; the rest
// is here.
type guard struct {
	public *ssrf.Guardian
	ports  []uint16
	// exempt lists networks that are allowed on any port, regardless of all other rules.
	exempt []netip.Prefix
}

// blockedPublic are networks with public addresses that are not public destinations.
var blockedPublic = []netip.Prefix{
	netip.MustParsePrefix("168.63.129.16/32"), // Azure's platform services, reachable from every machine there
	netip.MustParsePrefix("3ffe::/16"),        // 6bone, returned to IANA
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func newGuard(deny []netip.Prefix) *guard {
	var v4, v6 []netip.Prefix
	for _, p := range slices.Concat(blockedPublic, deny) {
		if p.Addr().Unmap().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	return &guard{
		public: ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(v4...), ssrf.WithDeniedV6Prefixes(v6...)),
		ports:  []uint16{443},
	}
}

// control runs just before a socket connects, after the name was resolved. So a name that changes its address between a
// check and the connection (DNS rebinding) gains nothing.
func (g *guard) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return errBlocked
	}
	return g.check(at)
}

// check returns an error unless the guard allows connections to an address.
func (g *guard) check(at netip.AddrPort) error {
	addr := at.Addr()
	if slices.ContainsFunc(g.exempt, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return nil
	}
	if !slices.Contains(g.ports, at.Port()) || isatap(addr) {
		return errBlocked
	}
	if err := g.public.SafeAddr(addr); err != nil {
		return fmt.Errorf("%w: %w", errBlocked, err)
	}
	return nil
}

// resolve returns the addresses of a host if the guard allows connections to all of them on port 443. One inner address
// is enough to reject the name.
func (g *guard) resolve(ctx context.Context, resolver *net.Resolver, host string) ([]netip.Addr, error) {
	lookup, cancel := context.WithTimeout(ctx, publicLookup)
	defer cancel()
	found, err := resolver.LookupNetIP(lookup, "ip", host+".") // the dot keeps the resolver from adding search domains
	for i := range found {
		found[i] = found[i].Unmap()
		err = errors.Join(err, g.check(netip.AddrPortFrom(found[i], 443)))
	}
	// A lookup that was cancelled may have found only some of the addresses.
	if err != nil || len(found) == 0 || ctx.Err() != nil {
		return nil, errBlocked
	}
	return found, nil
}

// isatap reports whether an IPv6 address embeds an IPv4 address in its lower half (RFC 5214).
func isatap(addr netip.Addr) bool {
	if !addr.Is6() {
		return false
	}
	bytes := addr.As16()
	mark := binary.BigEndian.Uint32(bytes[8:12])
	return mark == 0x00005efe || mark == 0x02005efe
}
