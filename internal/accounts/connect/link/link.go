// Package link owns link sessions: one link for one creator, until one account is connected (Sessions). It also owns
// the links with which a creator manages a connection (manage.go) or connects an account again (reconnect.go), the mail
// that confirms a connection (receipt.go), what the creator agrees to (consent.go), and the appearance of an org's
// connect pages (page.go).
//
// It does not own attempts: package connect reports the start and the end of an attempt in the attempt's transactions
// (AttemptStarted, AttemptEnded). It does not render pages either (package server/connectpages). state.go is the state
// machine of a session, and browser.go binds a session to one browser. Timers are rows, and Sweep ends the sessions that are due.
package link

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Session is one link and what became of it.
type Session struct {
	ID     id.Session
	Org    id.Org
	Status Status
	// Kinds are the connect methods that the creator may choose from.
	Kinds                      []string
	ReferenceID, Label, Region string
	// Platform is the platform that the page asks for; empty for the default. Site is the creator's site; empty if the
	// platform has none, or to let the creator name it.
	Platform, Site string
	// Account is the account to connect again; empty for any.
	Account        id.Account
	ReturnURL      string
	AllowedOrigins []string
	// Locale is empty if the creator's browser decides.
	Locale string
	// Remember is one of RememberAsk, RememberAlways and RememberNever.
	Remember string
	// Attempts lists the attempts, oldest first. Active is the one in progress; empty for none.
	Attempts             []id.Attempt
	Active               id.Attempt
	Connected            id.Account
	CreatedAt, UpdatedAt time.Time
	ExpiresAt            time.Time
	// OpenedAt is when a person first opened the link.
	OpenedAt, FinishedAt *time.Time
	// OpenedIn is the browser that the session is bound to, since BoundAt.
	OpenedIn Browser
	BoundAt  *time.Time
	// Mail says what became of the mail with the link; nil if none was asked for. Only Create sets it.
	Mail *mail.Report

	// browsers holds the hashes of all browsers that opened the link, the current one last. others is how many of the
	// attempts were made before the current one opened it.
	browsers [][]byte
	others   int
	// due is when Sweep must handle the session.
	due time.Time
	// hash is the hash of the token in the link.
	hash []byte
	// receiptTo is the address to which the link was mailed, sealed; nil if it was not mailed or the session has ended.
	receiptTo []byte
}

// Last returns the newest attempt of the browser that the session is bound to; empty if there is none.
func (s Session) Last() id.Attempt {
	if len(s.Attempts) <= s.others {
		return ""
	}
	return s.Attempts[len(s.Attempts)-1]
}

// Offers reports whether the creator may use a connect method.
func (s Session) Offers(kind string) bool { return slices.Contains(s.Kinds, kind) }

// Deps holds the dependencies of Sessions.
type Deps struct {
	DB     *postgres.DB
	Audit  *audit.Log
	Outbox *outbox.Outbox
	// Keys derives the tokens of sessions that Reconnecting returns again.
	Keys deriver
	// Seal seals the addresses to which links were mailed.
	Seal sealer
	Mail *mail.Outbox
	// ConnectURL is the address of the connect pages, without a trailing slash.
	ConnectURL string
	// Regions lists the regions that an account can have.
	Regions func() []string
	Now     func() time.Time
}

// Sessions stores link sessions and applies their changes of state. It is safe for concurrent use.
type Sessions struct{ deps Deps }

// New returns the service.
func New(d Deps) *Sessions { return &Sessions{d} }

// TokenPrefix starts the token of a session's link; 32 bytes in base64url follow.
const TokenPrefix = "cst_"

// ErrOver means that no more attempts can be started in a session.
var ErrOver = errors.New("the connect session is over")

// Create creates a session and returns the token of its link. Only the hash of the token is stored, so it cannot be
// returned again.
func (s *Sessions) Create(ctx context.Context, by audit.By, o org.Org, d Draft) (Session, secret.String, error) {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	token := secret.New(TokenPrefix + base64.RawURLEncoding.EncodeToString(raw))
	made, err := s.createSession(ctx, by, o, id.New[id.Session](), token, d)
	return made, token, err
}

func (s *Sessions) createSession(ctx context.Context, by audit.By, o org.Org, at id.Session, token secret.String,
	d Draft) (Session, error) {
	d = d.withDefaults()
	if err := d.validate(o.Environment, s.deps.Regions()); err != nil {
		return Session{}, err
	}
	now := s.deps.Now().Truncate(time.Microsecond)
	made := Session{
		ID: at, Org: o.ID, Status: Open, Kinds: d.Kinds, Platform: d.Platform, Site: d.Site, ReferenceID: d.ReferenceID, Label: d.Label, Region: d.Region,
		Account: d.Account, ReturnURL: d.ReturnURL, AllowedOrigins: d.AllowedOrigins, Locale: d.Locale, Remember: d.Remember,
		CreatedAt: now, UpdatedAt: now, ExpiresAt: now.Add(d.ExpiresIn), hash: hashToken(token.Reveal()),
	}
	letter, asked, err := s.composeLink(ctx, o, made, d, token)
	if err != nil {
		return Session{}, err
	}
	if asked {
		if made.receiptTo, err = s.sealRecipient(ctx, made, d.DeliverEmail); err != nil {
			return Session{}, err
		}
	}
	err = s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		if err := insertSession(ctx, tx, made); err != nil {
			return err
		}
		changes := audit.Changes{
			"kinds": {To: made.Kinds}, "accountId": {To: made.Account}, "expiresAt": {To: made.ExpiresAt},
		}
		if asked {
			sent, err := s.deps.Mail.Add(ctx, tx, letter)
			if err != nil {
				return err
			}
			made.Mail, changes["mail"] = &sent, sent.Change()
		}
		return s.deps.Audit.Record(ctx, tx, o.ID, by, string(made.ID), changes)
	})
	return made, err
}

// URL returns the link of a session.
func (s *Sessions) URL(token secret.String) string { return s.deps.ConnectURL + "/s/" + token.Reveal() }

// composeLink writes the mail with the link of a session. asked is false if none was asked for.
func (s *Sessions) composeLink(ctx context.Context, o org.Org, made Session, d Draft, token secret.String) (letter mail.Draft, asked bool, err error) {
	to, _ := member.CleanEmail(d.DeliverEmail) // validate has checked it
	if to == "" {
		return letter, false, nil
	}
	kind := mail.ConnectLink
	if made.Account != "" {
		kind = mail.Reconnect
	}
	letter, err = s.deps.Mail.Compose(ctx, o.ID, mail.Message{
		Kind: kind, To: to, Locale: made.Locale, About: strings.Join([]string{string(made.Account), made.Platform, made.Site}, " "),
		ExpiresAt: made.ExpiresAt, Link: s.URL(token), Org: o.Name, Platform: d.PlatformName,
	})
	return letter, true, err
}

// Get returns a session of an organisation.
func (s *Sessions) Get(ctx context.Context, org id.Org, session id.Session) (Session, error) {
	found, err := getSession(ctx, s.deps.DB, org, session)
	return s.withExpiry(found), err
}

// ByToken returns the session of a link. It changes nothing, so a mail scanner that opens a link does not use it up.
func (s *Sessions) ByToken(ctx context.Context, token string) (Session, error) {
	raw, ok := strings.CutPrefix(token, TokenPrefix)
	if bytes, err := base64.RawURLEncoding.Strict().DecodeString(raw); !ok || err != nil || len(bytes) != 32 {
		return Session{}, notFound(postgres.ErrNoRows)
	}
	found, err := findByToken(ctx, s.deps.DB, hashToken(token))
	return s.withExpiry(found), err
}

// Filter selects sessions. Empty fields do not filter.
type Filter struct {
	Status      Status
	ReferenceID string
	// Accounts restricts the result to sessions that connect these accounts again; nil for all sessions.
	Accounts []id.Account
	// Before is the last id of the previous page.
	Before id.Session
	Limit  int
}

// List returns sessions, newest first.
func (s *Sessions) List(ctx context.Context, org id.Org, f Filter) ([]Session, error) {
	found, err := listSessions(ctx, s.deps.DB, org, f, s.deps.Now())
	for i := range found {
		found[i] = s.withExpiry(found[i])
	}
	return found, err
}

// Counts counts links and how many of them were opened.
type Counts struct{ All, Opened int64 }

// CountLinks counts the links that were created between since and until. accounts restricts it as in Filter.
func (s *Sessions) CountLinks(ctx context.Context, org id.Org, since, until time.Time,
	accounts []id.Account) (Counts, error) {
	row, err := db.New(s.deps.DB).CountOpened(ctx, db.CountOpenedParams{
		OrgID: org, First: string(id.Earliest[id.Session](since)), Last: string(id.Earliest[id.Session](until)),
		Accounts: id.Texts(accounts),
	})
	return Counts{row.Made, row.Opened}, err
}

// withExpiry returns the session as expired from the moment it expires, not only after the next sweep.
func (s *Sessions) withExpiry(found Session) Session {
	if found.Active == "" && !s.deps.Now().Before(found.ExpiresAt) {
		if to, ok := found.Status.next(timedOut); ok {
			found.Status = to
		}
	}
	return found
}

// maxAttempts bounds the attempts in one session.
const maxAttempts = 20

// AttemptStarted records that an attempt was started in a session, in the transaction that starts it. openings is
// Session.Openings of the session as the creator's browser knew it: after another browser has taken the session, it
// fails with ErrElsewhere. It fails with ErrOver, or with attempt-in-progress if another attempt is in progress.
func (s *Sessions) AttemptStarted(ctx context.Context, tx postgres.Tx, org id.Org, session id.Session, openings int,
	attempt id.Attempt) error {
	return s.changeSession(ctx, tx, org, session, func(it *Session, now time.Time) error {
		to, ok := it.Status.next(attemptStarted)
		switch {
		case it.Openings() != openings:
			return ErrElsewhere
		case !ok || !now.Before(it.ExpiresAt) || len(it.Attempts) >= maxAttempts:
			return ErrOver
		case it.Active != "":
			return problem.AttemptInProgress.New("Another attempt is in progress in this session.").With("attemptId", it.Active)
		}
		it.Status, it.Active = to, attempt
		it.Attempts = append(it.Attempts, attempt)
		it.due = now.Add(attemptTimeout)
		return nil
	})
}

// AttemptEnded records the end of an attempt, in the transaction that ends it. account is the account that was
// connected; empty if the attempt failed. Repeating it changes nothing.
func (s *Sessions) AttemptEnded(ctx context.Context, tx postgres.Tx, org id.Org, session id.Session,
	attempt id.Attempt, account id.Account) error {
	return s.changeSession(ctx, tx, org, session, func(it *Session, now time.Time) error {
		if it.Active == attempt {
			it.Active = ""
		}
		if account != "" && slices.Contains(it.Attempts, attempt) {
			return s.endSession(ctx, tx, it, attemptSucceeded, account)
		}
		if it.FinishedAt == nil && it.Active == "" {
			it.due = earlier(it.ExpiresAt, now.Add(idleTimeout))
		}
		return nil
	})
}

// Exit ends a session because the creator left. Cancel an attempt in progress first. openings is as for AttemptStarted:
// after another browser has taken the session, Exit fails with ErrElsewhere. Exit does not change a session that has ended.
func (s *Sessions) Exit(ctx context.Context, org id.Org, session id.Session, openings int) (Session, error) {
	var left Session
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		return s.changeSession(ctx, tx, org, session, func(it *Session, _ time.Time) error {
			if it.Openings() != openings {
				return ErrElsewhere
			}
			err := s.endSession(ctx, tx, it, creatorLeft, "")
			left = *it
			return err
		})
	})
	return left, err
}

// changeSession applies do to a session under a lock of its row, and saves it.
func (s *Sessions) changeSession(ctx context.Context, tx postgres.Tx, org id.Org, session id.Session,
	do func(it *Session, now time.Time) error) error {
	it, err := lockSession(ctx, tx, org, session)
	if err != nil {
		return err
	}
	now := s.deps.Now().Truncate(time.Microsecond)
	if err := do(&it, now); err != nil {
		return err
	}
	it.UpdatedAt = now
	return saveSession(ctx, tx, it)
}

// endSession ends a session and writes the event. It does nothing if the trigger is not allowed in the session's state.
func (s *Sessions) endSession(ctx context.Context, tx postgres.Tx, it *Session, t trigger, account id.Account) error {
	to, ok := it.Status.next(t)
	if !ok {
		return nil
	}
	now := s.deps.Now().Truncate(time.Microsecond)
	it.Status, it.Connected, it.FinishedAt, it.due = to, account, &now, now.Add(retention)
	attempts := it.Attempts
	if attempts == nil {
		attempts = []id.Attempt{}
	}
	return s.deps.Outbox.Add(ctx, tx, outbox.Event{Org: it.Org, Data: contract.ConnectSessionFinished{
		SessionID: it.ID, Status: string(to), Attempts: attempts, AccountID: account, ReferenceID: it.ReferenceID,
	}})
}

// Leave empties the sessions of an account that is being disconnected, in the transaction that takes it out of use.
func (s *Sessions) Leave(ctx context.Context, tx postgres.Tx, org id.Org, account id.Account) error {
	if err := db.New(tx).ForgetAccount(ctx, db.ForgetAccountParams{OrgID: org, AccountID: string(account)}); err != nil {
		return fmt.Errorf("empty the sessions of %s: %w", account, err)
	}
	return nil
}

// Sweep ends sessions that have expired or were abandoned, deletes old ones, and returns how many it handled. Several
// nodes may sweep concurrently: each locks different rows. Call it again until it returns 0.
func (s *Sessions) Sweep(ctx context.Context) (int, error) {
	var n int
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		now := s.deps.Now().Truncate(time.Microsecond)
		list, err := db.New(tx).Due(ctx, db.DueParams{Now: now, MaxRows: sweepRows})
		if err != nil {
			return err
		}
		for _, row := range list {
			if err := s.sweepOne(ctx, tx, fromRow(row), now); err != nil {
				return err
			}
		}
		n = len(list)
		return nil
	})
	return n, err
}

func (s *Sessions) sweepOne(ctx context.Context, tx postgres.Tx, it Session, now time.Time) error {
	if it.FinishedAt != nil {
		return db.New(tx).Forget(ctx, db.ForgetParams{OrgID: it.Org, ID: it.ID})
	}
	why := idleTooLong
	if it.Active == "" && !now.Before(it.ExpiresAt) {
		why = timedOut
	}
	if err := s.endSession(ctx, tx, &it, why, ""); err != nil {
		return err
	}
	it.Active, it.UpdatedAt = "", now
	return saveSession(ctx, tx, it)
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

// notFound makes a session of another org, an unknown one and a malformed token indistinguishable.
func notFound(err error) error {
	if errors.Is(err, postgres.ErrNoRows) {
		return problem.SessionNotFound.New("There is no connect session with this id.")
	}
	return err
}
