package apikey

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// Kind says what a key stands for.
type Kind string

// The kinds of key. A session's is a browser's in one org: nobody has seen it, it is in no list, and what holds for keys holds for it
// (revocation on all nodes, limits, logs). Which browsers there are is package member's.
const (
	KindSecret  Kind = "secret"
	KindSession Kind = "session"
)

// SessionKey is what a browser may do in an org.
type SessionKey struct {
	Session id.BrowserSession
	Person  id.Person
	// Label is who it is, for people.
	Label     string
	Scopes    scope.Set
	ExpiresAt time.Time
}

// sessionHash is how the key of a browser in an org is known. No API key has the bar in it, so the two kinds cannot meet.
func sessionHash(cookie secret.String, owner id.Org) hash {
	return sha256.Sum256([]byte(cookie.Reveal() + "|" + string(owner)))
}

// BySession is Verify for a browser in an org. It is not ok if the browser has no key there, or has it no longer: package member then
// finds out whether it should have one.
func (s *Keys) BySession(ctx context.Context, cookie secret.String, owner id.Org, source string) (p *Principal, ok bool, err error) {
	h := sessionHash(cookie, owner)
	p, found := s.known.keys.Get(h)
	if !found || !s.fresh(p) || p.Org.SuspendedAt != nil {
		if !found || p.unknown {
			if err := s.Guess(source); err != nil {
				return nil, false, err
			}
		}
		if p, err = s.load(ctx, h); err != nil {
			return nil, false, err
		}
	}
	if p.unknown || s.over(p) {
		return nil, false, nil
	}
	return p, true, s.usable(p)
}

// AfterEnter reads the key of a browser that has just got one, past what this node remembers.
func (s *Keys) AfterEnter(ctx context.Context, cookie secret.String, owner id.Org, since time.Time) (*Principal, error) {
	p, err := s.Refresh(ctx, &Principal{hash: sessionHash(cookie, owner)}, since)
	if errors.Is(err, problem.KeyInvalid.New("")) {
		return nil, signedOut() // it was ended in between
	}
	return p, err
}

// over says whether a key has ended.
func (s *Keys) over(p *Principal) bool {
	return p.Key.RevokedAt != nil || p.Key.ExpiresAt != nil && !s.Now().Before(*p.Key.ExpiresAt)
}

func signedOut() error { return problem.SignedOut.New("The browser session has ended.") }

// Enter gives a browser its key in an org, within a transaction of package member's. It says whether the browser had none before.
func (s *Keys) Enter(ctx context.Context, tx postgres.Tx, cookie secret.String, owner id.Org, k SessionKey) (first bool, err error) {
	return enter(ctx, tx, owner, sessionHash(cookie, owner), k, s.Now())
}

// ChangeScopes gives all browsers of a person in an org other scopes. The caller advances the org's epoch.
func (s *Keys) ChangeScopes(ctx context.Context, tx postgres.Tx, owner id.Org, person id.Person, scopes scope.Set) error {
	return scopesOfPerson(ctx, tx, owner, person, scopes)
}

// RevokePerson ends all browsers of a person in an org. The caller advances the org's epoch.
func (s *Keys) RevokePerson(ctx context.Context, tx postgres.Tx, owner id.Org, person id.Person) error {
	return revokeOfPerson(ctx, tx, owner, person, s.Now())
}

// OrgsOf lists the orgs in which a browser has a key, in the order of their ids.
func (s *Keys) OrgsOf(ctx context.Context, tx postgres.Tx, session id.BrowserSession) ([]id.Org, error) {
	return orgsOfSession(ctx, tx, session)
}

// RevokeSession ends a browser in all orgs. The caller advances their epochs.
func (s *Keys) RevokeSession(ctx context.Context, tx postgres.Tx, session id.BrowserSession) error {
	return revokeSession(ctx, tx, session, s.Now())
}

// Extend moves the end of a browser's keys.
func (s *Keys) Extend(ctx context.Context, session id.BrowserSession, until time.Time) error {
	return extendSession(ctx, s.DB.Pool(), session, until)
}

// Browsers lists the browsers that have a key in an org.
func (s *Keys) Browsers(ctx context.Context, owner id.Org) ([]id.BrowserSession, error) {
	return sessionsIn(ctx, s.DB.Pool(), owner, s.Now())
}

// TrimSessions forgets keys of browsers that ended before a time.
func (s *Keys) TrimSessions(ctx context.Context, before time.Time) error {
	return trimSessions(ctx, s.DB.Pool(), before)
}
