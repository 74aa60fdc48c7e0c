// Package link owns hosted connect sessions: one link for one creator, until one account is connected (session.go), what the
// creator agrees to (consent.go), the link by which a creator sees and ends a connection (manage.go), the one by which an account is connected again (reconnect.go), and how an org's pages look and
// who may frame them (page.go).
//
// It does not own attempts. Package connect tells it, in the transactions of an attempt, that one has begun or ended. A session's
// timers are rows: Sweep ends what has run out.
package link

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Session is one.
type Session struct {
	ID     id.Session
	Org    id.Org
	Status Status
	// Kinds are the ways to connect that the creator may choose from.
	Kinds                      []string
	ReferenceID, Label, Region string
	// Account is the one to connect again; empty for any.
	Account        id.Account
	ReturnURL      string
	AllowedOrigins []string
	// Locale is empty when the creator's browser decides.
	Locale   string
	Remember string
	// Attempts are listed from the oldest. Active is the one under way.
	Attempts []id.Attempt
	Active   id.Attempt
	// Connected is the account that came of it.
	Connected            id.Account
	CreatedAt, UpdatedAt time.Time
	ExpiresAt            time.Time
	// OpenedAt is when the link was first opened, by whoever or whatever.
	OpenedAt, FinishedAt *time.Time

	due time.Time
	// hash is that of the token in the link.
	hash []byte
}

// Last is the newest attempt, or empty.
func (s Session) Last() id.Attempt {
	if len(s.Attempts) == 0 {
		return ""
	}
	return s.Attempts[len(s.Attempts)-1]
}

// Offers says whether a creator may connect in this way.
func (s Session) Offers(kind string) bool { return slices.Contains(s.Kinds, kind) }

// Deps is what the service needs.
type Deps struct {
	DB     *postgres.DB
	Audit  *audit.Log
	Outbox *outbox.Outbox
	// Keys makes the tokens of sessions that can be found again.
	Keys deriver
	// Regions are those that an account may have.
	Regions []string
	Now     func() time.Time
}

// Sessions is the service.
type Sessions struct{ Deps }

// New makes the service.
func New(d Deps) *Sessions { return &Sessions{d} }

// tokenPrefix marks the token of a session's link; 32 random bytes follow.
const tokenPrefix = "cst_"

// ErrOver means that nothing more can be started in a session.
var ErrOver = errors.New("the connect session is over")

// Create makes a session. The token is in the link and is given out this once; only its hash is kept.
func (s *Sessions) Create(ctx context.Context, by audit.By, o org.Org, d Draft) (Session, secret.String, error) {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	token := secret.New(tokenPrefix + base64.RawURLEncoding.EncodeToString(raw))
	made, err := s.create(ctx, by, o, id.New[id.Session](), token, d)
	return made, token, err
}

func (s *Sessions) create(ctx context.Context, by audit.By, o org.Org, at id.Session, token secret.String, d Draft) (Session, error) {
	d = d.withDefaults()
	if err := d.validate(o.Environment, s.Regions); err != nil {
		return Session{}, err
	}
	now := s.Now().Truncate(time.Microsecond)
	made := Session{
		ID: at, Org: o.ID, Status: Open, Kinds: d.Kinds, ReferenceID: d.ReferenceID, Label: d.Label, Region: d.Region,
		Account: d.Account, ReturnURL: d.ReturnURL, AllowedOrigins: d.AllowedOrigins, Locale: d.Locale, Remember: d.Remember,
		CreatedAt: now, UpdatedAt: now, ExpiresAt: now.Add(d.ExpiresIn),
	}
	err := s.DB.Tx(ctx, func(tx postgres.Tx) error {
		if err := insert(ctx, tx, made, hashToken(token.Reveal())); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, o.ID, by, string(made.ID), audit.Changes{
			"kinds": {To: made.Kinds}, "accountId": {To: made.Account}, "referenceId": {To: made.ReferenceID}, "expiresAt": {To: made.ExpiresAt},
		})
	})
	return made, err
}

// Get reads a session of an org's.
func (s *Sessions) Get(ctx context.Context, org id.Org, session id.Session) (Session, error) {
	found, err := get(ctx, s.DB.Pool(), org, session)
	return s.asOf(found), err
}

// ByToken finds the session of a link. It changes nothing: whatever opens a link, such as a mail scanner, does not use it up.
func (s *Sessions) ByToken(ctx context.Context, token string) (Session, error) {
	raw, ok := strings.CutPrefix(token, tokenPrefix)
	if bytes, err := base64.RawURLEncoding.Strict().DecodeString(raw); !ok || err != nil || len(bytes) != 32 {
		return Session{}, notFound(postgres.ErrNoRows)
	}
	found, err := byToken(ctx, s.DB.Pool(), hashToken(token))
	return s.asOf(found), err
}

// Opened notes that the link was opened. It uses nothing up.
func (s *Sessions) Opened(ctx context.Context, it Session) error {
	if it.OpenedAt != nil {
		return nil
	}
	return opened(ctx, s.DB.Pool(), it.Org, it.ID, s.Now().Truncate(time.Microsecond))
}

// Filter chooses sessions. What is empty does not matter.
type Filter struct {
	Status      Status
	ReferenceID string
	// Accounts are those that are to be connected again; nil for all sessions.
	Accounts []id.Account
	// Before is the last of the page before.
	Before id.Session
	Limit  int
}

// List lists sessions, newest first.
func (s *Sessions) List(ctx context.Context, org id.Org, f Filter) ([]Session, error) {
	found, err := list(ctx, s.DB.Pool(), org, f, s.Now())
	for i := range found {
		found[i] = s.asOf(found[i])
	}
	return found, err
}

// Made is how many links were made, and how many of them opened.
type Made struct{ All, Opened int64 }

// CountLinks counts the links that were made within a time.
func (s *Sessions) CountLinks(ctx context.Context, org id.Org, since, until time.Time, accounts []id.Account) (Made, error) {
	return countLinks(ctx, s.DB.Pool(), org, since, until, accounts)
}

// asOf shows a session as expired from that very moment, not from the sweep that follows.
func (s *Sessions) asOf(found Session) Session {
	if found.Active == "" && !s.Now().Before(found.ExpiresAt) {
		if to, ok := found.Status.next(ranOut); ok {
			found.Status = to
		}
	}
	return found
}

// maxAttempts bounds how often a creator may try within one session.
const maxAttempts = 20

// Begin notes, in the transaction that makes an attempt, that it was started in a session.
func (s *Sessions) Begin(ctx context.Context, tx postgres.Tx, org id.Org, session id.Session, attempt id.Attempt) error {
	return s.change(ctx, tx, org, session, func(it *Session, now time.Time) error {
		to, ok := it.Status.next(begun)
		switch {
		case !ok || !now.Before(it.ExpiresAt) || len(it.Attempts) >= maxAttempts:
			return ErrOver
		case it.Active != "":
			return problem.AttemptInProgress.New("Another attempt is under way in this session.").With("attemptId", it.Active)
		}
		it.Status, it.Active = to, attempt
		it.Attempts = append(it.Attempts, attempt)
		it.due = now.Add(longest)
		return nil
	})
}

// Ended notes, in the transaction that ends an attempt, how it went. account is empty unless one was connected.
func (s *Sessions) Ended(ctx context.Context, tx postgres.Tx, org id.Org, session id.Session, attempt id.Attempt, account id.Account) error {
	return s.change(ctx, tx, org, session, func(it *Session, now time.Time) error {
		if it.Active == attempt {
			it.Active = ""
		}
		if account != "" && slices.Contains(it.Attempts, attempt) {
			return s.finish(ctx, tx, it, succeeded, account)
		}
		if it.FinishedAt == nil && it.Active == "" {
			it.due = earlier(it.ExpiresAt, now.Add(idle))
		}
		return nil
	})
}

// Exit ends a session because the creator said so. The attempt under way is the caller's to cancel first. What is over stays as it is.
func (s *Sessions) Exit(ctx context.Context, org id.Org, session id.Session) (Session, error) {
	var left Session
	err := s.DB.Tx(ctx, func(tx postgres.Tx) error {
		return s.change(ctx, tx, org, session, func(it *Session, _ time.Time) error {
			err := s.finish(ctx, tx, it, exited, "")
			left = *it
			return err
		})
	})
	return left, err
}

// change locks a session, changes it and writes it.
func (s *Sessions) change(ctx context.Context, tx postgres.Tx, org id.Org, session id.Session, do func(it *Session, now time.Time) error) error {
	it, err := lock(ctx, tx, org, session)
	if err != nil {
		return err
	}
	now := s.Now().Truncate(time.Microsecond)
	if err := do(&it, now); err != nil {
		return err
	}
	it.UpdatedAt = now
	return save(ctx, tx, it)
}

// Finished is the data of the event that tells the end of a session.
type Finished struct {
	SessionID   id.Session   `json:"sessionId"`
	Status      Status       `json:"status"`
	Attempts    []id.Attempt `json:"attempts"`
	AccountID   id.Account   `json:"accountId,omitempty"`
	ReferenceID string       `json:"referenceId,omitempty"`
}

// finish takes a session to its end and tells it. A session that has ended is left alone.
func (s *Sessions) finish(ctx context.Context, tx postgres.Tx, it *Session, t trigger, account id.Account) error {
	to, ok := it.Status.next(t)
	if !ok {
		return nil
	}
	now := s.Now().Truncate(time.Microsecond)
	it.Status, it.Connected, it.FinishedAt, it.due = to, account, &now, now.Add(kept)
	attempts := it.Attempts
	if attempts == nil {
		attempts = []id.Attempt{}
	}
	return s.Outbox.Add(ctx, tx, outbox.Event{Org: it.Org, Kind: "connect.session_finished", Data: Finished{
		SessionID: it.ID, Status: to, Attempts: attempts, AccountID: account, ReferenceID: it.ReferenceID,
	}})
}

// Sweep ends the sessions that have run out or been left, forgets old ones, and says how many it dealt with. Many nodes may sweep at
// once: each takes others' rows. Call it again while it finds some.
func (s *Sessions) Sweep(ctx context.Context) (int, error) {
	var n int
	err := s.DB.Tx(ctx, func(tx postgres.Tx) error {
		now := s.Now().Truncate(time.Microsecond)
		list, err := due(ctx, tx, now, sweepAtMost)
		if err != nil {
			return err
		}
		for _, it := range list {
			if err := s.sweep(ctx, tx, it, now); err != nil {
				return err
			}
		}
		n = len(list)
		return nil
	})
	return n, err
}

func (s *Sessions) sweep(ctx context.Context, tx postgres.Tx, it Session, now time.Time) error {
	if it.FinishedAt != nil {
		return forget(ctx, tx, it.Org, it.ID)
	}
	why := walkedAway
	if it.Active == "" && !now.Before(it.ExpiresAt) {
		why = ranOut
	}
	if err := s.finish(ctx, tx, &it, why, ""); err != nil {
		return err
	}
	it.Active, it.UpdatedAt = "", now
	return save(ctx, tx, it)
}

func hashToken(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// notFound hides whether a session is another's, never existed, or has the wrong form.
func notFound(err error) error {
	if errors.Is(err, postgres.ErrNoRows) {
		return problem.SessionNotFound.New("There is no connect session with this id.")
	}
	return err
}
