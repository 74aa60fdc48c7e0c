package apikey

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey/internal/db"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Principal is the identity of a caller: a key with its org, as read at one moment. It is immutable and shared between
// requests.
type Principal struct {
	Key    Key
	Scopes scope.Set
	Org    org.Org

	hash     hash
	loadedAt time.Time
	// unknown means that no such key exists. Unknown keys are cached like others.
	unknown bool
}

const (
	// maxAge bounds how long a cached identity is used. Changes normally take effect earlier, through the epoch; the
	// age is the bound for when the epoch cannot be read. maxAgeDegraded replaces it if Redis failed recently.
	maxAge         = 30 * time.Second
	maxAgeDegraded = 10 * time.Second
	maxCachedKeys  = 1_000_000

	// lastUsedInterval is the least time between two writes of a key's last use.
	lastUsedInterval = time.Minute

	// cacheTTL is how long an identity stays in the cache after it was read. It is longer than maxAge so that a source
	// that sends many unknown keys can still use a key that is known to exist (see Guess).
	cacheTTL = 10 * time.Minute
	// readTimeout bounds one read of the database. queueTimeout bounds the wait for a turn to read: a node that has
	// just started has an empty cache, and all of its first callers read at the same time.
	readTimeout  = 3 * time.Second
	queueTimeout = 10 * time.Second
)

// identityCache is a node's memory of keys.
type identityCache struct {
	keys cache.Cache[hash, *Principal]
	// minEpoch is the lowest epoch per org that is still current. Entries outlive every identity read before them.
	minEpoch cache.Cache[id.Org, int64]
	loading  *singleflight.Group
	// distrustBefore is a time in Unix nanoseconds. An identity read before it must be read again.
	distrustBefore *atomic.Int64
}

func newIdentityCache() identityCache {
	return identityCache{
		keys:           cache.NewFor[hash, *Principal](maxCachedKeys, cacheTTL),
		minEpoch:       cache.NewFor[id.Org, int64](maxCachedKeys, 2*maxAge),
		loading:        &singleflight.Group{},
		distrustBefore: &atomic.Int64{},
	}
}

// Verify returns the identity of the caller with this token. It may be up to 30 seconds old: before a call acts it must
// be admitted (package admission), and if admission reports the identity stale, the caller must use Refresh.
//
// source is the network that the call comes from. Unknown keys from a source that has sent many of them are refused
// without a database read.
func (s *Keys) Verify(ctx context.Context, token, source string) (*Principal, error) {
	h, err := parseToken(token)
	if err != nil {
		return nil, problem.KeyInvalid.New("This is not an API key of this service. Check that all of it was copied.")
	}
	p, ok := s.cached.keys.Get(h)
	// A cached suspension is always read again. A refused call does not reach admission, so no epoch would reveal that
	// the suspension has ended.
	if !ok || !s.isFresh(p) || p.Org.SuspendedAt != nil {
		if p, err = s.lookUp(ctx, h, source); err != nil {
			return nil, err
		}
	}
	return p, s.checkUsable(p)
}

// lookUp reads the identity of a key that a source has sent. It limits the concurrent reads of each source, so that one
// source cannot occupy all database connections.
func (s *Keys) lookUp(ctx context.Context, h hash, source string) (*Principal, error) {
	release, err := s.lookups.acquire(ctx, source)
	if err != nil {
		return nil, err
	}
	defer release()
	p, ok := s.cached.keys.Get(h) // another request may have read it while this one waited
	if ok && !p.unknown && s.isFresh(p) && p.Org.SuspendedAt == nil {
		return p, nil
	}
	if !ok || p.unknown {
		if err := s.Guess(source); err != nil {
			return nil, err
		}
	}
	if p, err = s.loadShared(ctx, h); err == nil && p.unknown {
		s.Missed(source)
	}
	return p, err
}

// ReadAt returns when the identity was read from the database.
func (p *Principal) ReadAt() time.Time { return p.loadedAt }

// Refresh reads an identity again, bypassing the cache. The read of the returned identity started at or after since.
// With the problem org-suspended it returns the identity as well.
func (s *Keys) Refresh(ctx context.Context, p *Principal, since time.Time) (*Principal, error) {
	for {
		// loadShared may join a read that started before since. The next one starts after it.
		fresh, err := s.loadShared(ctx, p.hash)
		if err != nil {
			return nil, err
		}
		if !fresh.loadedAt.Before(since) {
			return fresh, s.checkUsable(fresh)
		}
	}
}

// isFresh reports whether a cached identity may still be used.
func (s *Keys) isFresh(p *Principal) bool {
	age := s.deps.Now().Sub(p.loadedAt)
	if age > maxAge || p.loadedAt.UnixNano() < s.cached.distrustBefore.Load() {
		return false
	}
	// Trouble up to maxAge before the read counts too: a revocation announced then may have been lost.
	if age > maxAgeDegraded && !s.deps.Troubled().Before(p.loadedAt.Add(-maxAge)) {
		return false
	}
	minEpoch, ok := s.cached.minEpoch.Get(p.Org.ID)
	return !ok || p.Org.Epoch >= minEpoch
}

// loadShared reads an identity once for all callers that wait for it concurrently.
func (s *Keys) loadShared(ctx context.Context, h hash) (*Principal, error) {
	v, err, _ := s.cached.loading.Do(string(h[:]), func() (any, error) {
		// Other callers wait for the result too, so the cancellation of the first one must not fail it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queueTimeout+readTimeout)
		defer cancel()
		return s.readIdentity(ctx, h)
	})
	if err != nil {
		return nil, err
	}
	return v.(*Principal), nil
}

// readIdentity reads the key and its org in one snapshot and caches them. Read separately, an old key could be paired
// with a new epoch, and no admission would ever find it stale.
func (s *Keys) readIdentity(ctx context.Context, h hash) (*Principal, error) {
	p := &Principal{hash: h, loadedAt: s.deps.Now()}
	err := s.deps.DB.SnapshotWithin(ctx, readTimeout, func(ctx context.Context, tx postgres.Tx) error {
		row, err := db.New(tx).ByHash(ctx, h[:])
		if errors.Is(err, postgres.ErrNoRows) {
			p.unknown = true
			return nil
		}
		if err != nil {
			return err
		}
		p.Key = fromRow(row)
		p.Scopes = p.Key.Scopes
		p.Org, err = s.deps.Orgs.GetIn(ctx, tx, row.OrgID)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.cached.keys.Put(h, p)
	s.recordUse(ctx, p)
	return p, nil
}

// recordUse writes when a key was used, at most once a minute. It runs only when the identity is read from the
// database, which happens every 30 seconds for a key in use, so calls served from the cache cost nothing extra.
func (s *Keys) recordUse(ctx context.Context, p *Principal) {
	if last := p.Key.LastUsedAt; p.Key.Kind != KindSecret || s.checkUsable(p) != nil || last != nil && p.loadedAt.Sub(*last) < lastUsedInterval {
		return
	}
	// A failure must not fail the call; the next read tries again.
	_ = setLastUsed(ctx, s.deps.DB, p.Org.ID, p.Key.ID, p.loadedAt)
}

// checkUsable returns the problem that keeps an identity from calling, or nil.
func (s *Keys) checkUsable(p *Principal) error {
	switch {
	case p.Key.Kind == KindSession && s.hasEnded(p):
		return signedOut()
	case p.unknown:
		return problem.KeyInvalid.New("This key does not exist. It may belong to another environment or installation.")
	case p.Key.RevokedAt != nil:
		return problem.KeyRevoked.Newf("The key %s was revoked at %s.", p.Key.ID, stamp.Text(*p.Key.RevokedAt))
	case p.Key.ExpiresAt != nil && !s.deps.Now().Before(*p.Key.ExpiresAt):
		return problem.KeyExpired.Newf("The key %s expired at %s.", p.Key.ID, stamp.Text(*p.Key.ExpiresAt))
	}
	return p.Org.Refusal()
}

// Heard handles the announcement of an org's new epoch: identities with an older epoch are read again.
func (s *Keys) Heard(org id.Org, epoch int64) {
	s.cached.minEpoch.Change(org, func(old int64, found bool) (int64, cache.Outcome) {
		if found && old >= epoch {
			return old, cache.Keep
		}
		return epoch, cache.Replace
	})
}

// Distrust makes every cached identity be read again. Call it when announcements may have been missed.
func (s *Keys) Distrust() { s.cached.distrustBefore.Store(s.deps.Now().UnixNano()) }

func itoa(n int) string { return strconv.Itoa(n) }
