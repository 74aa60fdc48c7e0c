package operator

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// minToken is the least length of a token, in characters.
const minToken = 32

// Errors of ParseTokens. They do not contain the tokens.
var (
	errNoToken    = errors.New("there is no token: write at least one, such as the output of: openssl rand -hex 32")
	errShortToken = fmt.Errorf("a token is shorter than %d characters: generate one with openssl rand -hex 32", minToken)
)

// ParseTokens reads tokens that are separated by commas or line breaks. Lines that begin with # are comments.
func ParseTokens(text string) ([]secret.String, error) {
	var list []secret.String
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for one := range strings.SplitSeq(line, ",") {
			switch one = strings.TrimSpace(one); {
			case one == "":
			case len(one) < minToken:
				return nil, errShortToken
			default:
				list = append(list, secret.New(one))
			}
		}
	}
	if len(list) == 0 {
		return nil, errNoToken
	}
	return list, nil
}

// tokens returns the valid tokens.
func (o *Operators) tokens(ctx context.Context) ([]secret.String, error) {
	c := o.deps.Config
	if c.TokenFile == "" && c.Tokens.Empty() {
		return nil, nil
	}
	text, err := read(c.TokenFile, c.Tokens.Reveal())
	if err != nil {
		return nil, o.unreadable(ctx, err)
	}
	list, err := ParseTokens(text)
	if err != nil {
		return nil, o.unreadable(ctx, err)
	}
	return list, nil
}

// IsToken reports whether a text is one of the tokens. The time does not depend on which one, or on where they differ.
func (o *Operators) IsToken(ctx context.Context, given secret.String) (bool, error) {
	list, err := o.tokens(ctx)
	if err != nil {
		return false, err
	}
	have, match := hashOf(given), 0
	for _, one := range list {
		want := hashOf(one)
		match |= subtle.ConstantTimeCompare(have[:], want[:])
	}
	return match == 1, nil
}

// Program returns the operator that a program with a token is.
func Program() Operator { return Operator{ID: TokenID, Label: TokenID, Role: Owner} }

// fingerprint identifies a token in the row of a browser. It is not the hash that is compared when a token is sent.
func fingerprint(token secret.String) []byte {
	sum := sha256.Sum256([]byte("stagedoor operator's browser\x00" + token.Reveal()))
	return sum[:]
}

// hasToken reports whether a fingerprint is that of a valid token.
func (o *Operators) hasToken(ctx context.Context, print []byte) (bool, error) {
	list, err := o.tokens(ctx)
	if err != nil {
		return false, err
	}
	match := 0
	for _, one := range list {
		match |= subtle.ConstantTimeCompare(fingerprint(one), print)
	}
	return match == 1, nil
}
