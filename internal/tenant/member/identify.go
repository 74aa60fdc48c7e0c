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
)

// Cookie is the name under which a browser keeps its session, and OrgHeader names the org that a request of its is about.
const (
	Cookie    = "__Host-sd_session"
	OrgHeader = "Stagedoor-Org"
)

// From is where a request comes from.
type From struct {
	Source  string
	Request id.Request
	IPHash  string
}

// Identify finds out what a browser may do in an org. wanted is the org's id; empty means the one that the browser shows. The answer is
// as old as one about a key may be: admission notices what has changed since.
func (s *Members) Identify(ctx context.Context, cookie secret.String, wanted string, from From) (*apikey.Principal, error) {
	if !sound(cookie) {
		return nil, signedOut()
	}
	owner, err := s.which(ctx, cookie, wanted, from.Source)
	if err != nil {
		return nil, err
	}
	p, ok, err := s.Keys.BySession(ctx, cookie, owner, from.Source)
	if err == nil && !ok {
		p, err = s.admit(ctx, cookie, owner, from)
	}
	if err != nil {
		return nil, err
	}
	s.note(ctx, p)
	return p, nil
}

// which reads the org that a request is about.
func (s *Members) which(ctx context.Context, cookie secret.String, wanted, source string) (id.Org, error) {
	if wanted != "" {
		owner, err := id.Parse[id.Org](wanted)
		if err != nil {
			return "", notMember()
		}
		return owner, nil
	}
	if err := s.Keys.Guess(source); err != nil {
		return "", err
	}
	b, err := s.Find(ctx, cookie)
	if err != nil {
		s.missed(err, source)
		return "", err
	}
	if b.Org == "" {
		return "", notMember()
	}
	return b.Org, nil
}

// Ended says why a browser whose key in an org is over may no longer act there: it is signed out, or its person no longer belongs to the org.
func (s *Members) Ended(ctx context.Context, browser id.BrowserSession) error {
	list, err := sessionsByID(ctx, s.DB.Pool(), []id.BrowserSession{browser})
	switch {
	case err != nil:
		return err
	case len(list) == 0 || list[0].over(s.Now()):
		return signedOut()
	}
	return notMember()
}

// missed counts a cookie that was never one. A browser whose session has ended may ask as often as it likes.
func (s *Members) missed(err error, source string) {
	if errors.Is(err, errNever) {
		s.Keys.Missed(source)
	}
}

// admit gives a browser its key in an org, once for all requests that wait for it.
func (s *Members) admit(ctx context.Context, cookie secret.String, owner id.Org, from From) (*apikey.Principal, error) {
	h := hashOf(cookie)
	_, err, _ := s.entering.Do(string(h[:])+string(owner), func() (any, error) {
		// The result serves others too: one caller's going away must not fail it for all.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), enterAtMost)
		defer cancel()
		err := s.DB.Tx(ctx, func(tx postgres.Tx) error {
			b, err := s.hold(ctx, tx, cookie)
			if err != nil {
				return err
			}
			return s.enter(ctx, tx, audit.By{Request: from.Request, IPHash: from.IPHash}, cookie, b, owner)
		})
		s.missed(err, from.Source)
		return nil, err
	})
	if err != nil {
		return nil, err
	}
	return s.Keys.AfterEnter(ctx, cookie, owner, s.Now())
}

// enterAtMost bounds how long a request waits for a database that hangs.
const enterAtMost = 3 * time.Second

// sighting is a browser in an org.
type sighting struct {
	browser id.BrowserSession
	org     id.Org
}

// note keeps a browser that is used from ending. What cannot be written is written with the next request, a while before it matters.
func (s *Members) note(ctx context.Context, p *apikey.Principal) {
	at, now := sighting{p.Key.Session, p.Org.ID}, s.Now()
	if last, ok := s.seen.Get(at); ok && now.Sub(last) < seenEvery {
		return
	}
	s.seen.Put(at, now)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteAtMost)
	defer cancel()
	if err := s.write(ctx, p, now); err != nil {
		s.seen.Drop(at)
	}
}

// noteAtMost is little: the caller waits for it, and it can be done later.
const noteAtMost = 500 * time.Millisecond

func (s *Members) write(ctx context.Context, p *apikey.Principal, now time.Time) error {
	ends, err := seen(ctx, s.DB.Pool(), p.Key.Session, now)
	if errors.Is(err, postgres.ErrNoRows) {
		return nil // ended, or another node was quicker
	}
	if err != nil {
		return err
	}
	if err := s.Keys.Extend(ctx, p.Key.Session, earlier(ends, now.Add(idleFor))); err != nil {
		return err
	}
	return seenIn(ctx, s.DB.Pool(), p.Org.ID, p.Key.Person, now)
}
