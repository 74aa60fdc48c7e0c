package link

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// deriver derives keys that are the same on all nodes; implemented by *seal.Sealer.
type deriver interface {
	Derive(ctx context.Context, purpose string) ([]byte, error)
}

// Links makes and reads the tokens with which a creator manages a connection or connects an account again. Tokens are
// not stored: a token contains the ids of the org and the account, and a keyed hash of both.
type Links struct{ keys deriver }

// NewLinks returns a Links with the keys of keys.
func NewLinks(keys deriver) *Links { return &Links{keys} }

const (
	managePrefix  = "mng_"
	managePurpose = "creator manage link"
	// idLength is the length of an id without its prefix, in bytes.
	idLength = 26
)

// Make returns the manage token of an account. It is always the same.
func (l *Links) Make(ctx context.Context, org id.Org, account id.Account) (secret.String, error) {
	sum, err := l.hash(ctx, managePurpose, string(org)+" "+string(account))
	if err != nil {
		return secret.String{}, err
	}
	return secret.New(managePrefix + tokenIDs(org, account) + base64.RawURLEncoding.EncodeToString(sum)), nil
}

func tokenIDs(org id.Org, account id.Account) string {
	return strings.TrimPrefix(string(org), "org_") + strings.TrimPrefix(string(account), "acct_")
}

// Read returns the org and account of a manage token. A token that we did not make is not found.
func (l *Links) Read(ctx context.Context, token string) (id.Org, id.Account, error) {
	org, account, given, err := parseToken(token, managePrefix)
	if err != nil {
		return "", "", err
	}
	sum, err := l.hash(ctx, managePurpose, string(org)+" "+string(account))
	if err != nil {
		return "", "", err
	}
	if !hmac.Equal(sum, given) {
		return "", "", noLink()
	}
	return org, account, nil
}

// parseToken splits a token into its ids and the bytes at its end. It does not verify the hash.
func parseToken(token, prefix string) (id.Org, id.Account, []byte, error) {
	rest, ok := strings.CutPrefix(token, prefix)
	if !ok || len(rest) <= 2*idLength {
		return "", "", nil, noLink()
	}
	org, bad := id.Parse[id.Org]("org_" + rest[:idLength])
	account, worse := id.Parse[id.Account]("acct_" + rest[idLength:2*idLength])
	given, unreadable := base64.RawURLEncoding.Strict().DecodeString(rest[2*idLength:])
	if errors.Join(bad, worse, unreadable) != nil {
		return "", "", nil, noLink()
	}
	return org, account, given, nil
}

func (l *Links) hash(ctx context.Context, purpose, text string) ([]byte, error) {
	return keyedHash(ctx, l.keys, purpose, text)
}

func keyedHash(ctx context.Context, keys deriver, purpose, text string) ([]byte, error) {
	key, err := keys.Derive(ctx, purpose)
	if err != nil {
		return nil, fmt.Errorf("derive a key for %s: %w", purpose, err)
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil), nil
}

func noLink() error { return problem.AccountNotFound.New("There is no account with this link.") }
