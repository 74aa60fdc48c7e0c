package admin

import "time"

// Authenticator exports authenticator for tests.
type Authenticator struct{ *authenticator }

// NewAuthenticator returns an authenticator that only counts wrong tokens.
func NewAuthenticator(now func() time.Time) Authenticator {
	return Authenticator{newAuthenticator(nil, now)}
}

// Guessing reports whether tokens of a source are refused.
func (a Authenticator) Guessing(source string) bool { return a.guessing(source) }

// Missed records a wrong token from a source.
func (a Authenticator) Missed(source string) { a.missed(source) }
