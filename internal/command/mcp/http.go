package mcp

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// idle is how long a session lives that nobody uses.
const idle = 30 * time.Minute

// Handler serves the tools over streamable HTTP. A request needs the bearer token, if there is one; pages of other origins than the
// machine's own are refused, because a browser would let any of them talk to a server on loopback.
func (s *Server) Handler(token string, origins []string) http.Handler {
	inner := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.server }, &sdk.StreamableHTTPOptions{
		Logger: s.deps.Log, SessionTimeout: idle,
		// The SDK's own check of Host protects servers without a token; with one, a name in front of it is fine.
		DisableLocalhostProtection: token != "",
	})
	wanted := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); origin != "" && !ownOrigin(origin) && !slices.Contains(origins, origin) {
			http.Error(w, "requests of pages at "+origin+" are refused", http.StatusForbidden)
			return
		}
		given := sha256.Sum256([]byte(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")))
		if token != "" && subtle.ConstantTimeCompare(wanted[:], given[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the bearer token is missing or wrong", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

func ownOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && Loopback(u.Hostname())
}

// Loopback says whether a host is this machine and nothing else.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
