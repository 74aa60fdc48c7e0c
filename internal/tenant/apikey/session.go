package apikey

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey/internal/db"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// Kind is the kind of a key.
type Kind string

// The kinds of keys. A secret key is given to a customer. A session key belongs to one browser in one org: it is never
// shown or listed, but revocation, limits and logs work as for any other key.
const (
	KindSecret  Kind = "secret"
	KindSession Kind = "session"
)

// SessionKey holds the fields of a browser's key in an org.
type SessionKey struct {
	Session id.BrowserSession
	Person  id.Person
	// Label names the browser's user in logs: an email address, or "operator".
	Label     string
	Scopes    scope.Set
	ExpiresAt time.Time
}

// sessionHash returns the hash under which a browser's key in an org is stored. It cannot collide with the hash of a
// secret key, because no secret key contains a bar.
func sessionHash(cookie secret.String, owner id.Org) hash {
	return sha256.Sum256([]byte(cookie.Reveal() + "|" + string(owner)))
}

// VerifySession is Verify for a browser in an org. ok is false if the browser has no key there or its key has ended;
// package member then decides whether the browser gets one. With the problem org-suspended it returns the identity as
// well.
func (s *Keys) VerifySession(ctx context.Context, cookie secret.String, owner id.Org, source string) (p *Principal, ok bool, err error) {
	h := sessionHash(cookie, owner)
	p, found := s.cached.keys.Get(h)
	if !found || !s.isFresh(p) || p.Org.SuspendedAt != nil {
		if !found || p.unknown {
			if err := s.Guess(source); err != nil {
				return nil, false, err
			}
		}
		if p, err = s.loadShared(ctx, h); err != nil {
			return nil, false, err
		}
	}
	if p.unknown || s.hasEnded(p) {
		return nil, false, nil
	}
	return p, true, s.checkUsable(p)
}

// RefreshSession reads the key that GrantSession has just written, bypassing the cache. The read starts at or after
// since.
func (s *Keys) RefreshSession(ctx context.Context, cookie secret.String, owner id.Org, since time.Time) (*Principal, error) {
	p, err := s.Refresh(ctx, &Principal{hash: sessionHash(cookie, owner)}, since)
	if errors.Is(err, problem.KeyInvalid.New("")) {
		return nil, signedOut() // ended between the grant and this read
	}
	return p, err
}

// hasEnded reports whether a key was revoked or has expired.
func (s *Keys) hasEnded(p *Principal) bool {
	return p.Key.RevokedAt != nil || p.Key.ExpiresAt != nil && !s.deps.Now().Before(*p.Key.ExpiresAt)
}

func signedOut() error { return problem.SignedOut.New("The browser session has ended.") }

// GrantSession gives a browser its key in an org, in package member's transaction. A key that had ended becomes valid
// again. first reports whether the browser never had a key there.
func (s *Keys) GrantSession(ctx context.Context, tx postgres.Tx, cookie secret.String, owner id.Org, k SessionKey) (first bool, err error) {
	return upsertSessionKey(ctx, tx, owner, sessionHash(cookie, owner), k, s.deps.Now())
}

// ChangeScopes sets the scopes of all of a person's browsers in an org. The caller must advance the org's epoch.
func (s *Keys) ChangeScopes(ctx context.Context, tx postgres.Tx, owner id.Org, person id.Person, scopes scope.Set) error {
	p := db.ScopesOfPersonParams{OrgID: owner, PersonID: person, Scopes: scopes.Names()}
	return db.New(tx).ScopesOfPerson(ctx, p)
}

// RevokePerson revokes the keys of all of a person's browsers in an org. The caller must advance the org's epoch.
func (s *Keys) RevokePerson(ctx context.Context, tx postgres.Tx, owner id.Org, person id.Person) error {
	now := s.deps.Now()
	return db.New(tx).RevokeOfPerson(ctx, db.RevokeOfPersonParams{OrgID: owner, PersonID: person, Now: &now})
}

// MintedBy returns the valid secret keys that a person has created, directly or through other keys, oldest first.
func (s *Keys) MintedBy(ctx context.Context, tx postgres.Tx, owner id.Org, person id.Person) ([]Key, error) {
	now := s.deps.Now()
	rows, err := db.New(tx).Minted(ctx, db.MintedParams{OrgID: owner, MintedBy: person, Now: &now})
	return postgres.Convert(rows, fromRow), err
}

// RevokeMinted revokes the keys that MintedBy returns, except for one, and returns them. The caller must advance the
// org's epoch and write the audit entry.
func (s *Keys) RevokeMinted(ctx context.Context, tx postgres.Tx, by audit.By, owner id.Org, person id.Person, except id.Key) ([]Key, error) {
	minted, err := s.MintedBy(ctx, tx, owner, person)
	if err != nil {
		return nil, err
	}
	minted = slices.DeleteFunc(minted, func(k Key) bool { return k.ID == except })
	for _, k := range minted {
		if _, err := s.revokeOne(ctx, tx, by, owner, k.ID); err != nil {
			return nil, err
		}
	}
	return minted, nil
}

// SessionOrgs returns the orgs in which a browser has a key, sorted by id.
func (s *Keys) SessionOrgs(ctx context.Context, tx postgres.Tx, session id.BrowserSession) ([]id.Org, error) {
	return db.New(tx).OrgsOfSession(ctx, session)
}

// RevokeSession revokes a browser's keys in all orgs. The caller must advance the epochs of these orgs.
func (s *Keys) RevokeSession(ctx context.Context, tx postgres.Tx, session id.BrowserSession) error {
	now := s.deps.Now()
	return db.New(tx).RevokeSession(ctx, db.RevokeSessionParams{SessionID: session, Now: &now})
}

// ExtendSession sets the expiry of all of a browser's keys that are not revoked.
func (s *Keys) ExtendSession(ctx context.Context, session id.BrowserSession, until time.Time) error {
	return db.New(s.deps.DB).ExtendSession(ctx, db.ExtendSessionParams{SessionID: session, ExpiresAt: &until})
}

// Sessions returns the browsers that have a valid key in an org.
func (s *Keys) Sessions(ctx context.Context, owner id.Org) ([]id.BrowserSession, error) {
	now := s.deps.Now()
	return db.New(s.deps.DB).SessionsIn(ctx, db.SessionsInParams{OrgID: owner, Now: &now})
}

// TrimSessions deletes session keys that expired before a time.
func (s *Keys) TrimSessions(ctx context.Context, before time.Time) error {
	return db.New(s.deps.DB).TrimSessions(ctx, &before)
}
