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
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Regions are the egress regions an account can have, the usual one first.
var Regions = []string{"us", "uk"}

// Start is what an attempt begins with.
type Start struct {
	Org  org.Org
	By   audit.By
	Kind attempt.Kind
	// Email and Password are for credentials.
	Email, Password secret.String
	// Imported is for cookie and curl: a session that was copied.
	Imported *driver.Session
	// Label, Region, Metadata and Remember are nil or empty if the caller does not name them: an account that is connected already
	// keeps its own then, and a new one gets the defaults.
	Label     *string
	Region    string
	Metadata  map[string]string
	Remember  *bool
	Reference string
	// Account is the one to reconnect; empty for whichever signs in.
	Account   id.Account
	Supersede bool
	ReturnURL string
	// Hosted is the session of the pages in which it is started.
	Hosted id.Session
	// Reason is why the session is thought to be dead, for a reauth that nobody asked for.
	Reason  string
	Consent Consent
}

// Consent is who agreed that the account is connected, and to which words.
type Consent struct {
	// Who is creator on our own pages, or caller for what the caller's key started.
	Who string `json:"who,omitempty"`
	// TextVersion and TextHash name the words that were shown; empty if they were not ours.
	TextVersion string    `json:"textVersion,omitempty"`
	TextHash    string    `json:"textHash,omitempty"`
	IPHash      string    `json:"ipHash,omitempty"`
	At          time.Time `json:"at,omitzero"`
}

// Found is an attempt and the version it has.
type Found struct {
	Attempt
	Key
}

func (c *Connects) show(ctx context.Context, r record) (Found, error) {
	v, err := c.shown(ctx, r)
	return Found{v, Key{r.ID, r.Version}}, err
}

// Start begins an attempt. It answers at once; a worker signs in.
func (c *Connects) Start(ctx context.Context, s Start) (Found, error) {
	if err := c.Switches.Refuse(switches.Connects); err != nil {
		return Found{}, err
	}
	r, secrets, err := c.draft(ctx, s)
	if err != nil {
		return Found{}, err
	}
	// The data key first: whatever happens next, nothing is stored that is not sealed.
	if err := c.Seal.Prepare(ctx, r.Org, holder(r.ID)); err != nil {
		return Found{}, sealing(err)
	}
	err = c.sealSecrets(ctx, &r, secrets)
	if err == nil {
		if err = c.create(ctx, &r, s); postgres.IsUnique(err, "attempt_login") {
			// Somebody was faster by a moment; now that one is found.
			err = c.create(ctx, &r, s)
		}
	}
	if err != nil {
		// Its key opens nothing that was kept.
		if _, failed := c.Seal.Shred(context.WithoutCancel(ctx), r.Org, holder(r.ID)); failed != nil {
			c.Log.LogAttrs(ctx, slog.LevelWarn, "key of an attempt that never was is left over", slog.String("attempt_id", string(r.ID)), slog.Any("error", failed))
		}
		return Found{}, err
	}
	c.tell(r.ID)
	return c.show(ctx, r)
}

// Platform is the one that accounts of an environment live on. Where there is none, waiting does not help: an operator has to configure one.
func (c *Connects) Platform(env org.Environment) (Platform, error) {
	p, ok := c.Platforms[env]
	if !ok {
		return Platform{}, problem.ConnectUnavailable.Newf("There is no platform for %s organisations here.", env).Retry(false)
	}
	return p, nil
}

// draft judges a start and makes the row of it.
func (c *Connects) draft(ctx context.Context, s Start) (record, secrets, error) {
	platform, err := c.Platform(s.Org.Environment)
	if err != nil {
		return record{}, secrets{}, err
	}
	region := s.Region
	var label string
	if s.Label != nil {
		label = *s.Label
	}
	if s.Account != "" {
		known, err := c.Accounts.Get(ctx, s.Org.ID, s.Account)
		if err != nil {
			return record{}, secrets{}, err
		}
		if region == "" {
			region = known.Region
		}
		if s.Label == nil {
			label = known.Label
		}
	}
	if region == "" {
		region = Regions[0]
	}
	if !slices.Contains(Regions, region) {
		return record{}, secrets{}, problem.ValidationFailed.New("The region is not known.").At("/proxy_country", "enum", "must be us or uk")
	}
	if err := c.Switches.Refuse(switches.Region(region)); err != nil {
		return record{}, secrets{}, err
	}
	if !c.Egress.Available(region) {
		return record{}, secrets{}, problem.ConnectUnavailable.Newf("No proxy of the region %s works right now, and no other way is taken.", region).After(5)
	}
	now, err := c.DB.Now(ctx, c.DB.Pool())
	if err != nil {
		return record{}, secrets{}, err
	}
	r := record{returnURL: s.ReturnURL, consent: s.Consent, starter: startedBy(s.By)}
	if s.Kind != attempt.Reauth {
		r.named = account.Named{Region: s.Region != "", Label: s.Label != nil, Metadata: s.Metadata != nil, Remember: s.Remember != nil}
	}
	if r.consent.Who == "" {
		r.consent = Consent{Who: "caller", IPHash: s.By.IPHash, At: now}
	}
	r.Attempt = attempt.New(attempt.Attempt{
		Org: s.Org.ID, ID: id.New[id.Attempt](), Kind: s.Kind, Account: s.Account, Reconnect: s.Account != "", Label: label, Region: region,
		Reference: s.Reference, Metadata: s.Metadata, Remember: s.Remember != nil && *s.Remember, Session: s.Hosted,
	}, now)
	keep := secrets{email: s.Email, password: s.Password}
	switch {
	case s.Imported != nil:
		keep.session = s.Imported.Encode()
		r.login, err = c.loginHash(ctx, "owner", s.Imported.Owner(platform.Catalog))
	case !s.Email.Empty():
		r.login, err = c.loginHash(ctx, "email", s.Email.Reveal())
	case s.Account != "":
		r.login, err = c.loginHash(ctx, "account", string(s.Account))
	}
	return r, keep, err
}

// create writes the row and its first job, and counts the attempt.
func (c *Connects) create(ctx context.Context, r *record, s Start) error {
	var ended []record
	err := c.DB.Tx(ctx, func(tx postgres.Tx) (err error) {
		ended, err = c.admit(ctx, tx, *r, s)
		if err != nil {
			return err
		}
		if err := c.claim(ctx, tx, r, s); err != nil {
			return err
		}
		if err := insert(ctx, tx, *r); err != nil {
			return err
		}
		if err := c.enqueue(ctx, tx, *r); err != nil {
			return err
		}
		if r.Session != "" {
			if err := c.Hosted.Begin(ctx, tx, r.Org, r.Session, r.ID); err != nil {
				return err
			}
		}
		if err := c.publish(ctx, tx, *r); err != nil {
			return err
		}
		if s.Kind == attempt.Reauth {
			return nil // the account has it in its own log
		}
		return c.Audit.Record(ctx, tx, s.Org.ID, s.By, string(r.ID), audit.Changes{"kind": {To: r.Kind}, "region": {To: r.Region}, "accountId": {To: r.Account}})
	})
	if err != nil {
		return err
	}
	for _, old := range ended {
		c.settled(ctx, old)
	}
	c.settled(ctx, *r)
	return nil
}

// admit refuses an attempt that is one too many, and ends those that it takes the place of. Signing a known account in again is free.
func (c *Connects) admit(ctx context.Context, tx postgres.Tx, r record, s Start) (ended []record, err error) {
	if s.Kind == attempt.Reauth {
		return c.makeRoom(ctx, tx, r, s.Supersede)
	}
	if err := c.guard(ctx, tx, s, r.login); err != nil {
		return nil, err
	}
	if ended, err = c.makeRoom(ctx, tx, r, s.Supersede); err != nil {
		return nil, err
	}
	return ended, c.Limits.TakeConnect(ctx, tx, s.Org.ID, s.Org.Limits.ConnectAttemptsPerHour)
}

// claim notes on the account that it is being connected again, and takes the lease of a sign-in with remembered credentials.
func (c *Connects) claim(ctx context.Context, tx postgres.Tx, r *record, s Start) error {
	switch {
	case r.Account == "":
		return nil
	case r.Kind != attempt.Reauth:
		return c.Accounts.Began(ctx, tx, r.Org, r.Account, r.ID)
	}
	after, err := c.Accounts.BeginReauth(ctx, tx, s.By, r.Org, r.Account, r.ID)
	if err != nil {
		return err
	}
	r.after = []account.After{after}
	return nil
}

// makeRoom sees to it that a login has one open attempt: the new one ends the old one, or is refused.
func (c *Connects) makeRoom(ctx context.Context, tx postgres.Tx, r record, supersede bool) ([]record, error) {
	rows := []db.Attempt{}
	if r.login != nil {
		row, err := db.New(tx).Open(ctx, db.OpenParams{OrgID: r.Org, Login: r.login})
		switch {
		case err == nil:
			rows = append(rows, row)
		case !errors.Is(err, postgres.ErrNoRows):
			return nil, fmt.Errorf("look for an open attempt: %w", err)
		}
	}
	if r.Account != "" {
		more, err := db.New(tx).OpenOfAccount(ctx, db.OpenOfAccountParams{OrgID: r.Org, AccountID: r.Account})
		if err != nil {
			return nil, fmt.Errorf("look for an open attempt of the account: %w", err)
		}
		for _, row := range more {
			if !slices.ContainsFunc(rows, func(one db.Attempt) bool { return one.ID == row.ID }) {
				rows = append(rows, row)
			}
		}
	}
	var ended []record
	for _, row := range rows {
		old, err := read(row)
		if err != nil {
			return nil, err
		}
		if !supersede {
			return nil, problem.AttemptInProgress.New("An attempt for this login is under way. Two at once would make each other's codes useless.").
				With("attemptId", old.ID).With("state", old.State).With("nextActions", old.NextActions())
		}
		now, err := c.DB.Now(ctx, tx)
		if err != nil {
			return nil, err
		}
		if err := old.Stop(attempt.CodeSuperseded, now); err != nil {
			return nil, err
		}
		if err := c.write(ctx, tx, &old); err != nil {
			return nil, err
		}
		ended = append(ended, old)
	}
	return ended, nil
}

// Reauthenticate signs an account in again from its sealed credentials.
func (c *Connects) Reauthenticate(ctx context.Context, o org.Org, by audit.By, at id.Account, supersede bool) (Found, error) {
	known, err := c.Accounts.Get(ctx, o.ID, at)
	if err != nil {
		return Found{}, err
	}
	credentials, err := c.Accounts.Credentials(ctx, o.ID, at)
	if err != nil {
		return Found{}, err
	}
	return c.Start(ctx, Start{
		Org: o, By: by, Kind: attempt.Reauth, Email: credentials.Email, Password: credentials.Password, Region: known.Region,
		Reference: known.ReferenceID, Metadata: known.Metadata, Account: at, Supersede: supersede,
	})
}

// publish tells the org's event stream.
func (c *Connects) publish(ctx context.Context, tx postgres.Tx, r record) error {
	kind := "connect.attempt_updated"
	if r.State.Final() {
		kind = "connect.attempt_completed"
	}
	v := c.view(r, r.UpdatedAt)
	if err := c.Outbox.Add(ctx, tx, outbox.Event{Org: r.Org, Kind: kind, Data: v}); err != nil {
		return err
	}
	if !r.Reconnect || !r.State.Challenge() {
		return nil
	}
	err := c.Accounts.Challenged(ctx, tx, r.Org, r.Account, map[string]any{
		"attemptId": r.ID, "state": r.State, "otp_channel": v.Channel, "email_mask": v.EmailMask, "phone_mask": v.PhoneMask, "expires_at": v.ChallengeEnds,
	})
	if errors.Is(err, problem.AccountNotFound.New("")) {
		return nil
	}
	return err
}

// write stores a change, with all that hangs on it.
func (c *Connects) write(ctx context.Context, tx postgres.Tx, r *record) error {
	if err := update(ctx, tx, *r); err != nil {
		return err
	}
	if r.State == attempt.Failed && r.Account != "" {
		if err := c.release(ctx, tx, r); err != nil {
			return err
		}
	}
	if r.State.Final() && r.Session != "" {
		made := id.Account("")
		if r.State == attempt.Success {
			made = r.Account
		}
		if err := c.Hosted.Ended(ctx, tx, r.Org, r.Session, r.ID, made); err != nil {
			return err
		}
	}
	if err := c.countOutcome(ctx, tx, *r); err != nil {
		return err
	}
	return c.publish(ctx, tx, *r)
}

// release tells the account that its attempt has failed.
func (c *Connects) release(ctx context.Context, tx postgres.Tx, r *record) error {
	if r.Kind != attempt.Reauth {
		return c.Accounts.Ended(ctx, tx, r.Org, r.Account, r.ID)
	}
	after, err := c.Accounts.EndReauth(ctx, tx, r.Org, r.Account, r.ID, outcome(*r))
	if err != nil {
		return err
	}
	r.after = append(r.after, after)
	return nil
}

// outcome says what a failed sign-in with remembered credentials means for its account.
func outcome(r record) account.ReauthOutcome {
	o := account.ReauthUnanswered
	switch r.Failure.Code {
	case "account_locked":
		o = account.ReauthRestricted
	case "account_banned":
		o = account.ReauthRestricted.As(account.ReasonBanned)
	case "terms_required":
		o = account.ReauthRestricted.As(account.ReasonTermsRequired)
	case attempt.CodeCredentials:
		o = account.ReauthRefused
	case driver.FailUnavailable, driver.FailTimeout, driver.FailEgress, attempt.CodeInterrupted, attempt.CodeInternal:
		o = account.ReauthFailed
	}
	if r.Failure.UpstreamCode != 0 {
		o = o.Said(r.Failure.UpstreamCode, r.Failure.UpstreamMessage)
	}
	return o
}
