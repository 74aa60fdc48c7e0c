// Package apikey owns API keys: who is calling, with which scopes and limits, and until when. It also owns the hidden
// keys by which signed-in browsers act in an org (session.go); package member decides which browsers get one.
//
// Start with Verify (verify.go). It answers from memory, so a revoked key can still pass it: package admission compares
// the org's epoch on every call and detects an outdated identity, and the caller then calls Refresh. Only the hash of a
// key is stored; Mint and Issue return the key itself once.
package apikey

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/ratelimit"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey/internal/db"
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
	// LastUsedAt is accurate to two minutes; nil if the key was never used.
	LastUsedAt *time.Time
	// Session and Person identify the browser of a session key and its user. They are empty for secret keys, and Person
	// also for an operator's browser.
	Session id.BrowserSession
	Person  id.Person
	// ReplacedBy is the key that replaced this one in a rotation; empty if none did.
	ReplacedBy id.Key
	// MintedBy is the person who created it, directly or through other keys; empty for keys of operators.
	MintedBy id.Person
}

// Draft holds the fields of a key to be created.
type Draft struct {
	Label string
	// Scopes nil means scope.Everyday.
	Scopes    []string
	ExpiresAt *time.Time
	// Methods are patterns of the methods that the key may call; nil adds no limit.
	Methods []string
	// Accounts are the accounts that the key may use; nil adds no limit. The caller has checked that they belong to the
	// org.
	Accounts []id.Account
	// Networks are those from which the key may be used, in CIDR notation; nil adds no limit.
	Networks []string
}

// Deps are the dependencies of Keys.
type Deps struct {
	DB    *postgres.DB
	Orgs  *org.Orgs
	Audit *audit.Log
	// Outbox takes the events about new and revoked keys for the org's stream.
	Outbox *outbox.Outbox
	// Troubled returns when an announcement of a revocation may last have been lost. *admission.Limiter provides it.
	Troubled func() time.Time
	Now      func() time.Time
}

// Keys creates, verifies and revokes keys. Its methods are safe for concurrent use.
type Keys struct {
	deps    Deps
	cached  identityCache
	misses  ratelimit.Pace
	lookups lookupLimiter
}

// New returns a Keys with an empty cache.
func New(d Deps) *Keys {
	return &Keys{deps: d, cached: newIdentityCache(), misses: ratelimit.New(missesPerMinute, time.Minute, d.Now)}
}

// MaxLabel is the maximum length of a label, in characters.
const MaxLabel = 120

// Mint creates a key in the caller's org and returns it with its secret, which is not stored. A key can never do
// anything that the key which minted it cannot.
func (s *Keys) Mint(ctx context.Context, caller *Principal, by audit.By, d Draft) (Key, secret.String, error) {
	g, err := resolveGrant(d, caller.Scopes, caller.Key.Allow)
	if err != nil {
		return Key{}, secret.String{}, err
	}
	g.mintedBy = minter(caller)
	var (
		key   Key
		plain secret.String
	)
	err = s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		// The lock on the org's row keeps concurrent mints from exceeding the plan's number of keys.
		o, err := s.deps.Orgs.Lock(ctx, tx, caller.Org.ID)
		if err != nil {
			return err
		}
		key, plain, err = s.issue(ctx, tx, o, by, d, g)
		return err
	})
	return key, plain, err
}

// minter returns the person for whom a caller creates a key.
func minter(caller *Principal) id.Person { return cmp.Or(caller.Key.Person, caller.Key.MintedBy) }

// Issue creates a key for an operator, in the caller's transaction. Its only bound is the everyday set of scopes.
func (s *Keys) Issue(ctx context.Context, tx postgres.Tx, o org.Org, by audit.By, d Draft) (Key, secret.String, error) {
	g, err := resolveGrant(d, scope.Everyday(), Allow{})
	if err != nil {
		return Key{}, secret.String{}, err
	}
	return s.issue(ctx, tx, o, by, d, g)
}

// Tool is a tool of a member.
type Tool struct {
	Person id.Person
	// Scopes are those of the member's role.
	Scopes scope.Set
	Label  string
}

// IssueTo creates a key for a tool in the caller's transaction. The caller has locked the org.
func (s *Keys) IssueTo(ctx context.Context, tx postgres.Tx, o org.Org, by audit.By, t Tool) (Key, secret.String, error) {
	return s.issue(ctx, tx, o, by, Draft{Label: t.Label}, grant{scopes: t.Scopes, mintedBy: t.Person})
}

// grant is what a new key may do.
type grant struct {
	scopes   scope.Set
	allow    Allow
	mintedBy id.Person
}

// resolveGrant checks the draft against what its creator holds, and returns what the new key may do.
func resolveGrant(d Draft, held scope.Set, within Allow) (grant, error) {
	scopes, err := resolveScopes(d.Scopes, held)
	if err != nil {
		return grant{}, err
	}
	allow, err := within.narrow(d.Methods, d.Accounts, d.Networks)
	return grant{scopes: scopes, allow: allow}, err
}

func (s *Keys) issue(ctx context.Context, tx postgres.Tx, o org.Org, by audit.By, d Draft, g grant) (Key, secret.String, error) {
	now := s.deps.Now().Truncate(time.Microsecond) // the database's resolution
	if err := validate(d, now); err != nil {
		return Key{}, secret.String{}, err
	}
	live, err := db.New(tx).CountLive(ctx, db.CountLiveParams{OrgID: o.ID, Now: &now})
	if err != nil {
		return Key{}, secret.String{}, err
	}
	if o.Limits.MaxKeys >= 0 && int(live.Current) >= o.Limits.MaxKeys {
		return Key{}, secret.String{}, problem.PlanRequired.Newf(
			"The organisation has %d keys, as many as its plan allows. Revoke one first.", live.Current).
			With("feature", "maxKeys").With("plan", o.Plan)
	}
	if d.ExpiresAt != nil {
		end := d.ExpiresAt.UTC().Truncate(time.Microsecond)
		d.ExpiresAt = &end
	}
	key, plain, err := s.create(ctx, tx, o, by, Key{
		Label: d.Label, Scopes: g.scopes, Allow: g.allow, CreatedAt: now, ExpiresAt: d.ExpiresAt, MintedBy: g.mintedBy,
	})
	if err != nil {
		return Key{}, secret.String{}, err
	}
	return key, plain, s.deps.Audit.Record(ctx, tx, o.ID, by, string(key.ID), mintChanges(key))
}

// create stores a new secret key with these rights and adds its event. It writes no audit entry.
func (s *Keys) create(ctx context.Context, tx postgres.Tx, o org.Org, by audit.By, key Key) (Key, secret.String, error) {
	plain, h, hint, err := newToken(o.Environment)
	if err != nil {
		return Key{}, secret.String{}, err
	}
	key.ID, key.Kind, key.Hint = id.New[id.Key](), KindSecret, hint
	if err := insert(ctx, tx, o.ID, key, h); err != nil {
		return Key{}, secret.String{}, err
	}
	created := contract.KeyCreated{ID: key.ID, Label: key.Label, Scopes: key.Scopes.Names(), By: by.Actor()}
	return key, plain, s.deps.Outbox.Add(ctx, tx, outbox.Event{Org: o.ID, Data: created})
}

// mintChanges returns the audit log's record of a new key.
func mintChanges(key Key) audit.Changes {
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
	if key.Allow.Networks != nil {
		changes["allowedIps"] = audit.Change{To: networkTexts(key.Allow.Networks)}
	}
	return changes
}

// List reads all secret keys of an org, including revoked ones and not including browsers' keys, oldest first.
func (s *Keys) List(ctx context.Context, org id.Org) ([]Key, error) {
	rows, err := db.New(s.deps.DB).List(ctx, org)
	return postgres.Convert(rows, fromRow), err
}

// Revoke revokes a key of the caller's org. Every node rejects calls with that key that start after Revoke has
// returned, as far as Orgs.AdvanceEpoch guarantees. Revoking a key again changes nothing.
func (s *Keys) Revoke(ctx context.Context, caller *Principal, by audit.By, keyID string) error {
	key, err := id.Parse[id.Key](keyID)
	if err != nil {
		return notFound()
	}
	if key == caller.Key.ID {
		return problem.KeySelfRevoke.New("A key cannot revoke itself. This prevents an accidental lockout.")
	}
	owner := caller.Org.ID
	var committed func(context.Context)
	err = s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		committed = nil // the transaction may be repeated
		label, err := s.revokeOne(ctx, tx, by, owner, key)
		if errors.Is(err, errUnchanged) {
			return nil // already revoked
		}
		if err != nil {
			return err
		}
		if committed, err = s.deps.Orgs.AdvanceEpoch(ctx, tx, owner); err != nil {
			return err
		}
		return s.deps.Audit.Record(ctx, tx, owner, by, string(key), audit.Changes{
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

// revokeOne revokes a key, adds its event, and returns its label. It returns errUnchanged if the key was revoked already.
func (s *Keys) revokeOne(ctx context.Context, tx postgres.Tx, by audit.By, owner id.Org, key id.Key) (string, error) {
	label, err := revoke(ctx, tx, owner, key, s.deps.Now())
	if err != nil {
		return "", err
	}
	revoked := contract.KeyRevoked{ID: key, Label: label, By: by.Actor()}
	return label, s.deps.Outbox.Add(ctx, tx, outbox.Event{Org: owner, Data: revoked})
}

// resolveScopes parses the scopes of a new key, or takes the default set if names is nil, and checks that the creator
// holds all of them.
func resolveScopes(names []string, held scope.Set) (scope.Set, error) {
	set := scope.Everyday()
	if names != nil {
		var err error
		if set, err = parseScopes(names, "leave it out for the default set"); err != nil {
			return 0, err
		}
	}
	if lacking := set.Without(held).Names(); len(lacking) > 0 {
		detail := "The calling key does not hold " + strings.Join(lacking, ", ") + ", so it cannot give it to another key."
		if names == nil {
			detail += " A request without scopes asks for the default set; name the scopes that you need."
		}
		return 0, problem.ScopeEscalation.New(detail).With("missingScope", lacking[0])
	}
	return set, nil
}

// parseScopes parses names of scopes. omitting says what happens if the caller names none.
func parseScopes(names []string, omitting string) (scope.Set, error) {
	var set scope.Set
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
	if len(names) == 0 {
		bad.At("/scopes", "minItems", "must name at least one scope; "+omitting)
	}
	if len(bad.Fields) > 0 {
		return 0, bad
	}
	return set, nil
}

func validate(d Draft, now time.Time) error {
	bad := problem.ValidationFailed.New("The key has values that are not allowed.")
	if n := utf8.RuneCountInString(d.Label); strings.TrimSpace(d.Label) == "" || n > MaxLabel {
		bad.At("/label", "length", "must have 1 to 120 characters")
	} else if strings.ContainsFunc(d.Label, unicode.IsControl) {
		bad.At("/label", "character", "must not contain control characters")
	}
	if d.ExpiresAt != nil && !d.ExpiresAt.After(now) {
		bad.At("/expiresAt", "future", "must be in the future")
	}
	if d.ExpiresAt != nil && d.ExpiresAt.UTC().Year() > 9999 {
		bad.At("/expiresAt", "format", "must be before the year 10000")
	}
	if len(bad.Fields) > 0 {
		return bad
	}
	return nil
}

func notFound() error { return problem.KeyNotFound.New("The organisation has no key with this id.") }
