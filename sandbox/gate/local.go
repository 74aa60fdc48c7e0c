package gate

import (
	"net"
	"net/http"
	"net/netip"
)

// Local reports whether a request comes from this machine. It rejects requests that a page of another site makes
// through a local browser, and those whose Host is a name that foreign DNS points at this machine.
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
