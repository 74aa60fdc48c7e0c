package stream

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
)

const (
	tokenPrefix = "sdt_"
	tokenBytes  = 32
	// tokenTTL is how long a token can be redeemed. A browser redeems it immediately.
	tokenTTL = 60 * time.Second
	// deleteEvery is how often expired tokens are deleted.
	deleteEvery = 5 * time.Minute
)

// Token creates a token for one stream of an account. It acts for the key p: what ends the key ends the stream.
func (h *Streams) Token(ctx context.Context, p *apikey.Principal, account id.Account) (secret.String, time.Time, error) {
	var noise [tokenBytes]byte
	if _, err := rand.Read(noise[:]); err != nil {
		return secret.String{}, time.Time{}, fmt.Errorf("create a token: %w", err)
	}
	text := tokenPrefix + base64.RawURLEncoding.EncodeToString(noise[:])
	expires := h.deps.Now().Add(tokenTTL).Truncate(time.Millisecond)
	hash := sha256.Sum256([]byte(text))
	if err := saveToken(ctx, h.deps.DB, hash[:], token{p.Org.ID, account, p.Key.ID, expires}); err != nil {
		return secret.String{}, time.Time{}, err
	}
	return secret.New(text), expires, nil
}

// Redeem returns the holder of a token and invalidates the token. source identifies the client, to limit guesses.
func (h *Streams) Redeem(ctx context.Context, text string, account id.Account, source string) (*apikey.Principal, error) {
	if !isWellFormed(text) {
		return nil, badToken()
	}
	if err := h.deps.Keys.Guess(source); err != nil {
		return nil, err
	}
	hash := sha256.Sum256([]byte(text))
	t, found, err := redeemToken(ctx, h.deps.DB, hash[:], account, h.deps.Now())
	if err != nil {
		return nil, err
	}
	if !found {
		h.deps.Keys.Missed(source)
		return nil, badToken()
	}
	return h.deps.Keys.Holder(ctx, t.org, t.key)
}

func isWellFormed(text string) bool {
	rest, ok := strings.CutPrefix(text, tokenPrefix)
	if !ok || len(rest) != base64.RawURLEncoding.EncodedLen(tokenBytes) {
		return false
	}
	_, err := base64.RawURLEncoding.DecodeString(rest)
	return err == nil
}

func badToken() error {
	return problem.KeyInvalid.New(
		"The token is for another account, was already used, or is older than 60 seconds. Make a new one for every stream.")
}

// deleteExpiredTokens deletes expired tokens, at most once per deleteEvery.
func (h *Streams) deleteExpiredTokens(ctx context.Context) {
	now := h.deps.Now()
	if h.deps.DB == nil || now.Sub(h.tokensDeletedAt) < deleteEvery {
		return
	}
	h.tokensDeletedAt = now
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := deleteExpiredTokens(ctx, h.deps.DB, now); err != nil {
		h.deps.Log.WarnContext(ctx, "cannot delete expired stream tokens", slog.Any(logkey.Error, err))
	}
}
