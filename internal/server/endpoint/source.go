package endpoint

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// SourceOf returns a function that returns the network a request comes from. It believes X-Forwarded-For only as far as
// trusted proxies wrote it: the source is the last address in the list that is not a trusted proxy.
func SourceOf(trusted []netip.Prefix) func(*http.Request) string {
	isTrusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	return func(r *http.Request) string {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil {
			return r.RemoteAddr
		}
		addr := peer.Addr().Unmap()
		hops := r.Header.Values("X-Forwarded-For")
		for i := len(hops) - 1; i >= 0 && isTrusted(addr); i-- {
			list := strings.Split(hops[i], ",")
			for j := len(list) - 1; j >= 0 && isTrusted(addr); j-- {
				hop, err := netip.ParseAddr(strings.TrimSpace(list[j]))
				if err != nil {
					return network(addr)
				}
				addr = hop.Unmap()
			}
		}
		return network(addr)
	}
}

// network returns the name of a source: an IPv4 address, or the /64 network of an IPv6 address.
func network(addr netip.Addr) string {
	if addr.Is4() {
		return addr.String()
	}
	prefix, err := addr.WithZone("").Prefix(64)
	if err != nil {
		return addr.String()
	}
	return prefix.String()
}
