package link

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// A link works in one browser. The token in the link is spent when a person opens the link: the session is then bound
// to a secret that only this browser has. The token opens nothing any more, but its holder may start again in another
// browser, which takes the session from the first one.

// Browser is roughly what kind of browser opened a link, such as Safari on iPhone. Empty parts are not known.
type Browser struct{ Name, System string }

// Hold is how a browser stands to a session.
type Hold string

const (
	// Unopened means that no browser has opened the link yet.
	Unopened Hold = "unopened"
	// Here means that the session is bound to this browser.
	Here Hold = "here"
	// Lost means that another browser has taken the session from this one.
	Lost Hold = "lost"
	// Elsewhere means that the session is bound to another browser, and never was to this one.
	Elsewhere Hold = "elsewhere"
)

// maxOpenings bounds how often a link is opened: the first time, and each time that a person starts again in another
// browser.
const maxOpenings = 5

// ErrElsewhere means that a link was opened in another browser.
var ErrElsewhere = errors.New("the link was opened in another browser")

// hashBrowser returns what is stored of a browser's secret. It differs between sessions, so that the table does not
// show which links one person opened.
func hashBrowser(session id.Session, browser secret.String) []byte {
	sum := sha256.Sum256([]byte("browser " + string(session) + " " + browser.Reveal()))
	return sum[:]
}

// Held returns how a browser stands to the session. browser is its secret; empty if it has none.
func (s Session) Held(browser secret.String) Hold {
	if len(s.browsers) == 0 {
		return Unopened
	}
	if browser.Empty() {
		return Elsewhere
	}
	hash := hashBrowser(s.ID, browser)
	is := func(one []byte) bool { return subtle.ConstantTimeCompare(one, hash) == 1 }
	switch {
	case is(s.browsers[len(s.browsers)-1]):
		return Here
	case slices.ContainsFunc(s.browsers, is):
		return Lost
	}
	return Elsewhere
}

// Openings returns how often the link was opened. A browser that has seen fewer has lost the session.
func (s Session) Openings() int { return len(s.browsers) }

// CanMove reports whether a person may start again in another browser.
func (s Session) CanMove() bool { return !s.Status.Over() && len(s.browsers) < maxOpenings }

// OpenIn returns the session as opened in a browser. Opening it again in the same browser changes nothing. If it was
// opened in another browser, it fails with ErrElsewhere unless the person wants to start again there; then it fails
// with attempt-in-progress until the attempt of the other browser has ended. It fails with ErrOver if the session has
// ended or was opened too often.
func (s Session) OpenIn(browser secret.String, kind Browser, again bool, now time.Time) (Session, error) {
	switch hold := s.Held(browser); {
	case browser.Empty():
		return Session{}, errors.New("open a link without a browser")
	case hold == Here:
		return s, nil
	case hold != Unopened && !again:
		return Session{}, ErrElsewhere
	case !s.CanMove():
		return Session{}, ErrOver
	case hold != Unopened && s.Active != "":
		return Session{}, problem.AttemptInProgress.New("Another attempt is in progress in this session.").With("attemptId", s.Active)
	case hold != Unopened:
		s.others = len(s.Attempts)
	}
	s.browsers = append(slices.Clone(s.browsers), hashBrowser(s.ID, browser))
	s.OpenedIn, s.BoundAt, s.UpdatedAt = kind, &now, now
	if s.OpenedAt == nil {
		s.OpenedAt = &now
	}
	return s, nil
}

// Open binds a session to a browser, as OpenIn does, and stores it.
func (s *Sessions) Open(ctx context.Context, by audit.By, it Session, browser secret.String, kind Browser,
	again bool) (Session, error) {
	var opened Session
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		found, err := lockSession(ctx, tx, it.Org, it.ID)
		if err != nil {
			return err
		}
		now := s.deps.Now().Truncate(time.Microsecond)
		opened, err = s.withExpiry(found).OpenIn(browser, kind, again, now)
		if err != nil || opened.Openings() == found.Openings() {
			return err
		}
		if err := saveSession(ctx, tx, opened); err != nil {
			return err
		}
		return s.deps.Audit.Record(ctx, tx, it.Org, by, string(it.ID), audit.Changes{"openings": {From: found.Openings(), To: opened.Openings()}})
	})
	return opened, err
}

// ByBrowser returns a session that is bound to a browser, or was. For all other browsers it does not exist.
func (s *Sessions) ByBrowser(ctx context.Context, session id.Session, browser secret.String) (Session, error) {
	at, err := id.Parse[id.Session](string(session))
	if err != nil {
		return Session{}, notFound(postgres.ErrNoRows)
	}
	row, err := db.New(s.deps.DB).Find(ctx, at)
	if err != nil {
		return Session{}, notFound(err)
	}
	found := fromRow(row)
	if hold := found.Held(browser); hold != Here && hold != Lost {
		return Session{}, notFound(postgres.ErrNoRows)
	}
	return s.withExpiry(found), nil
}
