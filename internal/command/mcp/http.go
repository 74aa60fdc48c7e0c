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

// sessionTimeout ends idle HTTP sessions.
const sessionTimeout = 30 * time.Minute

// Handler serves the tools over streamable HTTP. Requests must send the bearer token, if there is one. Web
// pages are rejected unless their origin is this machine or in origins, because a browser lets any page
// send requests to loopback.
func (s *Server) Handler(token string, origins []string) http.Handler {
	inner := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.server }, &sdk.StreamableHTTPOptions{
		Logger: s.deps.Log, SessionTimeout: sessionTimeout,
		// The SDK's check of the Host header protects servers without a token from DNS rebinding. With a token, any host
		// name is fine.
		DisableLocalhostProtection: token != "",
	})
	wanted := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); origin != "" && !ownOrigin(origin) && !slices.Contains(origins, origin) {
			http.Error(w, "requests from pages of "+origin+" are not allowed", http.StatusForbidden)
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

// Loopback reports whether a host is localhost or a loopback address.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
