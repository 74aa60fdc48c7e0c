package endpoint

import (
	"net/http"
	"net/netip"

	"github.com/stagedoor/stagedoor/internal/server/endpoint/origin"
)

// SourceOf makes the function that finds where a request comes from, behind proxies that are trusted.
func SourceOf(trusted []netip.Prefix) func(*http.Request) string { return origin.SourceOf(trusted) }
