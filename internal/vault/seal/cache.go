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
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
)

// How long keys are remembered. What makes a shredding felt at once is the poke; the age is the bound when no poke comes.
const (
	dataKeyAge = 60 * time.Second
	// An unwrapped org key is asked for again after an hour, and used for up to a day while the service is away.
	freshAge = time.Hour
	staleAge = 24 * time.Hour
	// retryAfter is how long a service that failed is left alone while there is a key to go on with.
	retryAfter = 10 * time.Second

	rememberedOrgs = 100_000
	kmsTimeout     = 2 * time.Second
	readTimeout    = 3 * time.Second
	pokeShards     = 256
)

// dataKeys are the ciphers of one holder, by generation. They are never changed in place.
type dataKeys struct {
	ciphers map[int32]tink.AEAD
	newest  int32
	readAt  time.Time
}

// unwrapped is a key that the key management service has unwrapped. cipher is nil for the root.
type unwrapped struct {
	key    secret.String
	cipher tink.AEAD
	at     time.Time
	// retryAt is when the service may be asked again after it failed.
	retryAt time.Time
}

// known is what a node remembers of keys; sealed texts are never remembered.
type known struct {
	data cache.Cache[holderRef, *dataKeys]
	// above has org keys and the root by their associated data.
	above   cache.Cache[string, *unwrapped]
	loading *singleflight.Group
	// pokes count what was heard, by shard of holders: keys that were read before a poke are not remembered after it.
	pokes *[pokeShards]atomic.Uint64
	seed  maphash.Seed
	// distrust is a moment in Unix nanoseconds; data keys that were read before it must be read again.
	distrust *atomic.Int64
}

func newKnown(holders int) known {
	return known{
		data:    cache.NewFor[holderRef, *dataKeys](holders, dataKeyAge),
		above:   cache.NewFor[string, *unwrapped](rememberedOrgs, staleAge),
		loading: &singleflight.Group{}, pokes: &[pokeShards]atomic.Uint64{}, seed: maphash.MakeSeed(), distrust: &atomic.Int64{},
	}
}

func (k *known) shard(h holderRef) *atomic.Uint64 {
	return &k.pokes[maphash.Comparable(k.seed, h)%pokeShards]
}

// keep remembers data keys, unless a poke was heard since they were read. The check and the write are one step.
func (k *known) keep(h holderRef, heard uint64, keys *dataKeys) {
	k.data.Change(h, func(*dataKeys, bool) (*dataKeys, cache.Outcome) {
		if k.shard(h).Load() != heard {
			return nil, cache.Forget
		}
		return keys, cache.Replace
	})
}

// forget drops a holder's data keys. A read that is under way cannot bring them back: either it sees the count, or its
// result is dropped here. Who comes later does not join it either.
func (k *known) forget(h holderRef) {
	k.loading.Forget(h.flight())
	k.shard(h).Add(1)
	k.data.Drop(h)
}

func (h holderRef) flight() string { return "data\x00" + string(h.org) + "\x00" + h.name }

// Distrust makes all data keys be read again, because pokes may have been missed.
func (s *Sealer) Distrust() { s.known.distrust.Store(s.Now().UnixNano()) }

// keysOf gives a holder's ciphers. remembered means that they were not read just now.
func (s *Sealer) keysOf(ctx context.Context, h holderRef) (keys *dataKeys, remembered bool, err error) {
	keys, ok := s.known.data.Get(h)
	if ok && s.Now().Sub(keys.readAt) < dataKeyAge && keys.readAt.UnixNano() > s.known.distrust.Load() {
		return keys, true, nil
	}
	keys, err = s.load(ctx, h)
	return keys, false, err
}

// load reads a holder's data keys once for all callers that wait for them.
func (s *Sealer) load(ctx context.Context, h holderRef) (*dataKeys, error) {
	v, err := s.once(ctx, h.flight(), func(ctx context.Context) (any, error) {
		heard := s.known.shard(h).Load()
		keys, err := s.read(ctx, h)
		if err != nil {
			return nil, err
		}
		s.known.keep(h, heard, keys)
		return keys, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*dataKeys), nil
}

// once does something for all who ask for it at the same time. One caller's going away does not fail it for the others.
func (s *Sealer) once(ctx context.Context, name string, do func(context.Context) (any, error)) (any, error) {
	if err := ctx.Err(); err != nil { // nobody waits for it
		return nil, unavailable("wait for a key", err)
	}
	done := s.known.loading.DoChan(name, func() (any, error) {
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

// read reads a holder's data keys and unwraps them.
func (s *Sealer) read(ctx context.Context, h holderRef) (*dataKeys, error) {
	s.metrics.loads.Inc()
	keys := &dataKeys{ciphers: map[int32]tink.AEAD{}, readAt: s.Now()}
	rows, err := s.dataKeyRows(ctx, h)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, ErrShredded
	}
	for _, row := range rows {
		org, err := s.unwrap(ctx, orgAAD(h.org, row.OrgVersion), row.OrgWrapped, cipherOf)
		if err != nil {
			return nil, err
		}
		key, err := unwrapKey(org.cipher, row.Wrapped, dataAAD(h, row.Generation))
		if err != nil {
			return nil, err
		}
		if keys.ciphers[row.Generation], err = cipherOf(key); err != nil {
			return nil, err
		}
		keys.newest = row.Generation
	}
	return keys, nil
}

// noCipher is for the root, which encrypts nothing.
func noCipher(secret.String) (tink.AEAD, error) { return nil, nil } //nolint:nilnil // there is none

// unwrap gives an org key or the root, from memory if it may.
func (s *Sealer) unwrap(ctx context.Context, aad, wrapped []byte, cipher func(secret.String) (tink.AEAD, error)) (*unwrapped, error) {
	name, now := string(aad), s.Now()
	old, ok := s.known.above.Get(name)
	ok = ok && now.Sub(old.at) < staleAge
	if ok && (now.Sub(old.at) < freshAge || now.Before(old.retryAt)) {
		return old, nil
	}
	v, err := s.once(ctx, "above\x00"+name, func(ctx context.Context) (any, error) {
		key, err := s.askKMS(ctx, aad, wrapped)
		if err != nil {
			return nil, err
		}
		found := &unwrapped{key: key, at: now}
		if found.cipher, err = cipher(key); err != nil {
			return nil, err
		}
		s.known.above.Put(name, found)
		return found, nil
	})
	if err == nil {
		return v.(*unwrapped), nil
	}
	if !ok {
		return nil, err
	}
	// What was unwrapped before is still right. The log says why it cannot be unwrapped again, while there is time to act.
	s.Log.LogAttrs(ctx, slog.LevelError, "a key cannot be unwrapped again", slog.Any("error", err), slog.Duration("age", now.Sub(old.at)))
	s.known.above.Put(name, &unwrapped{key: old.key, cipher: old.cipher, at: old.at, retryAt: now.Add(retryAfter)})
	return old, nil
}

// askKMS has a key unwrapped by the service that wrapped it.
func (s *Sealer) askKMS(ctx context.Context, aad, wrapped []byte) (secret.String, error) {
	parsed, err := kms.ParseWrapped(wrapped)
	if err != nil {
		return secret.String{}, ErrCorrupt
	}
	service, ok := s.wrappers[parsed.Key.ID]
	if !ok {
		return secret.String{}, unavailable("unwrap a key", errors.New("it was wrapped by "+parsed.Key.ID+", which is not configured; add it as an old key management service"))
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
