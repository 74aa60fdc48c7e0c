package connect

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// verifiedSession is a session that the platform has accepted.
type verifiedSession struct {
	who     driver.Identity
	session driver.Session
	// newest is the platform's newest event at that time; empty if the platform lists no events.
	newest string
}

// verifySession asks the platform whose session it is, and for its newest event. The account's listener fetches
// everything that happens after that event, however late it starts. So no event is lost once the attempt has reported
// success.
func verifySession(ctx context.Context, d driver.Driver, via driver.Via, session driver.Session) (verifiedSession,
	error) {
	who, answer, err := d.Probe(ctx, via, session)
	if err != nil {
		return verifiedSession{}, err
	}
	if len(answer.Changed) > 0 {
		session = answer.Session
	}
	p := verifiedSession{who: who, session: session}
	if !who.IsCreator {
		return p, nil
	}
	p.newest, answer, err = driver.Newest(ctx, d, via, session)
	p.session = answer.Session
	return p, err
}

// verifyStep verifies a session and connects its account. It is the last step of every attempt.
func (c *Connects) verifyStep(ctx context.Context, r record, o org.Org, s secrets) error {
	session, err := driver.DecodeSession(s.session)
	if err != nil {
		return c.releaseStep(ctx, r, err)
	}
	platform, ok := c.deps.Platforms.Get(r.place.Platform)
	if !ok {
		return c.releaseStep(ctx, r, registry.Unavailable(r.place.Platform))
	}
	p, err := verifySession(ctx, platform.Driver, via(r), session)
	if err != nil {
		if ctx.Err() != nil {
			return c.releaseStep(ctx, r, err)
		}
		f, transient := probeFailure(err)
		return c.finishStep(ctx, r, func(now *record, at time.Time) error {
			if transient {
				return now.StepNotAccepted(f, at)
			}
			return now.Fail(f, at)
		})
	}
	if !p.who.IsCreator {
		return c.rejectSession(ctx, r, p.session, attempt.CodeNotCreator)
	}
	return c.connectAccount(ctx, r, o, account.Connected{
		Org: r.Org, Account: r.Account, Identity: p.who, Place: r.place, Session: p.session, Credentials: s.credentials(), Remember: r.Remember, Region: r.Region, Label: r.Label,
		ReferenceID: r.Reference, Metadata: r.Metadata, Named: r.named, MaxAccounts: o.Limits.MaxAccounts, SessionExpiresAt: p.session.ExpiresAt(platform.Catalog),
		Attempt: r.ID, Kind: string(r.Kind), Consent: account.Consent{
			Kind: string(r.Kind), Who: r.consent.Who, TextVersion: r.consent.TextVersion, TextHash: r.consent.TextHash, IPHash: r.consent.IPHash, At: r.consent.At,
		},
	}, p)
}

// credentials returns what was used to sign in; nil for a copied session or a phone.
func (s secrets) credentials() *account.Credentials {
	if s.email.Empty() {
		return nil
	}
	return &account.Credentials{Email: s.email, Password: s.password}
}

// rejectSession fails an attempt whose session is good but cannot be used. It signs out a session that we opened; a
// copied session is the creator's own and stays signed in.
func (c *Connects) rejectSession(ctx context.Context, r record, session driver.Session, code string) error {
	err := c.finishStep(ctx, r, func(now *record, at time.Time) error { return now.Fail(attempt.Failure{Code: code}, at) })
	if err == nil && r.Kind != attempt.Cookie && r.Kind != attempt.Curl {
		c.signOut(ctx, r, session)
	}
	return err
}

// maxRaces bounds how often connectAccount retries because another attempt for the same creator was faster.
const maxRaces = 4

// connectAccount creates or renews the account and ends the attempt with success, in one transaction.
func (c *Connects) connectAccount(ctx context.Context, mine record, o org.Org, done account.Connected, p verifiedSession) error {
	ctx = context.WithoutCancel(ctx)
	for range maxRaces {
		prepared, err := c.deps.Accounts.Prepare(ctx, done)
		switch {
		case errors.Is(err, account.ErrMismatch):
			return c.rejectSession(ctx, mine, p.session, attempt.CodeMismatch)
		case errors.Is(err, account.ErrLimit):
			return c.rejectSession(ctx, mine, p.session, attempt.CodeLimit)
		case errors.Is(err, problem.AccountNotFound.New("")):
			return c.rejectSession(ctx, mine, p.session, attempt.CodeDeleted)
		case err != nil:
			return c.releaseStep(ctx, mine, err)
		}
		receipt := c.composeReceipt(ctx, mine, o, prepared)
		err = c.commitAccount(ctx, mine, prepared, p.newest, receipt)
		switch {
		case errors.Is(err, account.ErrRaced):
			continue
		case errors.Is(err, account.ErrLimit):
			return c.rejectSession(ctx, mine, p.session, attempt.CodeLimit)
		case errors.Is(err, account.ErrFenced):
			return c.rejectSession(ctx, mine, p.session, attempt.CodeSuperseded)
		case errors.Is(err, errLostStep) && mine.Kind != attempt.Cookie && mine.Kind != attempt.Curl:
			c.signOut(ctx, mine, p.session)
		}
		return err
	}
	return c.releaseStep(ctx, mine, account.ErrRaced)
}

// composeReceipt writes the mail that confirms the connection to the creator. A failure is only logged: the creator sees
// the result on the page.
func (c *Connects) composeReceipt(ctx context.Context, mine record, o org.Org, prepared account.Prepared) link.Receipt {
	if mine.Session == "" {
		return link.Receipt{}
	}
	of := link.Connection{
		Org: o, Session: mine.Session, Account: prepared.AccountID(), Name: prepared.Identity.Name, Locale: mine.consent.Locale,
	}
	if prepared.Credentials != nil {
		of.Login = prepared.Credentials.Email
	}
	if prepared.Identity.Username != "" && mine.Kind != attempt.Token {
		of.Name = "@" + prepared.Identity.Username
	}
	if platform, ok := c.deps.Platforms.Get(mine.place.Platform); ok {
		of.PlatformName = platform.Catalog.Name
	}
	receipt, err := c.deps.Hosted.ComposeReceipt(ctx, of)
	if err != nil {
		c.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot write receipt for connected account",
			slog.String(logkey.AttemptID, string(mine.ID)), slog.Any(logkey.Error, err))
		return link.Receipt{}
	}
	return receipt
}

func (c *Connects) commitAccount(ctx context.Context, mine record, prepared account.Prepared, newest string,
	receipt link.Receipt) error {
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	var r record
	err := c.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		var err error
		if r, err = lockAttempt(ctx, tx, mine.Org, mine.ID); err != nil {
			return err
		}
		return c.finishStepIn(ctx, tx, mine, &r, func(r *record, now time.Time) error {
			made, done, err := c.deps.Accounts.Connect(ctx, tx, mine.starter.by("account.connect"), prepared)
			if err != nil {
				return err
			}
			r.after = append(r.after, done)
			if newest != "" {
				if err := c.deps.Events.SetWatermarkIn(ctx, tx, made.Org, string(made.ID), newest); err != nil {
					return err
				}
			}
			if err := c.deps.Hosted.AddReceipt(ctx, tx, made.Org, mine.starter.by("connect.receipt"), receipt); err != nil {
				return err
			}
			return r.Succeed(made.ID, now)
		})
	})
	if err != nil {
		return err
	}
	c.afterCommit(ctx, r)
	return nil
}

// probeFailure converts the error of a verification to a failure, and reports whether to try again.
func probeFailure(err error) (f attempt.Failure, transient bool) {
	if refused, ok := errors.AsType[*driver.Refused](err); ok {
		f = attempt.Failure{UpstreamCode: refused.Code, UpstreamMessage: refused.Message, RetryAfter: refused.RetryAfter}
		switch refused.Kind {
		case catalog.RefusedSession:
			f.Code = attempt.CodeInvalid
		case catalog.RefusedRestricted, catalog.RefusedForbidden:
			f.Code = driver.FailLocked
		case catalog.RefusedCreatorOnly:
			f.Code = attempt.CodeNotCreator
		case catalog.RefusedRateLimited, catalog.RefusedUnavailable, catalog.RefusedError:
			f.Code, transient = driver.FailUnavailable, true
		case catalog.RefusedNotFound, catalog.RefusedConflict, catalog.RefusedRejected:
			f.Code = attempt.CodeChanged
		}
		return f, transient
	}
	p := problem.Of(err)
	switch p.Kind.Code {
	case problem.EgressUnavailable.Code:
		f.Code = driver.FailEgress
	case problem.UpstreamTimeout.Code:
		f.Code = driver.FailTimeout
	case problem.UpstreamUnavailable.Code, problem.UpstreamError.Code:
		f.Code = driver.FailUnavailable
	case problem.UpstreamInvalidResponse.Code, problem.UpstreamChanged.Code:
		return attempt.Failure{Code: attempt.CodeChanged}, false
	default:
		f.Code = attempt.CodeInternal
	}
	f.RetryAfter = time.Duration(p.RetryAfter) * time.Second
	return f, true
}
