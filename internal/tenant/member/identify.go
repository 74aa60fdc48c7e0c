package member

import (
	"context"
	"errors"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/member/internal/db"
)

// Cookie is the name of the cookie that holds a browser's session. OrgHeader is the header in which a browser names the
// org of a request.
const (
	Cookie    = "__Host-sd_session"
	OrgHeader = "Stagedoor-Org"
)

// From describes the origin of a request.
type From struct {
	// Source is the network, for apikey's limit on guesses.
	Source  string
	Request id.Request
	IPHash  string
}

// Identify returns a browser's identity in an org. wanted is the org's id; if it is empty, Identify uses the org that
// the browser shows. The identity may be as old as one from apikey.Verify: admission detects later changes.
//
// A browser gets its hidden key in an org at its first request there. With the problem org-suspended, Identify returns
// the identity as well, so that an org that is being deleted can be restored.
func (s *Members) Identify(ctx context.Context, cookie secret.String, wanted string, from From) (*apikey.Principal, error) {
	if !isWellFormed(cookie) {
		return nil, signedOut()
	}
	owner, err := s.requestedOrg(ctx, cookie, wanted, from.Source)
	if err != nil {
		return nil, err
	}
	p, ok, err := s.deps.Keys.VerifySession(ctx, cookie, owner, from.Source)
	if err == nil && !ok {
		p, err = s.grantAccess(ctx, cookie, owner, from)
	}
	if err != nil {
		return p, err
	}
	s.recordSeen(ctx, p)
	return p, nil
}

func (s *Members) requestedOrg(ctx context.Context, cookie secret.String, wanted, source string) (id.Org, error) {
	if wanted != "" {
		owner, err := id.Parse[id.Org](wanted)
		if err != nil {
			return "", notMember()
		}
		return owner, nil
	}
	if err := s.deps.Keys.Guess(source); err != nil {
		return "", err
	}
	b, err := s.Find(ctx, cookie)
	if err != nil {
		s.countMiss(err, source)
		return "", err
	}
	if b.Org == "" {
		return "", notMember()
	}
	return b.Org, nil
}

// Ended returns the reason why a browser's key in an org has ended: the problem signed-out if the browser is signed
// out, else membership-missing because its user no longer belongs to the org.
func (s *Members) Ended(ctx context.Context, browser id.BrowserSession) error {
	list, err := sessionsByID(ctx, s.deps.DB, []id.BrowserSession{browser})
	switch {
	case err != nil:
		return err
	case len(list) == 0 || list[0].hasEnded(s.deps.Now()):
		return signedOut()
	}
	return notMember()
}

// countMiss counts a cookie that never existed towards the source's limit of guesses. A cookie whose session has ended
// does not count.
func (s *Members) countMiss(err error, source string) {
	if errors.Is(err, errUnknownCookie) {
		s.deps.Keys.Missed(source)
	}
}

// grantAccess gives a browser its key in an org, in one transaction for all requests that wait for it.
func (s *Members) grantAccess(ctx context.Context, cookie secret.String, owner id.Org, from From) (*apikey.Principal, error) {
	h := hashToken(cookie)
	_, err, _ := s.granting.Do(string(h[:])+string(owner), func() (any, error) {
		// Other requests wait for the result too, so the cancellation of the first one must not fail it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grantTimeout)
		defer cancel()
		err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
			b, err := s.holdBrowser(ctx, tx, cookie)
			if err != nil {
				return err
			}
			return s.grantKey(ctx, tx, audit.By{Request: from.Request, IPHash: from.IPHash}, cookie, b, owner)
		})
		s.countMiss(err, from.Source)
		return nil, err
	})
	if err != nil {
		return nil, err
	}
	return s.deps.Keys.RefreshSession(ctx, cookie, owner, s.deps.Now())
}

// grantTimeout bounds how long a request waits for a database that hangs.
const grantTimeout = 3 * time.Second

type browserInOrg struct {
	browser id.BrowserSession
	org     id.Org
}

// recordSeen records that a browser is in use, at most once per seenInterval, which extends its session. If the write
// fails, the next request repeats it, long before the session would end.
func (s *Members) recordSeen(ctx context.Context, p *apikey.Principal) {
	at, now := browserInOrg{p.Key.Session, p.Org.ID}, s.deps.Now()
	if last, ok := s.lastSeen.Get(at); ok && now.Sub(last) < seenInterval {
		return
	}
	s.lastSeen.Put(at, now)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := s.writeSeen(ctx, p, now); err != nil {
		s.lastSeen.Drop(at)
	}
}

// recordTimeout is short because the request waits for the write, which can be repeated later.
const recordTimeout = 500 * time.Millisecond

func (s *Members) writeSeen(ctx context.Context, p *apikey.Principal, now time.Time) error {
	ends, err := db.New(s.deps.DB).Seen(ctx, db.SeenParams{ID: p.Key.Session, Now: now})
	if errors.Is(err, postgres.ErrNoRows) {
		return nil // ended, or another node was quicker
	}
	if err != nil {
		return err
	}
	if err := s.deps.Keys.ExtendSession(ctx, p.Key.Session, earlier(ends, now.Add(idleTimeout))); err != nil {
		return err
	}
	return db.New(s.deps.DB).SeenIn(ctx, db.SeenInParams{OrgID: p.Org.ID, PersonID: p.Key.Person, Now: &now})
}
