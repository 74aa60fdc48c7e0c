package admin

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// Operators exports operators for tests.
type Operators struct{ *operators }

// NewOperators returns an authenticator for a token.
func NewOperators(token secret.String, now func() time.Time) Operators {
	return Operators{newOperators(token, now)}
}

// Guessing reports whether tokens of a source are refused.
func (o Operators) Guessing(source string) bool { return o.guessing(source) }

// Missed records a wrong token from a source.
func (o Operators) Missed(source string) { o.missed(source) }
