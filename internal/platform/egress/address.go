package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"code.dny.dev/ssrf"
)

// errBlocked means that an address is not public.
var errBlocked = errors.New("the destination is not public")

// guard decides which addresses may be connected to. The IANA registries are the library's; what they do not have is here.
type guard struct {
	public *ssrf.Guardian
	ports  []uint16
	// open are networks that are allowed on any port, whatever else is said.
	open []netip.Prefix
}

// special are addresses that are public by their number and private by their use.
var special = []netip.Prefix{
	netip.MustParsePrefix("168.63.129.16/32"), // Azure's platform services, reachable from every machine there
	netip.MustParsePrefix("3ffe::/16"),        // 6bone, given back
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func newGuard(deny []netip.Prefix) *guard {
	var v4, v6 []netip.Prefix
	for _, p := range slices.Concat(special, deny) {
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

// control is called with the address that a socket is about to connect to: after the name was looked up, so that a
// name that changes its address between a check and a connection gains nothing.
func (g *guard) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return errBlocked
	}
	return g.allow(at)
}

func (g *guard) allow(at netip.AddrPort) error {
	addr := at.Addr()
	if slices.ContainsFunc(g.open, func(p netip.Prefix) bool { return p.Contains(addr) }) {
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

// isatap finds IPv4 addresses that hide in the lower half of an IPv6 address (RFC 5214).
func isatap(addr netip.Addr) bool {
	if !addr.Is6() {
		return false
	}
	bytes := addr.As16()
	mark := binary.BigEndian.Uint32(bytes[8:12])
	return mark == 0x00005efe || mark == 0x02005efe
}
