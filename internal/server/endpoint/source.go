package endpoint

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// SourceOf returns a function that returns the network a request comes from; see AddressOf.
func SourceOf(trusted []netip.Prefix) func(*http.Request) string {
	address := AddressOf(trusted)
	return func(r *http.Request) string {
		addr := address(r)
		if !addr.IsValid() {
			return r.RemoteAddr
		}
		return network(addr)
	}
}

// AddressOf returns a function that returns the address a request comes from. It believes X-Forwarded-For only as far as
// trusted proxies wrote it: the address is the last one in the list that is not a trusted proxy. It is invalid if the
// connection has none.
func AddressOf(trusted []netip.Prefix) func(*http.Request) netip.Addr {
	isTrusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	return func(r *http.Request) netip.Addr {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil {
			return netip.Addr{}
		}
		addr := peer.Addr().Unmap()
		hops := r.Header.Values("X-Forwarded-For")
		for i := len(hops) - 1; i >= 0 && isTrusted(addr); i-- {
			list := strings.Split(hops[i], ",")
			for j := len(list) - 1; j >= 0 && isTrusted(addr); j-- {
				hop, err := netip.ParseAddr(strings.TrimSpace(list[j]))
				if err != nil {
					return addr
				}
				addr = hop.Unmap()
			}
		}
		return addr
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
