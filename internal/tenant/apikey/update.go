package apikey

import (
	"context"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey/internal/db"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Patch holds the changes to a key. A nil field changes nothing.
type Patch struct {
	Label *string
	// Scopes must be some of those that the key has.
	Scopes []string
	// Methods, Accounts and Networks replace the limits of the key; a pointer to nil removes the limit. They are added to
	// the limits of the caller, as if it minted the key.
	Methods  *[]string
	Accounts *[]id.Account
	Networks *[]string
	// ExpiresAt points to nil for a key that is not to expire.
	ExpiresAt **time.Time
}

// Update changes a key of the caller's org. Every node applies the change to calls that start after Update has returned,
// as far as Orgs.AdvanceEpoch guarantees. The caller gains no rights by it that it could not give to a new key.
func (s *Keys) Update(ctx context.Context, caller *Principal, by audit.By, keyID string, p Patch) (Key, error) {
	var next Key
	err := s.change(ctx, caller, keyID, func(tx postgres.Tx, _ org.Org, old Key) (bool, error) {
		var err error
		if next, err = p.apply(old, caller, s.deps.Now()); err != nil {
			return false, err
		}
		changes := patchChanges(old, next)
		if len(changes) == 0 {
			return false, nil
		}
		if err := update(ctx, tx, caller.Org.ID, next); err != nil {
			return false, err
		}
		return true, s.deps.Audit.Record(ctx, tx, caller.Org.ID, by, string(old.ID), changes)
	})
	return next, err
}

// change locks the org and a key that has not ended, and runs do with them in one transaction. If do reports a change, it
// advances the org's epoch.
func (s *Keys) change(ctx context.Context, caller *Principal, keyID string, do func(postgres.Tx, org.Org, Key) (bool, error)) error {
	key, err := id.Parse[id.Key](keyID)
	if err != nil {
		return notFound()
	}
	owner := caller.Org.ID
	var committed func(context.Context)
	err = s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		committed = nil // the transaction may be repeated
		o, err := s.deps.Orgs.Lock(ctx, tx, owner)
		if err != nil {
			return err
		}
		old, err := lock(ctx, tx, owner, key)
		if err != nil {
			return err
		}
		if old.RevokedAt != nil || old.ExpiresAt != nil && !s.deps.Now().Before(*old.ExpiresAt) {
			return problem.KeyEnded.Newf("The key %s was revoked or has expired.", old.ID)
		}
		changed, err := do(tx, o, old)
		if err != nil || !changed {
			return err
		}
		committed, err = s.deps.Orgs.AdvanceEpoch(ctx, tx, owner)
		return err
	})
	if err == nil && committed != nil {
		committed(ctx)
	}
	return err
}

// apply returns the key with the changes.
func (p Patch) apply(old Key, caller *Principal, now time.Time) (Key, error) {
	next, draft := old, Draft{Label: old.Label}
	if p.Label != nil {
		draft.Label = *p.Label
	}
	if p.ExpiresAt != nil {
		if draft.ExpiresAt = *p.ExpiresAt; draft.ExpiresAt != nil {
			end := draft.ExpiresAt.UTC().Truncate(time.Microsecond)
			draft.ExpiresAt = &end
		}
		next.ExpiresAt = draft.ExpiresAt
	}
	if err := validate(draft, now); err != nil {
		return Key{}, err
	}
	next.Label = draft.Label
	if p.Scopes != nil {
		var err error
		if next.Scopes, err = parseScopes(p.Scopes, "revoke a key that is to have none"); err != nil {
			return Key{}, err
		}
		if added := next.Scopes.Without(old.Scopes).Names(); len(added) > 0 {
			return Key{}, problem.ScopeEscalation.Newf("The key does not have %s. Scopes can only be taken away; create another key.", added[0]).
				With("missingScope", added[0])
		}
	}
	if err := p.limit(&next, &caller.Key.Allow); err != nil {
		return Key{}, err
	}
	if p.Methods == nil && p.Accounts == nil && p.Networks == nil && !isLater(next.ExpiresAt, old.ExpiresAt) {
		return next, nil // nothing was added
	}
	if err := requireRights(caller, next); err != nil {
		return Key{}, err
	}
	if isLater(next.ExpiresAt, old.ExpiresAt) && isLater(next.ExpiresAt, caller.Key.ExpiresAt) && caller.Key.Kind == KindSecret {
		return Key{}, problem.ScopeEscalation.New("The key would outlive the calling key. Use a key that ends later, or the dashboard.")
	}
	if next.ReplacedBy != "" && isLater(next.ExpiresAt, old.ExpiresAt) {
		return Key{}, replaced(next)
	}
	return next, nil
}

// limit sets the limits of a key to those of the caller and the patch.
func (p Patch) limit(next *Key, within *Allow) error {
	var (
		methods, networks []string
		accounts          []id.Account
	)
	if p.Methods != nil {
		methods = *p.Methods
	}
	if p.Accounts != nil {
		accounts = *p.Accounts
	}
	if p.Networks != nil {
		networks = *p.Networks
	}
	allow, err := within.narrow(methods, accounts, networks)
	if err != nil {
		return err
	}
	if p.Methods != nil {
		next.Allow.Methods = allow.Methods
	}
	if p.Accounts != nil {
		next.Allow.Accounts = allow.Accounts
	}
	if p.Networks != nil {
		next.Allow.Networks = allow.Networks
	}
	return nil
}

// requireRights returns the problem scope-escalation if a key has rights that the caller lacks.
func requireRights(caller *Principal, k Key) error {
	if lacking := k.Scopes.Without(caller.Scopes).Names(); len(lacking) > 0 {
		return problem.ScopeEscalation.Newf("The key has %s, which the calling key does not hold.", lacking[0]).With("missingScope", lacking[0])
	}
	if !caller.Key.Allow.covers(&k.Allow) {
		return problem.ScopeEscalation.New("The key may use methods, accounts or networks that the calling key may not.")
	}
	return nil
}

// isLater reports whether a key ends after another time; nil is never.
func isLater(end, than *time.Time) bool {
	return than != nil && (end == nil || end.After(*than))
}

// patchChanges returns the audit log's record of a change.
func patchChanges(old, next Key) audit.Changes {
	changes := audit.Changes{}
	changes.Note("label", old.Label, next.Label)
	if old.Scopes != next.Scopes {
		changes["scopes"] = audit.Change{From: old.Scopes.Names(), To: next.Scopes.Names()}
	}
	if !slices.EqualFunc(old.Allow.Methods, next.Allow.Methods, Patterns.equal) {
		changes["methods"] = audit.Change{From: lists(old), To: lists(next)}
	}
	if before, after := (&Allow{Accounts: old.Allow.Accounts}), (&Allow{Accounts: next.Allow.Accounts}); !before.Equal(after) {
		changes["accountIds"] = audit.Change{From: unlessNil(before.Accounts), To: unlessNil(after.Accounts)}
	}
	if before, after := (&Allow{Networks: old.Allow.Networks}), (&Allow{Networks: next.Allow.Networks}); !before.Equal(after) {
		changes["allowedIps"] = audit.Change{From: unlessNil(before.NetworkTexts()), To: unlessNil(after.NetworkTexts())}
	}
	if isLater(old.ExpiresAt, next.ExpiresAt) || isLater(next.ExpiresAt, old.ExpiresAt) {
		changes["expiresAt"] = audit.Change{From: unlessZero(old.ExpiresAt), To: unlessZero(next.ExpiresAt)}
	}
	return changes
}

// lists returns the patterns of a key, inherited ones first; nil if there are none.
func lists(k Key) any {
	own, inherited := k.Allow.Lists()
	if own == nil {
		return nil
	}
	return append(inherited, own)
}

func unlessNil[T any](list []T) any {
	if list == nil {
		return nil
	}
	return list
}

func unlessZero(at *time.Time) any {
	if at == nil {
		return nil
	}
	return at
}

// Rotated is the result of a rotation.
type Rotated struct {
	Key   Key
	Plain secret.String
	// Ends is when the old key ends.
	Ends time.Time
}

// Overlaps of a rotation.
const (
	DefaultOverlap = time.Hour
	MaxOverlap     = 24 * time.Hour
)

// Rotate creates a key with the rights of another one, which ends after the overlap. The caller must hold these rights,
// because it gets the new key.
func (s *Keys) Rotate(ctx context.Context, caller *Principal, by audit.By, keyID string, overlap time.Duration) (Rotated, error) {
	var made Rotated
	err := s.change(ctx, caller, keyID, func(tx postgres.Tx, o org.Org, old Key) (bool, error) {
		if old.ReplacedBy != "" {
			return false, replaced(old)
		}
		if err := requireRights(caller, old); err != nil {
			return false, err
		}
		now := s.deps.Now().Truncate(time.Microsecond)
		if err := s.checkRoomToRotate(ctx, tx, o, now); err != nil {
			return false, err
		}
		var err error
		made.Key, made.Plain, err = s.create(ctx, tx, o, by, Key{
			Label: old.Label, Scopes: old.Scopes, Allow: old.Allow, CreatedAt: now, ExpiresAt: old.ExpiresAt, MintedBy: minter(caller),
		})
		if err != nil {
			return false, err
		}
		if made.Ends, err = s.retire(ctx, tx, by, o.ID, retirement{old, made.Key.ID, overlap, now}); err != nil {
			return false, err
		}
		return true, s.deps.Audit.Record(ctx, tx, o.ID, by, string(old.ID), audit.Changes{
			"label": {To: old.Label}, "replacedBy": {To: made.Key.ID}, "expiresAt": {From: unlessZero(old.ExpiresAt), To: made.Ends},
		})
	})
	return made, err
}

// checkRoomToRotate bounds how many replaced keys of an org can overlap with their successors.
func (s *Keys) checkRoomToRotate(ctx context.Context, tx postgres.Tx, o org.Org, now time.Time) error {
	live, err := db.New(tx).CountLive(ctx, db.CountLiveParams{OrgID: o.ID, Now: &now})
	if err != nil || o.Limits.MaxKeys < 0 || int(live.Replaced) < max(1, o.Limits.MaxKeys) {
		return err
	}
	return problem.PlanRequired.Newf("%d keys that were replaced have not ended yet. Revoke one, or wait until one ends.", live.Replaced).
		With("feature", "maxKeys").With("plan", o.Plan)
}

// retirement is the end of a key that was replaced.
type retirement struct {
	old       Key
	successor id.Key
	overlap   time.Duration
	now       time.Time
}

// retire ends a key that was replaced after the overlap, and returns when. Without an overlap it revokes the key.
func (s *Keys) retire(ctx context.Context, tx postgres.Tx, by audit.By, owner id.Org, r retirement) (time.Time, error) {
	end, err := db.New(tx).Replace(ctx, db.ReplaceParams{
		OrgID: owner, ID: r.old.ID, ReplacedBy: r.successor, OverlapSec: int32(r.overlap / time.Second), //nolint:gosec // at most MaxOverlap
	})
	if err != nil || r.overlap > 0 {
		if end == nil {
			end = &r.now
		}
		return end.UTC(), err
	}
	if _, err := revoke(ctx, tx, owner, r.old.ID, r.now); err != nil {
		return time.Time{}, err
	}
	revoked := contract.KeyRevoked{ID: r.old.ID, Label: r.old.Label, By: by.Actor()}
	return r.now, s.deps.Outbox.Add(ctx, tx, outbox.Event{Org: owner, Data: revoked})
}

func replaced(k Key) error {
	return problem.KeyEnded.Newf("The key %s was replaced by %s and is about to end.", k.ID, k.ReplacedBy).With("replacedBy", string(k.ReplacedBy))
}
