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
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
)

const (
	tokenPrefix = "sdt_"
	tokenBytes  = 32
	// tokenFor is how long a token can be used, once. It goes to a browser, which opens its stream at once.
	tokenFor = 60 * time.Second
	// forgetEvery is how often tokens are thrown away that nobody used.
	forgetEvery = 5 * time.Minute
)

// Token makes a token for one stream of an account. It stands for the key: what ends that ends its streams.
func (h *Streams) Token(ctx context.Context, p *apikey.Principal, account id.Account) (secret.String, time.Time, error) {
	var noise [tokenBytes]byte
	if _, err := rand.Read(noise[:]); err != nil {
		return secret.String{}, time.Time{}, fmt.Errorf("make a token: %w", err)
	}
	text := tokenPrefix + base64.RawURLEncoding.EncodeToString(noise[:])
	expires := h.Now().Add(tokenFor).Truncate(time.Millisecond)
	hash := sha256.Sum256([]byte(text))
	if err := saveToken(ctx, h.DB, hash[:], token{p.Org.ID, account, p.Key.ID, expires}); err != nil {
		return secret.String{}, time.Time{}, err
	}
	return secret.New(text), expires, nil
}

// Redeem finds out whose token it is, and makes it worthless. source is where the request comes from.
func (h *Streams) Redeem(ctx context.Context, text string, account id.Account, source string) (*apikey.Principal, error) {
	if !soundToken(text) {
		return nil, badToken()
	}
	if err := h.Keys.Guess(source); err != nil {
		return nil, err
	}
	hash := sha256.Sum256([]byte(text))
	t, found, err := takeToken(ctx, h.DB, hash[:], account, h.Now())
	if err != nil {
		return nil, err
	}
	if !found {
		h.Keys.Missed(source)
		return nil, badToken()
	}
	return h.Keys.Holder(ctx, t.org, t.key)
}

func soundToken(text string) bool {
	rest, ok := strings.CutPrefix(text, tokenPrefix)
	if !ok || len(rest) != base64.RawURLEncoding.EncodedLen(tokenBytes) {
		return false
	}
	_, err := base64.RawURLEncoding.DecodeString(rest)
	return err == nil
}

func badToken() error {
	return problem.KeyInvalid.New("The token is not one for this account, was used before, or is older than 60 seconds. Make a new one for every stream.")
}

// forgetTokens throws away what nobody used, when it is time to.
func (h *Streams) forgetTokens(ctx context.Context) {
	now := h.Now()
	if h.DB == nil || now.Sub(h.forgotten) < forgetEvery {
		return
	}
	h.forgotten = now
	ctx, cancel := context.WithTimeout(ctx, readAtMost)
	defer cancel()
	if err := forgetTokens(ctx, h.DB, now); err != nil {
		h.Log.WarnContext(ctx, "tokens of streams not tidied up", slog.Any("error", err))
	}
}
