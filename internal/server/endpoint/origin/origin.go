// Package origin finds out where a request comes from: from which network (source.go), and from whose page, so that other sites' cannot
// use the cookies of a browser.
package origin

import "net/http"

// Guard tells requests of our own pages from those of other sites.
type Guard struct{ unsafe *http.CrossOriginProtection }

// New makes a guard. Pages of the public address count as own also where a proxy in between gives us another name.
func New(public string) Guard {
	g := Guard{http.NewCrossOriginProtection()}
	_ = g.unsafe.AddTrustedOrigin(public) // one that is no origin trusts nobody
	return g
}

// Own says whether a request that may change something was made by a page of ours, or by no browser. One that only reads is always.
func (g Guard) Own(r *http.Request) bool { return g.unsafe.Check(r) == nil }

// Strict is Own for what only reads as well: another site's page could not read the answer, but would use up limits of somebody who does
// not know of it. Opening an address is not such a request.
func (g Guard) Strict(r *http.Request) bool {
	if !g.Own(r) {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	return !safe || r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}
