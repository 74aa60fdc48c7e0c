package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Start holds the inputs of a new attempt.
type Start struct {
	Org  org.Org
	By   audit.By
	Kind attempt.Kind
	// Email and Password are set for the kinds credentials and reauth.
	Email, Password secret.String
	// Token is a key that the platform issued to programs, as its owner copied it, for the kind token.
	Token secret.String
	// Imported is a session that was copied from a browser, for the kinds cookie and curl.
	Imported *driver.Session
	// Label, Region, Metadata and Remember are nil or empty if the caller did not give them. Then an existing account
	// keeps its own, and a new account gets the defaults.
	Label     *string
	Region    string
	Metadata  map[string]string
	Remember  *bool
	Reference string
	// Account is the account to reconnect; empty to connect whichever creator signs in.
	Account id.Account
	// Platform is the id of a platform; empty for the default one of the org's environment. Site is the creator's site as
	// the caller gave it, for platforms where each creator has one.
	Platform, Site string
	// Supersede ends an open attempt for the same login or account instead of failing.
	Supersede bool
	ReturnURL string
	// Hosted is the link session that the attempt is started in; empty for none. Openings is how often its link was
	// opened when the creator's browser sent the form.
	Hosted   id.Session
	Openings int
	Consent  Consent

	// found is what Locate has found; nil before.
	found *located
}

// Consent records who agreed to the connect, and to which text. It is stored as JSON.
type Consent struct {
	// Who is "creator" on our own pages, or "caller" for an attempt that an API key started.
	Who string `json:"who,omitempty"`
	// TextVersion and TextHash identify the text that was shown; empty if it was not ours.
	TextVersion string `json:"textVersion,omitempty"`
	TextHash    string `json:"textHash,omitempty"`
	// Locale is the language of our text.
	Locale string    `json:"locale,omitempty"`
	IPHash string    `json:"ipHash,omitempty"`
	At     time.Time `json:"at,omitzero"`
}

// Found is an attempt as callers see it, and its version.
type Found struct {
	contract.Attempt
	Key
}

// present returns the attempt as callers see it, with its links.
func (c *Connects) present(ctx context.Context, r record) (Found, error) {
	v, err := c.viewWithLinks(ctx, r)
	return Found{v, Key{r.ID, r.Version}}, err
}

// Start starts an attempt and returns immediately; a worker signs in. It fails with attempt-in-progress if the login or
// account has an open attempt and s.Supersede is not set.
func (c *Connects) Start(ctx context.Context, s Start) (Found, error) {
	if err := c.deps.Switches.Refuse(switches.Connects); err != nil {
		return Found{}, err
	}
	r, secrets, err := c.newRecord(ctx, s)
	if err != nil {
		return Found{}, err
	}
	// Create the data key first, so that nothing is ever stored unsealed.
	if err := c.deps.Seal.Prepare(ctx, r.Org, holder(r.ID)); err != nil {
		return Found{}, sealProblem(err)
	}
	err = c.sealSecrets(ctx, &r, secrets)
	if err == nil {
		if err = c.insertAttempt(ctx, &r, s); postgres.IsUnique(err, "attempt_login") {
			// A concurrent start for the same login has just committed. The second try finds its attempt.
			err = c.insertAttempt(ctx, &r, s)
		}
	}
	if err != nil {
		// The row was not stored, so its data key is useless.
		if _, failed := c.deps.Seal.Shred(context.WithoutCancel(ctx), r.Org, holder(r.ID)); failed != nil {
			c.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot destroy key of attempt that was not stored",
				slog.String(logkey.AttemptID, string(r.ID)), slog.Any(logkey.Error, failed))
		}
		return Found{}, err
	}
	c.publishChange(r.ID)
	return c.present(ctx, r)
}

// newRecord checks a start and returns the row for it, and its secrets, not sealed yet. It writes nothing.
func (c *Connects) newRecord(ctx context.Context, s Start) (record, secrets, error) {
	found, err := c.locate(ctx, &s)
	if err != nil {
		return record{}, secrets{}, err
	}
	var label string
	if s.Label != nil {
		label = *s.Label
	} else {
		label = found.known.Label
	}
	now, err := c.deps.DB.Now(ctx, c.deps.DB)
	if err != nil {
		return record{}, secrets{}, err
	}
	r := record{place: found.place, returnURL: s.ReturnURL, consent: s.Consent, starter: startedBy(s.By)}
	if s.Kind != attempt.Reauth {
		r.named = account.Named{Region: s.Region != "", Label: s.Label != nil, Metadata: s.Metadata != nil, Remember: s.Remember != nil}
	}
	if r.consent.Who == "" {
		r.consent = Consent{Who: "caller", IPHash: s.By.IPHash, At: now}
	}
	r.Attempt = attempt.New(attempt.Attempt{
		Org: s.Org.ID, ID: found.attempt, Kind: s.Kind, Account: s.Account, Reconnect: s.Account != "", Label: label, Region: found.region,
		Reference: s.Reference, Metadata: s.Metadata, Remember: s.Remember != nil && *s.Remember, Session: s.Hosted,
	}, now)
	keep := secrets{email: s.Email, password: s.Password}
	switch {
	case s.Imported != nil:
		keep.session = s.Imported.Encode()
		r.login, err = c.importedLogin(ctx, found, *s.Imported)
	case !s.Email.Empty():
		r.login, err = c.loginHash(ctx, loginAt("email", found.place), s.Email.Reveal())
	case s.Account != "":
		r.login, err = c.loginHash(ctx, "account", string(s.Account))
	}
	return r, keep, err
}

// insertAttempt writes the row and its first job, and counts the attempt against the limits, in one transaction.
func (c *Connects) insertAttempt(ctx context.Context, r *record, s Start) error {
	var ended []record
	err := c.deps.DB.Tx(ctx, func(tx postgres.Tx) (err error) {
		ended, err = c.checkLimits(ctx, tx, *r, s)
		if err != nil {
			return err
		}
		if err := c.claimAccount(ctx, tx, r, s); err != nil {
			return err
		}
		if err := insertRow(ctx, tx, *r); err != nil {
			return err
		}
		if r.Step != attempt.StepNone {
			if err := c.enqueue(ctx, tx, *r); err != nil {
				return err
			}
		}
		if r.Session != "" {
			if err := c.deps.Hosted.AttemptStarted(ctx, tx, r.Org, r.Session, s.Openings, r.ID); err != nil {
				return err
			}
		}
		if err := c.writeEvents(ctx, tx, *r); err != nil {
			return err
		}
		if s.Kind == attempt.Reauth {
			return nil // BeginReauth has written the audit entry
		}
		return c.deps.Audit.Record(ctx, tx, s.Org.ID, s.By, string(r.ID), audit.Changes{"kind": {To: r.Kind}, "region": {To: r.Region}, "accountId": {To: r.Account}})
	})
	if err != nil {
		return err
	}
	for _, old := range ended {
		c.afterCommit(ctx, old)
	}
	c.metrics.begun.WithLabelValues(string(r.Kind)).Inc()
	c.afterCommit(ctx, *r)
	return nil
}

// checkLimits refuses an attempt beyond the limits, and returns the open attempts that it ended in its favour. A reauth
// does not count against the limits.
func (c *Connects) checkLimits(ctx context.Context, tx postgres.Tx, r record, s Start) (ended []record, err error) {
	if s.Kind == attempt.Reauth {
		return c.endOpenAttempts(ctx, tx, r, s.Supersede)
	}
	if err := c.checkGuards(ctx, tx, s, r); err != nil {
		return nil, err
	}
	if ended, err = c.endOpenAttempts(ctx, tx, r, s.Supersede); err != nil {
		return nil, err
	}
	return ended, c.deps.Limits.TakeConnect(ctx, tx, s.Org.ID, s.Org.Limits.ConnectAttemptsPerHour)
}

// claimAccount records the attempt on the account that it reconnects. For a reauth it acquires the account's lease.
func (c *Connects) claimAccount(ctx context.Context, tx postgres.Tx, r *record, s Start) error {
	switch {
	case r.Account == "":
		return nil
	case r.Kind != attempt.Reauth:
		return c.deps.Accounts.SetPendingAttempt(ctx, tx, r.Org, r.Account, r.ID)
	}
	after, err := c.deps.Accounts.BeginReauth(ctx, tx, s.By, r.Org, r.Account, r.ID)
	if err != nil {
		return err
	}
	r.after = []account.AfterCommit{after}
	return nil
}

// endOpenAttempts ensures that a login and an account have one open attempt: it ends the old ones and returns them, or,
// without supersede, refuses the new one.
func (c *Connects) endOpenAttempts(ctx context.Context, tx postgres.Tx, r record, supersede bool) ([]record, error) {
	rows := []db.Attempt{}
	if r.login != nil {
		row, err := db.New(tx).Open(ctx, db.OpenParams{OrgID: r.Org, Login: r.login})
		switch {
		case err == nil:
			rows = append(rows, row)
		case !errors.Is(err, postgres.ErrNoRows):
			return nil, fmt.Errorf("find an open attempt: %w", err)
		}
	}
	if r.Account != "" {
		more, err := db.New(tx).OpenOfAccount(ctx, db.OpenOfAccountParams{OrgID: r.Org, AccountID: r.Account})
		if err != nil {
			return nil, fmt.Errorf("find open attempts of the account: %w", err)
		}
		for _, row := range more {
			if !slices.ContainsFunc(rows, func(one db.Attempt) bool { return one.ID == row.ID }) {
				rows = append(rows, row)
			}
		}
	}
	var ended []record
	for _, row := range rows {
		old, err := decodeRow(row)
		if err != nil {
			return nil, err
		}
		if !supersede {
			return nil, problem.AttemptInProgress.New(
				"An attempt for this login is in progress. Two concurrent attempts would invalidate each other's codes.").
				With("attemptId", old.ID).With("state", old.State).With("nextActions", old.NextActions())
		}
		now, err := c.deps.DB.Now(ctx, tx)
		if err != nil {
			return nil, err
		}
		if err := old.Stop(attempt.CodeSuperseded, now); err != nil {
			return nil, err
		}
		if err := c.writeChange(ctx, tx, &old); err != nil {
			return nil, err
		}
		ended = append(ended, old)
	}
	return ended, nil
}

// Reauthenticate starts an attempt that signs an account in again with its remembered credentials.
func (c *Connects) Reauthenticate(ctx context.Context, o org.Org, by audit.By, at id.Account, supersede bool) (Found, error) {
	known, err := c.deps.Accounts.Get(ctx, o.ID, at)
	if err != nil {
		return Found{}, err
	}
	credentials, err := c.deps.Accounts.Credentials(ctx, o.ID, at)
	if err != nil {
		return Found{}, err
	}
	return c.Start(ctx, Start{
		Org: o, By: by, Kind: attempt.Reauth, Email: credentials.Email, Password: credentials.Password, Region: known.Region,
		Reference: known.ReferenceID, Metadata: known.Metadata, Account: at, Supersede: supersede,
	})
}

// ReauthenticateAsSystem signs an account in again because its health check found it signed out. It does nothing if an
// attempt is already in progress.
func (c *Connects) ReauthenticateAsSystem(ctx context.Context, of id.Org, at id.Account) error {
	o, err := c.deps.Orgs.Get(ctx, of)
	if err != nil {
		return err
	}
	by := audit.By{Kind: audit.ActorSystem, ID: "health", Action: "account.reauthenticate"}
	_, err = c.Reauthenticate(ctx, o, by, at, false)
	if errors.Is(err, problem.AttemptInProgress.New("")) {
		return nil
	}
	return err
}

// writeEvents writes the events of a change to the outbox, in its transaction.
func (c *Connects) writeEvents(ctx context.Context, tx postgres.Tx, r record) error {
	v := c.view(r, r.UpdatedAt)
	var data contract.Event = contract.ConnectAttemptUpdated{Attempt: v}
	if r.State.Final() {
		data = contract.ConnectAttemptCompleted{Attempt: v}
	}
	if err := c.deps.Outbox.Add(ctx, tx, outbox.Event{Org: r.Org, Data: data}); err != nil {
		return err
	}
	if !r.Reconnect || !r.State.Challenge() {
		return nil
	}
	err := c.deps.Accounts.RecordChallenge(ctx, tx, r.Org, r.Account, contract.AccountChallengeRequired{
		AttemptID: r.ID, State: string(r.State), Channel: v.Channel, EmailMask: v.EmailMask, PhoneMask: v.PhoneMask,
		ExpiresAt: v.ChallengeEnds,
	})
	if errors.Is(err, problem.AccountNotFound.New("")) {
		return nil
	}
	return err
}

// writeChange stores a visible change with everything that follows from it: the account's lease, the link session, the
// counters and the events.
func (c *Connects) writeChange(ctx context.Context, tx postgres.Tx, r *record) error {
	if err := updateRow(ctx, tx, *r); err != nil {
		return err
	}
	if r.State == attempt.Failed && r.Account != "" {
		if err := c.releaseAccount(ctx, tx, r); err != nil {
			return err
		}
	}
	if r.State.Final() && r.Session != "" {
		made := id.Account("")
		if r.State == attempt.Success {
			made = r.Account
		}
		if err := c.deps.Hosted.AttemptEnded(ctx, tx, r.Org, r.Session, r.ID, made); err != nil {
			return err
		}
	}
	if err := c.countOutcome(ctx, tx, *r); err != nil {
		return err
	}
	return c.writeEvents(ctx, tx, *r)
}

// releaseAccount records on the account that its attempt has failed.
func (c *Connects) releaseAccount(ctx context.Context, tx postgres.Tx, r *record) error {
	if r.Kind != attempt.Reauth {
		return c.deps.Accounts.ClearPendingAttempt(ctx, tx, r.Org, r.Account, r.ID)
	}
	after, err := c.deps.Accounts.EndReauth(ctx, tx, r.Org, r.Account, r.ID, reauthOutcome(*r))
	if err != nil {
		return err
	}
	r.after = append(r.after, after)
	return nil
}

// reauthOutcome returns what a failed sign-in with remembered credentials means for its account.
func reauthOutcome(r record) account.ReauthOutcome {
	o := account.ReauthUnanswered
	switch r.Failure.Code {
	case "account_locked":
		o = account.ReauthRestricted
	case "account_banned":
		o = account.ReauthRestricted.WithReason(account.ReasonBanned)
	case "terms_required":
		o = account.ReauthRestricted.WithReason(account.ReasonTermsRequired)
	case attempt.CodeCredentials:
		o = account.ReauthRefused
	case driver.FailUnavailable, driver.FailTimeout, driver.FailEgress, attempt.CodeInterrupted, attempt.CodeInternal:
		o = account.ReauthFailed
	}
	if r.Failure.UpstreamCode != "" {
		o = o.WithUpstream(r.Failure.UpstreamCode, r.Failure.UpstreamMessage)
	}
	return o
}
