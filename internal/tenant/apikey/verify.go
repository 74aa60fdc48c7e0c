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
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Principal is who calls. It is never changed in place; a newer one replaces it.
type Principal struct {
	Key    Key
	Scopes scope.Set
	Org    org.Org

	hash     hash
	loadedAt time.Time
	// unknown marks that there is no such key.
	unknown bool
}

// How old an identity in memory may be. What makes a change felt at once is the epoch; the age is the bound when the
// epoch cannot be heard of.
const (
	maxAge         = 30 * time.Second
	maxAgeTroubled = 10 * time.Second
	knownKeys      = 1_000_000

	// usedEvery is how exactly the last use of a key is known.
	usedEvery = time.Minute

	// rememberFor is how long a key that is not used stays recognisable as one that exists.
	rememberFor = 10 * time.Minute
	// readTimeout bounds how long callers wait for a database that hangs, queueTimeout how long for their turn to ask it: a node that has
	// just started knows no key, and all of its first callers ask at the same time.
	readTimeout  = 3 * time.Second
	queueTimeout = 10 * time.Second
)

// known is what a node remembers of keys.
type known struct {
	keys cache.Cache[hash, *Principal]
	// oldest is, by org, the least epoch that may still be believed.
	oldest  cache.Cache[id.Org, int64]
	loading *singleflight.Group
	// distrust is a moment in Unix nanoseconds; what was read before it must be read again.
	distrust *atomic.Int64
}

func newKnown() known {
	return known{
		keys:     cache.NewFor[hash, *Principal](knownKeys, rememberFor),
		oldest:   cache.NewFor[id.Org, int64](knownKeys, 2*maxAge),
		loading:  &singleflight.Group{},
		distrust: &atomic.Int64{},
	}
}

// Verify finds out who calls. The answer may be up to 30 seconds old: a call must be
// admitted (package limit) before it acts, and Refresh be used when that says the identity is stale.
//
// source is where the call comes from; one that keeps sending keys which do not exist is turned away unread.
func (s *Keys) Verify(ctx context.Context, token, source string) (*Principal, error) {
	h, err := parseToken(token)
	if err != nil {
		return nil, problem.KeyInvalid.New("This is not an API key of this service. Check that all of it was copied.")
	}
	p, ok := s.known.keys.Get(h)
	// That an org is suspended is not believed from memory: a call that is refused is not admitted, so the end of the
	// suspension would not be noticed.
	if !ok || !s.fresh(p) || p.Org.SuspendedAt != nil {
		if p, err = s.lookUp(ctx, h, source); err != nil {
			return nil, err
		}
	}
	return p, s.usable(p)
}

// lookUp reads the identity of a key that a source has sent. The keys of one source are looked up a few at a time, so that one which sends
// many does not take all connections to the database.
func (s *Keys) lookUp(ctx context.Context, h hash, source string) (*Principal, error) {
	leave, err := s.turns.wait(ctx, source)
	if err != nil {
		return nil, err
	}
	defer leave()
	p, ok := s.known.keys.Get(h) // it may have been read meanwhile
	if ok && !p.unknown && s.fresh(p) && p.Org.SuspendedAt == nil {
		return p, nil
	}
	if !ok || p.unknown {
		if err := s.Guess(source); err != nil {
			return nil, err
		}
	}
	if p, err = s.load(ctx, h); err == nil && p.unknown {
		s.Missed(source)
	}
	return p, err
}

// ReadAt is when the identity was read from the database.
func (p *Principal) ReadAt() time.Time { return p.loadedAt }

// Refresh reads an identity again: what it returns was read after since.
func (s *Keys) Refresh(ctx context.Context, p *Principal, since time.Time) (*Principal, error) {
	for {
		// A read that others wait for may have begun too early; the one after it has not.
		fresh, err := s.load(ctx, p.hash)
		if err != nil {
			return nil, err
		}
		if !fresh.loadedAt.Before(since) {
			return fresh, s.usable(fresh)
		}
	}
}

// fresh says whether an identity in memory may still be believed.
func (s *Keys) fresh(p *Principal) bool {
	age := s.Now().Sub(p.loadedAt)
	if age > maxAge || p.loadedAt.UnixNano() < s.known.distrust.Load() {
		return false
	}
	if age > maxAgeTroubled && !s.Troubled().Before(p.loadedAt.Add(-maxAge)) {
		return false
	}
	oldest, ok := s.known.oldest.Get(p.Org.ID)
	return !ok || p.Org.Epoch >= oldest
}

// load reads an identity once for all callers that wait for it.
func (s *Keys) load(ctx context.Context, h hash) (*Principal, error) {
	v, err, _ := s.known.loading.Do(string(h[:]), func() (any, error) {
		// The result serves others too: one caller's going away must not fail it for all.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queueTimeout+readTimeout)
		defer cancel()
		return s.read(ctx, h)
	})
	if err != nil {
		return nil, err
	}
	return v.(*Principal), nil
}

// read reads key and org in one state of the database: an old key next to a new epoch would never be noticed.
func (s *Keys) read(ctx context.Context, h hash) (*Principal, error) {
	p := &Principal{hash: h, loadedAt: s.Now()}
	err := s.DB.SnapshotWithin(ctx, readTimeout, func(ctx context.Context, tx postgres.Tx) error {
		owner, key, err := byHash(ctx, tx, h)
		if errors.Is(err, postgres.ErrNoRows) {
			p.unknown = true
			return nil
		}
		if err != nil {
			return err
		}
		p.Key, p.Scopes = key, key.Scopes
		p.Org, err = s.Orgs.GetIn(ctx, tx, owner)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.known.keys.Put(h, p)
	s.noteUse(ctx, p)
	return p, nil
}

// noteUse keeps when a key was used, once a minute at most. A key in use is read again every 30 seconds, so no call pays for it otherwise.
func (s *Keys) noteUse(ctx context.Context, p *Principal) {
	if last := p.Key.LastUsedAt; p.Key.Kind != KindSecret || s.usable(p) != nil || last != nil && p.loadedAt.Sub(*last) < usedEvery {
		return
	}
	_ = used(ctx, s.DB.Pool(), p.Org.ID, p.Key.ID, p.loadedAt) // the call matters more; the next read tries again
}

// usable says why an identity may not call, if so.
func (s *Keys) usable(p *Principal) error {
	switch {
	case p.Key.Kind == KindSession && s.over(p):
		return signedOut()
	case p.unknown:
		return problem.KeyInvalid.New("This key does not exist. It may belong to another environment or installation.")
	case p.Key.RevokedAt != nil:
		return problem.KeyRevoked.Newf("The key %s was revoked at %s.", p.Key.ID, stamp.Text(*p.Key.RevokedAt))
	case p.Key.ExpiresAt != nil && !s.Now().Before(*p.Key.ExpiresAt):
		return problem.KeyExpired.Newf("The key %s expired at %s.", p.Key.ID, stamp.Text(*p.Key.ExpiresAt))
	case p.Org.SuspendedAt != nil:
		return problem.OrgSuspended.New("The organisation is suspended. Its keys and sessions are kept and not used.")
	}
	return nil
}

// Heard takes note of an org's new epoch: identities of an older one are read again.
func (s *Keys) Heard(org id.Org, epoch int64) {
	s.known.oldest.Change(org, func(old int64, found bool) (int64, cache.Outcome) {
		if found && old >= epoch {
			return old, cache.Keep
		}
		return epoch, cache.Replace
	})
}

// Distrust makes every identity be read again, because news may have been missed.
func (s *Keys) Distrust() { s.known.distrust.Store(s.Now().UnixNano()) }

func itoa(n int) string { return strconv.Itoa(n) }
