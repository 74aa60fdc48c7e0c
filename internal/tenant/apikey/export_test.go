package apikey

import "github.com/stagedoor/stagedoor/internal/base/id"

// Exports for tests: the form of keys, and how limits are parsed and narrowed.
var (
	ParseToken          = func(text string) error { _, err := parseToken(text); return err }
	NewToken            = newToken
	ParseStored         = parseStored
	ParseStoredNetworks = parseStoredNetworks
	Narrow              = func(a *Allow, methods []string, accounts []id.Account) (Allow, error) {
		return a.narrow(methods, accounts, nil)
	}
)

func (s *Keys) Deps() *Deps { return &s.deps }
