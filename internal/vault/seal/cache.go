package seal

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tink-crypto/tink-go/v2/tink"
	"golang.org/x/sync/singleflight"

	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/seal/internal/db"
)

const (
	// dataKeyAge is how long data keys are cached. A notification drops shredded ones immediately, and watchShreds those of
	// which no notification has arrived. While watchShreds cannot read the keyring, unwatchedAge is the limit.
	dataKeyAge   = time.Hour
	unwatchedAge = 60 * time.Second
	// watchEvery is how often watchShreds reads. The clocks of nodes may differ by watchOverlap.
	watchEvery   = 5 * time.Second
	watchOverlap = 60 * time.Second
	// An org key is unwrapped again after freshAge. While the key management service is unavailable, it is used for
	// up to staleAge.
	freshAge = time.Hour
	staleAge = 24 * time.Hour
	// retryAfter is the pause after a failed unwrap while a stale key is used.
	retryAfter = 10 * time.Second

	cachedOrgs   = 100_000
	kmsTimeout   = 2 * time.Second
	readTimeout  = 3 * time.Second
	noticeShards = 256
)

// dataKeys holds the ciphers of one holder by generation. It is immutable.
type dataKeys struct {
	ciphers map[int32]tink.AEAD
	newest  int32
	readAt  time.Time
}

// unwrapped is an org key or the root, unwrapped by the key management service. cipher is nil for the root.
type unwrapped struct {
	key    secret.String
	cipher tink.AEAD
	at     time.Time // when it was unwrapped
	// retryAt is when the service may be called again after a failure.
	retryAt time.Time
}

// keyCache holds the unwrapped keys of a node in memory. Sealed texts are never cached.
type keyCache struct {
	data cache.Cache[holderRef, *dataKeys]
	// parents holds org keys and the root by their associated data.
	parents cache.Cache[string, *unwrapped]
	loading *singleflight.Group
	// noticeCounts counts the shreddings that this node knows of, by shard of holders. Keys that were read before one
	// are not cached after it.
	noticeCounts *[noticeShards]atomic.Uint64
	seed         maphash.Seed
	// distrusted is a time in Unix nanoseconds. Data keys that were read before it must be read again.
	distrusted *atomic.Int64
	// watchedAt is when watchShreds last began to read all shreddings, in Unix nanoseconds.
	watchedAt *atomic.Int64
}

func newKeyCache(holders int) keyCache {
	return keyCache{
		data:    cache.NewFor[holderRef, *dataKeys](holders, dataKeyAge),
		parents: cache.NewFor[string, *unwrapped](cachedOrgs, staleAge),
		loading: &singleflight.Group{}, noticeCounts: &[noticeShards]atomic.Uint64{}, seed: maphash.MakeSeed(), distrusted: &atomic.Int64{}, watchedAt: &atomic.Int64{},
	}
}

// notices returns the counter of the holder's shard.
func (k *keyCache) notices(h holderRef) *atomic.Uint64 {
	return &k.noticeCounts[maphash.Comparable(k.seed, h)%noticeShards]
}

// store caches data keys, unless the counter has changed from notices, its value before they were read. The check and
// the write are atomic.
func (k *keyCache) store(h holderRef, notices uint64, keys *dataKeys) {
	k.data.Change(h, func(*dataKeys, bool) (*dataKeys, cache.Outcome) {
		if k.notices(h).Load() != notices {
			return nil, cache.Forget
		}
		return keys, cache.Replace
	})
}

// drop removes a holder's data keys. A read in progress cannot bring them back: either it sees the new count, or its
// result is removed here. Later callers do not wait for that read either.
func (k *keyCache) drop(h holderRef) {
	k.loading.Forget(h.loadKey())
	k.notices(h).Add(1)
	k.data.Drop(h)
}

// loadKey is the key of the holder's load in keyCache.loading.
func (h holderRef) loadKey() string { return "data\x00" + string(h.org) + "\x00" + h.name }

// Distrust makes the node read all data keys again, because notifications may have been missed.
func (s *Sealer) Distrust() { s.cache.distrusted.Store(s.deps.Now().UnixNano()) }

// keysOf returns a holder's ciphers. cached means that they were not read by this call.
func (s *Sealer) keysOf(ctx context.Context, h holderRef) (keys *dataKeys, cached bool, err error) {
	keys, ok := s.cache.data.Get(h)
	if ok && s.isFresh(keys) {
		return keys, true, nil
	}
	keys, err = s.loadKeys(ctx, h)
	return keys, false, err
}

// loadKeys reads a holder's data keys, once for all concurrent callers, and caches them.
func (s *Sealer) loadKeys(ctx context.Context, h holderRef) (*dataKeys, error) {
	v, err := s.shareLoad(ctx, h.loadKey(), func(ctx context.Context) (any, error) {
		notices := s.cache.notices(h).Load()
		keys, err := s.readKeys(ctx, h)
		if err != nil {
			return nil, err
		}
		s.cache.store(h, notices, keys)
		return keys, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*dataKeys), nil
}

// shareLoad runs do once for all concurrent callers with the same name. It continues if a caller's context ends,
// because others may wait for it.
func (s *Sealer) shareLoad(ctx context.Context, name string, do func(context.Context) (any, error)) (any, error) {
	if err := ctx.Err(); err != nil { // do not start a load that no one waits for
		return nil, unavailable("wait for a key", err)
	}
	done := s.cache.loading.DoChan(name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		return do(ctx)
	})
	select {
	case r := <-done:
		return r.Val, r.Err
	case <-ctx.Done():
		return nil, unavailable("wait for a key", ctx.Err())
	}
}

// readKeys reads a holder's data keys from the keyring and unwraps them.
func (s *Sealer) readKeys(ctx context.Context, h holderRef) (*dataKeys, error) {
	s.metrics.loads.Inc()
	keys := &dataKeys{ciphers: map[int32]tink.AEAD{}, readAt: s.deps.Now()}
	rows, err := s.dataKeyRows(ctx, h)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, ErrShredded
	}
	for _, row := range rows {
		if err := s.addCipher(ctx, keys, h, row); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// addCipher unwraps a generation of a holder's data key.
func (s *Sealer) addCipher(ctx context.Context, keys *dataKeys, h holderRef, row db.DataKeysRow) error {
	org, err := s.unwrapCached(ctx, orgAAD(h.org, row.OrgVersion), row.OrgWrapped, cipherOf)
	if err != nil {
		return err
	}
	key, err := unwrapKey(org.cipher, row.Wrapped, dataAAD(h, row.Generation))
	if err != nil {
		return err
	}
	cipher, err := cipherOf(key)
	if err != nil {
		return err
	}
	keys.ciphers[row.Generation], keys.newest = cipher, row.Generation
	return nil
}

// isCached reports whether the data keys are cached and may be used.
func (s *Sealer) isCached(h holderRef) bool {
	keys, ok := s.cache.data.Get(h)
	return ok && s.isFresh(keys)
}

// isFresh reports whether cached data keys may be used. The cache counts the age from when the keys were stored, which
// is after they were read.
func (s *Sealer) isFresh(keys *dataKeys) bool {
	age := s.deps.Now().Sub(keys.readAt)
	return (age < unwatchedAge || age < dataKeyAge && s.watches()) && keys.readAt.UnixNano() > s.cache.distrusted.Load()
}

// watches reports whether watchShreds has read all shreddings lately.
func (s *Sealer) watches() bool {
	return s.deps.Now().UnixNano()-s.cache.watchedAt.Load() < int64(unwatchedAge)
}

// watchShreds drops the cached keys of holders that were shredded, until the context ends.
func (s *Sealer) watchShreds(ctx context.Context) error {
	newest := s.deps.Now()
	for ctx.Err() == nil {
		began := s.deps.Now()
		last, err := s.dropShredded(ctx, newest.Add(-watchOverlap))
		switch {
		case err == nil:
			s.cache.watchedAt.Store(began.UnixNano())
			if last.After(newest) {
				newest = last
			}
		case ctx.Err() == nil:
			s.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot look for shredded keys", slog.Any(logkey.Error, err))
		}
		clock.Pause(ctx, watchEvery)
	}
	return nil
}

// dropShredded drops the cached keys of holders that were shredded after a time, and returns when the last of them was.
func (s *Sealer) dropShredded(ctx context.Context, after time.Time) (last time.Time, err error) {
	for {
		rows, err := s.queries().ShreddedAfter(ctx, db.ShreddedAfterParams{After: &after, Count: shredBatch})
		if err != nil {
			return last, unavailable("read what was shredded", err)
		}
		for i := range rows {
			h := holderRef{rows[i].OrgID, rows[i].Holder}
			if _, ok := s.cache.data.Get(h); ok {
				s.cache.drop(h)
			}
			last, after = rows[i].ShreddedAt, rows[i].ShreddedAt
		}
		if len(rows) < shredBatch {
			return last, nil
		}
	}
}

// Warm reads the data keys of several holders that are not cached, with one query instead of one each. Holders without
// keys are ignored.
func (s *Sealer) Warm(ctx context.Context, org id.Org, holders []string) error {
	var (
		missing []string
		notices []uint64
		now     = s.deps.Now()
	)
	for _, name := range holders {
		if h := (holderRef{org, name}); !s.isCached(h) {
			missing, notices = append(missing, name), append(notices, s.cache.notices(h).Load())
		}
	}
	if len(missing) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	s.metrics.loads.Inc()
	rows, err := s.queries().DataKeysAmong(ctx, db.DataKeysAmongParams{OrgID: org, Holders: missing})
	if err != nil {
		return unavailable("read data keys", err)
	}
	found := make(map[string]*dataKeys, len(missing))
	for _, row := range rows {
		keys := found[row.Holder]
		if keys == nil {
			keys = &dataKeys{ciphers: map[int32]tink.AEAD{}, readAt: now}
			found[row.Holder] = keys
		}
		one := db.DataKeysRow{Generation: row.Generation, OrgVersion: row.OrgVersion, Wrapped: row.Wrapped, OrgWrapped: row.OrgWrapped}
		if err := s.addCipher(ctx, keys, holderRef{org, row.Holder}, one); err != nil {
			return err
		}
	}
	for i, name := range missing {
		if keys := found[name]; keys != nil {
			s.cache.store(holderRef{org, name}, notices[i], keys)
		}
	}
	return nil
}

// noCipher is for the root, which encrypts nothing.
func noCipher(secret.String) (tink.AEAD, error) { return nil, nil } //nolint:nilnil // the root has no cipher

// unwrapCached returns an org key or the root, from the cache if it is fresh. If the key management service fails, it
// returns a cached key of up to staleAge instead, and logs the failure.
func (s *Sealer) unwrapCached(ctx context.Context, aad, wrapped []byte, cipher func(secret.String) (tink.AEAD, error)) (*unwrapped, error) {
	name, now := string(aad), s.deps.Now()
	old, ok := s.cache.parents.Get(name)
	ok = ok && now.Sub(old.at) < staleAge
	if ok && (now.Sub(old.at) < freshAge || now.Before(old.retryAt)) {
		return old, nil
	}
	v, err := s.shareLoad(ctx, "parent\x00"+name, func(ctx context.Context) (any, error) {
		key, err := s.unwrapWithKMS(ctx, aad, wrapped)
		if err != nil {
			return nil, err
		}
		found := &unwrapped{key: key, at: now}
		if found.cipher, err = cipher(key); err != nil {
			return nil, err
		}
		s.cache.parents.Put(name, found)
		return found, nil
	})
	if err == nil {
		return v.(*unwrapped), nil
	}
	if !ok {
		return nil, err
	}
	// The cached key is still correct. Log the failure while there is time to act.
	s.deps.Log.LogAttrs(ctx, slog.LevelError, "cannot unwrap a key again, using the cached one", slog.Any(logkey.Error, err), slog.Duration(logkey.Age, now.Sub(old.at)))
	s.cache.parents.Put(name, &unwrapped{key: old.key, cipher: old.cipher, at: old.at, retryAt: now.Add(retryAfter)})
	return old, nil
}

// unwrapWithKMS unwraps a key with the service that wrapped it.
func (s *Sealer) unwrapWithKMS(ctx context.Context, aad, wrapped []byte) (secret.String, error) {
	parsed, err := kms.ParseWrapped(wrapped)
	if err != nil {
		return secret.String{}, ErrCorrupt
	}
	service, ok := s.wrappers[parsed.Key.ID]
	if !ok {
		err := errors.New("it was wrapped by " + parsed.Key.ID + ", which is not configured; add it as an old key management service")
		return secret.String{}, unavailable("unwrap a key", err)
	}
	ctx, cancel := context.WithTimeout(ctx, kmsTimeout)
	defer cancel()
	key, err := service.Unwrap(ctx, parsed, aad)
	switch {
	case errors.Is(err, kms.ErrCorrupt):
		return secret.String{}, ErrCorrupt
	case err != nil:
		return secret.String{}, unavailable("unwrap a key", err)
	}
	return key, nil
}
