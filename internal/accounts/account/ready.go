package account

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/accounts/account/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
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
	// cacheTTL bounds how long a copy is kept. Every call compares its version with that in Redis, and WatchVersions finds
	// the changes that could be published neither on Redis nor on NATS.
	cacheTTL = 6 * time.Hour
	// unwatchedTTL is the limit while WatchVersions cannot read the database.
	unwatchedTTL = 30 * time.Second
	// watchEvery is how often WatchVersions reads. A transaction may commit watchOverlap after it has changed an account.
	watchEvery   = 5 * time.Second
	watchOverlap = 30 * time.Second
	watchPage    = 1000
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
	if ok && k.account.Org == owner && d.SessionVersion > 0 && uint32(k.account.SessionVersion) >= d.SessionVersion && s.isFresh(k) {
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

// isFresh reports whether a cached account may be used if no newer version is known.
func (s *Accounts) isFresh(k *cachedAccount) bool {
	age := s.deps.Now().Sub(k.readAt)
	return age < unwatchedTTL || age < cacheTTL && s.watches()
}

// watches reports whether WatchVersions has read all changes lately.
func (s *Accounts) watches() bool {
	return s.deps.Now().UnixNano()-s.watchedAt.Load() < int64(unwatchedTTL)
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
	var keys sync.WaitGroup
	keys.Go(func() { _ = s.deps.Seal.Warm(ctx, owner, []string{string(at)}) }) // if it fails, opening the session reports why
	a, sealed, err := getWithSession(ctx, s.deps.DB, owner, at)
	keys.Wait()
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
	s.dropOlder(id.Account(last), version)
}

func (s *Accounts) dropOlder(at id.Account, version int64) {
	if k, ok := s.cached.Get(at); ok && k.account.SessionVersion < version {
		s.cached.Drop(at)
	}
}

// WatchVersions drops the cached copies of accounts that have changed, until the context ends. It finds what a node has not
// heard of: messages can be lost, and a node may fail between its commit and its messages.
func (s *Accounts) WatchVersions(ctx context.Context) error {
	var from, newest time.Time
	for ctx.Err() == nil {
		began := s.deps.Now()
		var err error
		if from.IsZero() {
			newest, err = db.New(s.deps.DB).VersionClock(ctx)
		} else {
			newest, err = s.dropChanged(ctx, from)
		}
		switch {
		case err == nil:
			from = newest.Add(-watchOverlap)
			s.watchedAt.Store(began.UnixNano())
		case ctx.Err() == nil:
			s.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot look for changed accounts", slog.Any(logkey.Error, err))
		}
		clock.Pause(ctx, watchEvery)
	}
	return nil
}

// dropChanged drops cached accounts that have changed since a time, and returns when the last of them did.
func (s *Accounts) dropChanged(ctx context.Context, since time.Time) (newest time.Time, err error) {
	newest = since.Add(watchOverlap)
	p := db.ChangedParams{AfterTime: since, MaxRows: watchPage}
	for {
		rows, err := db.New(s.deps.DB).Changed(ctx, p)
		if err != nil {
			return since, fmt.Errorf("find changed accounts: %w", err)
		}
		for i := range rows {
			s.dropOlder(rows[i].ID, rows[i].SessionVersion)
			newest, p.AfterTime, p.AfterID = rows[i].VersionAt, rows[i].VersionAt, string(rows[i].ID)
		}
		if len(rows) < watchPage {
			return newest, nil
		}
	}
}
