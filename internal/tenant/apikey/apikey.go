// Package apikey owns API keys: who is calling, with which scopes, and until when.
//
// Verify (verify.go) answers from memory; that a key has been revoked is noticed by the epoch which every admission
// returns (package limit). Only the hash of a key is stored, and the key itself is returned once, by Mint.
package apikey

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/ratelimit"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Key is an API key without its secret.
type Key struct {
	ID        id.Key
	Kind      Kind
	Label     string
	Hint      string
	Scopes    scope.Set
	Allow     Allow
	CreatedAt time.Time
	ExpiresAt *time.Time
	RevokedAt *time.Time
	// LastUsedAt is within two minutes of the last call; nil if there was none.
	LastUsedAt *time.Time
	// Session and Person are whose browser a session's key is; empty for others. An operator's browser has no person.
	Session id.BrowserSession
	Person  id.Person
}

// Draft is what a new key is made from. Scopes nil means the everyday set.
type Draft struct {
	Label     string
	Scopes    []string
	ExpiresAt *time.Time
	// Methods are patterns of what the key may call; nil limits nothing.
	Methods []string
	// Accounts are what the key may use, all of them its org's; nil limits nothing.
	Accounts []id.Account
}

// Deps is what the service needs.
type Deps struct {
	DB    *postgres.DB
	Orgs  *org.Orgs
	Audit *audit.Log
	// Outbox tells the org's stream of new keys and of revocations.
	Outbox *outbox.Outbox
	// Troubled is when the news of a revocation last may not have come through; *admission.Limiter has it.
	Troubled func() time.Time
	Now      func() time.Time
}

// Keys is the service.
type Keys struct {
	Deps
	known  known
	misses ratelimit.Pace
	turns  turns
}

// New makes the service.
func New(d Deps) *Keys {
	return &Keys{Deps: d, known: newKnown(), misses: ratelimit.New(missesPerMinute, time.Minute, d.Now)}
}

// MaxLabel bounds a label, in characters.
const MaxLabel = 120

// Mint makes a key in the caller's org. It can never do anything that the caller cannot.
func (s *Keys) Mint(ctx context.Context, caller *Principal, by audit.By, d Draft) (Key, secret.String, error) {
	may, err := wanted(d, caller.Scopes, caller.Key.Allow)
	if err != nil {
		return Key{}, secret.String{}, err
	}
	var (
		key   Key
		plain secret.String
	)
	err = s.DB.Tx(ctx, func(tx postgres.Tx) error {
		// Locks the org's row, so that two mints at once cannot both be the last one allowed.
		o, err := s.Orgs.Lock(ctx, tx, caller.Org.ID)
		if err != nil {
			return err
		}
		key, plain, err = s.issue(ctx, tx, o, by, d, may)
		return err
	})
	return key, plain, err
}

// Issue makes a key for an operator, within the operator's transaction.
func (s *Keys) Issue(ctx context.Context, tx postgres.Tx, o org.Org, by audit.By, d Draft) (Key, secret.String, error) {
	may, err := wanted(d, scope.Everyday(), Allow{})
	if err != nil {
		return Key{}, secret.String{}, err
	}
	return s.issue(ctx, tx, o, by, d, may)
}

// powers are what a key may do.
type powers struct {
	scopes scope.Set
	allow  Allow
}

// wanted works out what a new key may do, which is never more than who makes it.
func wanted(d Draft, held scope.Set, within Allow) (powers, error) {
	scopes, err := wantedScopes(d.Scopes, held)
	if err != nil {
		return powers{}, err
	}
	allow, err := within.narrowed(d.Methods, d.Accounts)
	return powers{scopes, allow}, err
}

func (s *Keys) issue(ctx context.Context, tx postgres.Tx, o org.Org, by audit.By, d Draft, may powers) (Key, secret.String, error) {
	now := s.Now().Truncate(time.Microsecond) // what the database keeps
	if err := validate(d, now); err != nil {
		return Key{}, secret.String{}, err
	}
	live, err := countLive(ctx, tx, o.ID, now)
	if err != nil {
		return Key{}, secret.String{}, err
	}
	if o.Limits.MaxKeys >= 0 && live >= o.Limits.MaxKeys {
		return Key{}, secret.String{}, problem.PlanRequired.Newf(
			"The organisation has %d keys, as many as its plan allows. Revoke one first.", live).
			With("feature", "maxKeys").With("plan", o.Plan)
	}
	if d.ExpiresAt != nil {
		end := d.ExpiresAt.UTC().Truncate(time.Microsecond)
		d.ExpiresAt = &end
	}
	plain, h, hint, err := newToken(o.Environment)
	if err != nil {
		return Key{}, secret.String{}, err
	}
	key := Key{
		ID: id.New[id.Key](), Kind: KindSecret, Label: d.Label, Hint: hint, Scopes: may.scopes, Allow: may.allow, CreatedAt: now, ExpiresAt: d.ExpiresAt,
	}
	if err := insert(ctx, tx, o.ID, key, h); err != nil {
		return Key{}, secret.String{}, err
	}
	if err := s.tell(ctx, tx, o.ID, by, "key.created", news{ID: key.ID, Label: key.Label, Scopes: key.Scopes.Names()}); err != nil {
		return Key{}, secret.String{}, err
	}
	return key, plain, s.Audit.Record(ctx, tx, o.ID, by, string(key.ID), minted(key))
}

// minted is what the audit log says of a new key.
func minted(key Key) audit.Changes {
	changes := audit.Changes{"label": {To: key.Label}, "scopes": {To: key.Scopes.Names()}}
	if own, inherited := key.Allow.Lists(); own != nil {
		changes["methods"] = audit.Change{To: own}
		if inherited != nil {
			changes["inheritedMethods"] = audit.Change{To: inherited}
		}
	}
	if key.Allow.Accounts != nil {
		changes["accountIds"] = audit.Change{To: key.Allow.Accounts}
	}
	return changes
}

// List reads all keys of an org that were given to somebody, revoked ones too, in the order in which they were made.
func (s *Keys) List(ctx context.Context, org id.Org) ([]Key, error) {
	return list(ctx, s.DB.Pool(), org)
}

// Revoke ends a key. When it returns, no call that starts later succeeds with that key, on any node.
func (s *Keys) Revoke(ctx context.Context, caller *Principal, by audit.By, keyID string) error {
	key, err := id.Parse[id.Key](keyID)
	if err != nil {
		return notFound()
	}
	if key == caller.Key.ID {
		return problem.KeySelfRevoke.New("A key cannot revoke itself, so that nobody locks themselves out by mistake.")
	}
	owner := caller.Org.ID
	var committed func(context.Context)
	err = s.DB.Tx(ctx, func(tx postgres.Tx) error {
		label, err := revoke(ctx, tx, owner, key, s.Now())
		if errors.Is(err, errUnchanged) {
			return nil // revoked before; saying so again changes nothing
		}
		if err != nil {
			return err
		}
		if committed, err = s.Orgs.AdvanceEpoch(ctx, tx, owner); err != nil {
			return err
		}
		if err := s.tell(ctx, tx, owner, by, "key.revoked", news{ID: key, Label: label}); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, owner, by, string(key), audit.Changes{
			"label": {From: label}, "revoked": {From: false, To: true},
		})
	})
	if err != nil {
		return err
	}
	if committed != nil {
		committed(ctx)
	}
	return nil
}

// news is what an event tells of a key.
type news struct {
	ID     id.Key   `json:"id"`
	Label  string   `json:"label"`
	Scopes []string `json:"scopes,omitempty"`
	By     actor    `json:"by"`
}

type actor struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

// tell writes an event of the org's own.
func (s *Keys) tell(ctx context.Context, tx postgres.Tx, owner id.Org, by audit.By, kind string, n news) error {
	n.By = actor{string(by.Kind), by.ID}
	return s.Outbox.Add(ctx, tx, outbox.Event{Org: owner, Kind: kind, Data: n})
}

// wantedScopes works out the scopes of a new key.
func wantedScopes(names []string, held scope.Set) (scope.Set, error) {
	var set scope.Set
	if names == nil {
		set = scope.Everyday()
	}
	bad := problem.ValidationFailed.New("The key cannot have these scopes.")
	for i, name := range names {
		s, err := scope.Parse(name)
		switch {
		case errors.Is(err, scope.ErrInternal):
			return 0, problem.ScopeEscalation.New("Scopes that start with admin: are never given to customer keys.").With("missingScope", "admin:*")
		case err != nil:
			bad.At("/scopes/"+itoa(i), "enum", "must be one of "+strings.Join(scope.Everyday().Names(), ", "))
		default:
			set |= scope.Of(s)
		}
	}
	if names != nil && len(names) == 0 {
		bad.At("/scopes", "minItems", "must name at least one scope; leave it out for the default set")
	}
	if len(bad.Fields) > 0 {
		return 0, bad
	}
	if lacking := set.Without(held).Names(); len(lacking) > 0 {
		detail := "The calling key does not hold " + strings.Join(lacking, ", ") + ", so it cannot give it to another key."
		if names == nil {
			detail += " Without scopes in the request the default set is asked for; name the scopes that are needed."
		}
		return 0, problem.ScopeEscalation.New(detail).With("missingScope", lacking[0])
	}
	return set, nil
}

func validate(d Draft, now time.Time) error {
	bad := problem.ValidationFailed.New("The key has values that are not allowed.")
	if n := utf8.RuneCountInString(d.Label); strings.TrimSpace(d.Label) == "" || n > MaxLabel {
		bad.At("/label", "length", "must have 1 to 120 characters")
	} else if strings.ContainsFunc(d.Label, unicode.IsControl) {
		bad.At("/label", "character", "must not hold control characters")
	}
	if d.ExpiresAt != nil && !d.ExpiresAt.After(now) {
		bad.At("/expiresAt", "future", "must be in the future")
	}
	if len(bad.Fields) > 0 {
		return bad
	}
	return nil
}

func notFound() error { return problem.KeyNotFound.New("The organisation has no key with this id.") }
