package account

import (
	"context"
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// kept is what a node remembers of an account. The session stays sealed: it is opened for each call and for nothing else.
type kept struct {
	account Account
	sealed  []byte
	readAt  time.Time
}

const (
	// keptFor bounds how long a node may miss a change if neither the shared server nor the bus could be told of it.
	keptFor = 30 * time.Second
	// keptBytes bounds the memory; about 170,000 accounts.
	keptBytes = 512 << 20
	// keptSize is what an account takes besides its sealed session.
	keptSize = 1200
)

func newKept() cache.Cache[id.Account, *kept] {
	return cache.NewBytes(keptBytes, keptFor, func(_ id.Account, k *kept) uint32 { return uint32(keptSize + len(k.sealed)) })
}

// Ready opens an account's session for a call that was admitted, or refuses as the account's state demands. It asks the database only if
// the admission says that the account has changed since this node read it, or cannot say.
func (s *Accounts) Ready(ctx context.Context, owner id.Org, at id.Account, d admission.Decision) (Account, driver.Session, error) {
	k, err := s.current(ctx, owner, at, d)
	if err != nil {
		return Account{}, driver.Session{}, err
	}
	if err := s.Refusal(k.account); err != nil {
		return k.account, driver.Session{}, err
	}
	session, err := s.open(ctx, k.account, k.sealed)
	return k.account, session, err
}

// Remembered is an account as this node last read it, which may be a moment ago; false if it did not lately.
func (s *Accounts) Remembered(owner id.Org, at id.Account) (Account, bool) {
	k, ok := s.kept.Get(at)
	if !ok || k.account.Org != owner {
		return Account{}, false
	}
	return k.account, true
}

// current is the account as the admission knows it.
func (s *Accounts) current(ctx context.Context, owner id.Org, at id.Account, d admission.Decision) (*kept, error) {
	k, ok := s.kept.Get(at)
	if ok && k.account.Org == owner && d.SessionVersion > 0 && uint32(k.account.SessionVersion) >= d.SessionVersion && s.Now().Sub(k.readAt) < keptFor {
		return k, nil
	}
	k, err := s.reload(ctx, owner, at, d.SessionVersion)
	if err != nil {
		s.kept.Drop(at)
		return nil, err
	}
	if d.SessionVersion == 0 && !d.Degraded {
		// The shared server has lost the version, or never had it. That it is not told costs the next call the same reading.
		_ = s.Limits.SessionChanged(context.WithoutCancel(ctx), owner, at, uint32(k.account.SessionVersion))
	}
	return k, nil
}

// reload reads an account once for all calls that wait for it. A reading that others have begun may be older than the change that this
// call was told of; then it reads again.
func (s *Accounts) reload(ctx context.Context, owner id.Org, at id.Account, version uint32) (*kept, error) {
	flight := string(owner) + " " + string(at)
	for first := true; ; first = false {
		done := s.reading.DoChan(flight, func() (any, error) { return s.read(context.WithoutCancel(ctx), owner, at) })
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case r := <-done:
			if r.Err != nil {
				return nil, r.Err
			}
			k, _ := r.Val.(*kept)
			if !first || !r.Shared || uint32(k.account.SessionVersion) >= version && version > 0 {
				return k, nil
			}
		}
	}
}

func (s *Accounts) read(ctx context.Context, owner id.Org, at id.Account) (*kept, error) {
	ctx, cancel := context.WithTimeout(ctx, readAtMost)
	defer cancel()
	began := s.Now()
	a, sealed, err := withSession(ctx, s.DB.Pool(), owner, at)
	if err != nil {
		return nil, err
	}
	if a, err = s.placed(ctx, a); err != nil {
		return nil, err
	}
	k := &kept{account: a, sealed: sealed, readAt: began}
	s.kept.Change(at, func(old *kept, found bool) (*kept, cache.Outcome) {
		if found && old.account.Org == owner && old.account.SessionVersion > a.SessionVersion {
			return old, cache.Keep
		}
		return k, cache.Replace
	})
	return k, nil
}

// readAtMost is how long a reading may take that several calls may wait for.
const readAtMost = 5 * time.Second

// Heard takes a poke: an account has a newer version than this node may remember.
func (s *Accounts) Heard(last string, payload []byte) {
	version, err := strconv.ParseInt(string(payload), 10, 64)
	if err != nil {
		return
	}
	at := id.Account(last)
	if k, ok := s.kept.Get(at); ok && k.account.SessionVersion < version {
		s.kept.Drop(at)
	}
}
