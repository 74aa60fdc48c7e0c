package endpoint

import "net/http"

// OriginGuard distinguishes requests of our own pages from those of other sites, which must not use a browser's
// cookies.
type OriginGuard struct{ unsafe *http.CrossOriginProtection }

// NewOriginGuard accepts pages of the public address also when a proxy in front of the server changes the Host.
func NewOriginGuard(public string) OriginGuard {
	g := OriginGuard{http.NewCrossOriginProtection()}
	_ = g.unsafe.AddTrustedOrigin(public) // An address that is no origin adds no trust.
	return g
}

// Own reports whether a request was made by one of our pages or by no browser. It always holds for requests that only
// read.
func (g OriginGuard) Own(r *http.Request) bool { return g.unsafe.Check(r) == nil }

// Strict is Own for requests that only read as well: a page of another site cannot read the response, but the request
// would count towards the user's limits. Navigating to an address is allowed.
func (g OriginGuard) Strict(r *http.Request) bool {
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
