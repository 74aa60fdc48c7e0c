package endpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
)

// ParseAccount parses an account id that a request contains.
func ParseAccount(text string) (id.Account, error) {
	at, err := id.Parse[id.Account](text)
	if err != nil {
		return "", AccountNotFound()
	}
	return at, nil
}

// AccountNotFound returns the problem for an unknown account id. It is the same for an account of another org and for a
// malformed id.
func AccountNotFound() error {
	return problem.AccountNotFound.New("The organisation has no account with this id.")
}

// AllowedAccount parses the id of an account that the caller's key may use.
func AllowedAccount(ctx context.Context, text string) (id.Account, error) {
	at, err := ParseAccount(text)
	if err != nil {
		return "", err
	}
	return at, MayUse(Caller(ctx), at)
}

// MayUse returns a problem if a key may not use an account. Check it before anything is looked up, so that the refusal
// does not reveal what exists. Operators (p is nil) may use all accounts.
func MayUse(p *apikey.Principal, account id.Account) error {
	if p == nil || p.Key.Allow.MayUse(account) {
		return nil
	}
	return problem.AccountNotAllowedForKey.New("This key may not use this account.")
}

// OnAccount adapts the handler of an operation on the account in its path.
func OnAccount[I, O any](handle func(ctx context.Context, at id.Account, in *I) (*O, error)) func(context.Context, *I) (*O, error) {
	return func(ctx context.Context, in *I) (*O, error) {
		at := From(ctx).Account
		if at == "" {
			return nil, AccountNotFound()
		}
		return handle(ctx, at, in)
	}
}

// InvalidCursor returns the problem for a cursor that is not from a response of this API.
func InvalidCursor(pointer string) error {
	return problem.InvalidRequest.New("The cursor is invalid.").At(pointer, "format", "must be the nextCursor of an earlier page")
}

// CheckTimes adds the times to a problem that not every part of the system can encode. times has them by pointer; those
// that are zero were omitted.
func CheckTimes(bad *problem.Error, times map[string]time.Time) {
	for _, pointer := range slices.Sorted(maps.Keys(times)) {
		at := times[pointer]
		if y := at.UTC().Year(); !at.IsZero() && (y < 2000 || y > 9999) {
			bad.At(pointer, "format", "must be a time between the years 2000 and 9999")
		}
	}
}

// IsName reports whether a text can be the name of a method, an operation or a platform, or an id. PostgreSQL would not
// accept every text.
func IsName(text string) bool {
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// CheckPeriod adds the query parameters since and until to a problem if CheckTimes rejects them, or if since is not
// before until. Both may be omitted.
func CheckPeriod(bad *problem.Error, since, until time.Time) {
	CheckTimes(bad, map[string]time.Time{"query/since": since, "query/until": until})
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		bad.At("query/since", "range", "must be before until")
	}
}

// NilIfEmpty returns nil for an empty text, for a member that is null if there is none.
func NilIfEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// WriteJSON writes the response of an operation that was added with Written.
func WriteJSON(w http.ResponseWriter, status int, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode response: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // The caller may have disconnected.
	return nil
}
