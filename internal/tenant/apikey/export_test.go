package apikey

import "github.com/stagedoor/stagedoor/internal/base/id"

// What is not exported is open to tests: the form of keys, and how limits are read and narrowed.
var (
	ParseToken = func(text string) error { _, err := parseToken(text); return err }
	NewToken   = newToken
	Restored   = restored
	Narrowed   = func(a *Allow, methods []string, accounts []id.Account) (Allow, error) {
		return a.narrowed(methods, accounts)
	}
)
