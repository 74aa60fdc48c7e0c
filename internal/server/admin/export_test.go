package admin

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// Operators judges tokens.
type Operators struct{ *operators }

// NewOperators makes what judges tokens.
func NewOperators(token secret.String, now func() time.Time) Operators {
	return Operators{newOperators(token, now)}
}

// Guessing says whether the tokens of a source are not looked at.
func (o Operators) Guessing(source string) bool { return o.guessing(source) }

// Missed counts a wrong token of a source.
func (o Operators) Missed(source string) { o.missed(source) }
