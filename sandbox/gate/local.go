package gate

import (
	"net"
	"net/http"
	"net/netip"
)

// Local says whether a request comes from this machine and means it: not from a page of another site that a browser here has open,
// and not by a name that somebody else's DNS resolves to this machine.
func Local(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !from.Addr().Unmap().IsLoopback() {
		return false
	}
	name := r.Host
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		name = host
	}
	if net.ParseIP(name) == nil && name != "localhost" {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return false
	}
	return true
}
