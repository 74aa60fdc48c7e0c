package account

import (
	"context"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/tracing"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// cachedAccount is a node's copy of an account. The session stays sealed in memory; it is opened for each call.
type cachedAccount struct {
	account Account
	sealed  []byte
	readAt  time.Time
}

const (
	// cacheTTL bounds how long a node may miss a change that could be published neither on Redis nor on NATS.
	cacheTTL = 30 * time.Second
	// cacheBytes bounds the memory of the cache. It holds about 170,000 accounts.
	cacheBytes = 512 << 20
	// entrySize is the approximate size of an entry in bytes, without the sealed session.
	entrySize = 1200
)

func newAccountCache() cache.Cache[id.Account, *cachedAccount] {
	return cache.NewBytes(cacheBytes, cacheTTL, func(_ id.Account,
		k *cachedAccount) uint32 {
		return uint32(entrySize + len(k.sealed))
	})
}

// Ready opens an account's session for a call that was admitted, or returns the problem that the account's state
// demands (Refusal). It reads the database only if d.SessionVersion is newer than the cached copy, or 0 for unknown.
func (s *Accounts) Ready(ctx context.Context, owner id.Org, at id.Account, d admission.Decision) (Account, driver.Session, error) {
	ctx, span := tracing.Start(ctx, "session", trace.SpanKindInternal)
	defer span.End()
	k, err := s.cachedOrRead(ctx, owner, at, d)
	if err != nil {
		return Account{}, driver.Session{}, err
	}
	if err := s.Refusal(k.account); err != nil {
		return k.account, driver.Session{}, err
	}
	return s.openFresh(ctx, k.account, k.sealed)
}

// Remembered returns an account from the cache, which may be out of date; false if the cache does not hold it.
func (s *Accounts) Remembered(owner id.Org, at id.Account) (Account, bool) {
	k, ok := s.cached.Get(at)
	if !ok || k.account.Org != owner {
		return Account{}, false
	}
	return k.account, true
}

// cachedOrRead returns the account in at least the version that the admission knows, from the cache if possible.
func (s *Accounts) cachedOrRead(ctx context.Context, owner id.Org, at id.Account,
	d admission.Decision) (*cachedAccount, error) {
	k, ok := s.cached.Get(at)
	if ok && k.account.Org == owner && d.SessionVersion > 0 && uint32(k.account.SessionVersion) >= d.SessionVersion &&
		s.deps.Now().Sub(k.readAt) < cacheTTL {
		return k, nil
	}
	k, err := s.readShared(ctx, owner, at, d.SessionVersion)
	if err != nil {
		s.cached.Drop(at)
		return nil, err
	}
	if d.SessionVersion == 0 && !d.Degraded {
		// Redis has lost the version or never had it. Restore it; if that fails, the next call reads the row as well.
		_ = s.deps.Limits.SessionChanged(context.WithoutCancel(ctx), owner, at, uint32(k.account.SessionVersion))
	}
	return k, nil
}

// readShared reads an account once for all concurrent calls that need it. A read that was already in progress may have
// missed the change that this call must see; then it reads a second time.
func (s *Accounts) readShared(ctx context.Context, owner id.Org, at id.Account, version uint32) (*cachedAccount,
	error) {
	flight := string(owner) + " " + string(at)
	for first := true; ; first = false {
		done := s.reads.DoChan(flight, func() (any, error) { return s.readAccount(context.WithoutCancel(ctx), owner, at) })
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case r := <-done:
			if r.Err != nil {
				return nil, r.Err
			}
			k, _ := r.Val.(*cachedAccount)
			if !first || !r.Shared || uint32(k.account.SessionVersion) >= version && version > 0 {
				return k, nil
			}
		}
	}
}

func (s *Accounts) readAccount(ctx context.Context, owner id.Org, at id.Account) (*cachedAccount, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	began := s.deps.Now()
	a, sealed, err := getWithSession(ctx, s.deps.DB, owner, at)
	if err != nil {
		return nil, err
	}
	if a, err = s.withEnvironment(ctx, a); err != nil {
		return nil, err
	}
	k := &cachedAccount{account: a, sealed: sealed, readAt: began}
	s.cached.Change(at, func(old *cachedAccount, found bool) (*cachedAccount, cache.Outcome) {
		if found && old.account.Org == owner && old.account.SessionVersion > a.SessionVersion {
			return old, cache.Keep
		}
		return k, cache.Replace
	})
	return k, nil
}

// readTimeout bounds a shared read. It does not end with the call that started it, because others may wait for it.
const readTimeout = 5 * time.Second

// Heard handles a message of SessionPattern: it drops the cached copy of the account if that is older than the version
// in the payload.
func (s *Accounts) Heard(last string, payload []byte) {
	version, err := strconv.ParseInt(string(payload), 10, 64)
	if err != nil {
		return
	}
	at := id.Account(last)
	if k, ok := s.cached.Get(at); ok && k.account.SessionVersion < version {
		s.cached.Drop(at)
	}
}
