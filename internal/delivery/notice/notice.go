// Package notice tells organisations what they should look at: by mail to their owners and admins, and by a message to a
// Slack-compatible URL.
//
// What is worth a notice is written down first: with the event that reports it, in the same transaction (Observe), or by a
// worker that looks for webhooks that fail and keys that expire (scan.go). Round then tells each organisation what waits,
// at most once per hour and kind, by the database's time; what comes in between is in the next notice. Package tenant/mail
// sends the mails, and slack.go posts the message. settings.go has what an organisation can choose, and unsubscribe.go
// the links with which a recipient stops the mails.
package notice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/notice/internal/db"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

const (
	// lock is the key of the advisory lock of the worker that works.
	lock = 7_264_071
	// every is the interval between two rounds.
	every = 30 * time.Second
	// pause is the least time between two notices of a kind to an organisation.
	pause = time.Hour
	// mailLasts is how long a mail with a notice is tried.
	mailLasts = 24 * time.Hour
	// keepFor is how long a notice that was told is kept, so that it is not told again.
	keepFor = 30 * 24 * time.Hour
	// maxWaiting is how many notices of a kind are told at a time; maxItems is how many of them are named.
	maxWaiting = 1000
	maxItems   = 20
	pageRows   = 500
	// firstPercent is the first share of a month's calls that is worth a notice.
	firstPercent = 80
)

// sealer seals the URL, and derives keys; implemented by *seal.Sealer.
type sealer interface {
	Prepare(ctx context.Context, org id.Org, holder string) error
	Seal(ctx context.Context, at seal.Address, text secret.String) ([]byte, error)
	Open(ctx context.Context, at seal.Address, sealed []byte) (secret.String, error)
	Derive(ctx context.Context, purpose string) ([]byte, error)
}

// webhooks and keys find what is worth a notice; implemented by *webhook.Webhooks and *apikey.Keys. accounts is
// implemented by *account.Accounts.
type (
	webhooks interface {
		Failing(ctx context.Context, before time.Time, each func(webhook.FailingHook) error) error
	}
	accounts interface {
		Get(ctx context.Context, owner id.Org, account id.Account) (account.Account, error)
	}
	keys interface {
		Expiring(ctx context.Context, now time.Time, each func(apikey.Expiring) error) error
	}
)

// Deps are the dependencies of Notices.
type Deps struct {
	DB       *postgres.DB
	Orgs     *org.Orgs
	Members  *member.Members
	Accounts accounts
	Keys     keys
	Webhooks webhooks
	Mail     *mail.Outbox
	Audit    *audit.Log
	Seal     sealer
	Public   *egress.Public
	Queue    enqueuer
	// PublicURL is the address of the dashboard, without a trailing slash.
	PublicURL string
	Log       *slog.Logger
}

// Notices writes notices down and tells them. It is safe for concurrent use, except Run.
type Notices struct {
	deps Deps
	// failing means that the last round failed, which is in the log.
	failing bool
}

// New returns a Notices. Run and the worker of Register tell what Observe has written down.
func New(d Deps) *Notices { return &Notices{deps: d} }

// fact is what a notice is about, as it is stored. Names of accounts are not stored, because they must not outlive the
// account.
type fact struct {
	Name    string     `json:"name,omitempty"`
	Account id.Account `json:"account,omitempty"`
	// Event is the kind of the event after which an account needs a person.
	Event string `json:"event,omitempty"`
	// At is since when a webhook fails, or when a key expires.
	At      time.Time `json:"at,omitzero"`
	Percent int       `json:"percent,omitempty"`
	Limit   int64     `json:"limit,omitempty"`
}

// subject identifies a notice of an organisation.
type subject struct {
	org  id.Org
	kind mail.Kind
	name string
	// again means that it is told again each time it happens.
	again bool
}

// Observe writes a notice down if an event is worth one, in the transaction that reports the event.
func (s *Notices) Observe(ctx context.Context, tx postgres.Tx, e outbox.Event) error {
	var about subject
	var f fact
	switch data := e.Data.(type) {
	case contract.AccountReconnectRequired, contract.AccountChallengeRequired, contract.AccountRestricted:
		f = fact{Account: e.Account, Event: e.Data.Kind()}
		about = subject{e.Org, mail.AccountAttention, string(e.Account) + " " + f.Event, true}
	case contract.UsageThreshold:
		f = fact{Percent: data.Percent, Limit: data.Limit}
		about = subject{e.Org, mail.Usage, fmt.Sprint(data.Metric, " ", data.Percent), true}
		if data.Percent < firstPercent {
			return nil
		}
	default:
		return nil
	}
	now, err := s.deps.DB.Now(ctx, tx)
	if err != nil {
		return err
	}
	return add(ctx, tx, about, f, now)
}

func add(ctx context.Context, q db.DBTX, about subject, f fact, now time.Time) error {
	data, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encode a notice: %w", err)
	}
	return db.New(q).Add(ctx, db.AddParams{
		OrgID: about.org, Kind: string(about.kind), Subject: about.name, Data: data, Now: now, Again: about.again,
	})
}

// Run works until ctx ends. Any number of nodes may run it: one at a time works.
func (s *Notices) Run(ctx context.Context) error {
	for range clock.Every(ctx, every) {
		err := s.Round(ctx)
		if ctx.Err() != nil {
			break
		}
		if failing := err != nil; failing != s.failing {
			s.failing = failing
			if failing {
				s.deps.Log.LogAttrs(ctx, slog.LevelError, "cannot send notices", slog.Any(logkey.Error, err))
			} else {
				s.deps.Log.LogAttrs(ctx, slog.LevelInfo, "notices are sent again")
			}
		}
	}
	return nil
}

// Round looks for what is worth a notice, and tells organisations what waits. It does nothing while another process is in
// a round. An organisation that fails does not hold up the others.
func (s *Notices) Round(ctx context.Context) error {
	release, ok, err := s.deps.DB.TryLock(ctx, lock)
	if err != nil || !ok {
		return err
	}
	defer release()
	now, err := s.deps.DB.Now(ctx, s.deps.DB)
	if err != nil {
		return err
	}
	failures := []error{s.scan(ctx, now)}
	q, after := db.New(s.deps.DB), db.DueRow{}
	for {
		due, err := q.Due(ctx, db.DueParams{
			AfterOrg: string(after.OrgID), AfterKind: after.Kind, Since: now.Add(-pause), MaxRows: pageRows,
		})
		if err != nil {
			return errors.Join(append(failures, err)...)
		}
		for _, after = range due {
			if err := s.tell(postgres.WithOrg(ctx, after.OrgID), after.OrgID, mail.Kind(after.Kind), now.Truncate(time.Microsecond)); err != nil {
				failures = append(failures, fmt.Errorf("tell %s: %w", after.OrgID, err))
			}
		}
		if len(due) < pageRows {
			break
		}
	}
	before := now.Add(-keepFor)
	_, err = q.Trim(ctx, db.TrimParams{Before: &before, MaxRows: pageRows})
	return errors.Join(append(failures, err)...)
}

// tell sends what waits of a kind: a mail to each recipient, and a message to the URL of the organisation. What no longer
// holds, or is not wanted, counts as told.
func (s *Notices) tell(ctx context.Context, owner id.Org, kind mail.Kind, now time.Time) error {
	rows, err := db.New(s.deps.DB).Waiting(ctx, db.WaitingParams{OrgID: owner, Kind: string(kind), MaxRows: maxWaiting})
	if err != nil {
		return err
	}
	subjects, data := make([]string, len(rows)), make([][]byte, len(rows))
	for i, r := range rows {
		subjects[i], data[i] = r.Subject, r.Data
	}
	facts, err := s.readFacts(ctx, owner, kind, data, now)
	if err != nil {
		return err
	}
	setting, err := s.Setting(ctx, owner)
	if err != nil {
		return err
	}
	if !setting.wants(kind) {
		facts = nil
	}
	var drafts []mail.Draft
	if len(facts) > 0 {
		if drafts, err = s.compose(ctx, owner, kind, setting, facts, now); err != nil {
			return err
		}
	}
	return s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		q := db.New(tx)
		marked := db.MarkToldParams{Now: &now, OrgID: owner, Kind: string(kind), Subjects: subjects}
		if len(facts) == 0 {
			return q.MarkTold(ctx, marked)
		}
		n, err := q.TakeTurn(ctx, db.TakeTurnParams{OrgID: owner, Kind: string(kind), Now: now, Since: now.Add(-pause)})
		if err != nil || n == 0 {
			return err
		}
		if err := q.MarkTold(ctx, marked); err != nil {
			return err
		}
		return s.send(ctx, tx, postArgs{owner, kind, now}, setting.HasSlack(), drafts, len(facts))
	})
}

// send queues the mails and the message, and records them in the audit log.
func (s *Notices) send(ctx context.Context, tx postgres.Tx, args postArgs, slack bool, drafts []mail.Draft, count int) error {
	if slack {
		if err := s.enqueuePost(ctx, tx, args); err != nil {
			return err
		}
	}
	mails := []map[string]string{}
	for _, d := range drafts {
		r, err := s.deps.Mail.Add(ctx, tx, d)
		if err != nil {
			return err
		}
		mails = append(mails, map[string]string{"to": r.To, "status": string(r.Status), "subject": r.Subject})
	}
	by := audit.By{Kind: audit.ActorSystem, ID: "notices", Label: "notices", Action: "notice.send"}
	return s.deps.Audit.Record(ctx, tx, args.Org, by, string(args.Told), audit.Changes{
		"count": {To: count}, "mails": {To: mails}, "slack": {To: slack},
	})
}

// readFacts returns the facts that still hold: an account may work again or be deleted, and a key may have expired.
func (s *Notices) readFacts(ctx context.Context, owner id.Org, kind mail.Kind, data [][]byte, now time.Time) ([]fact, error) {
	var facts []fact
	for _, text := range data {
		var f fact
		if err := json.Unmarshal(text, &f); err != nil {
			return nil, fmt.Errorf("read a notice: %w", err)
		}
		holds := kind != mail.KeyExpiring || now.Before(f.At)
		if kind == mail.AccountAttention {
			var err error
			if holds, err = s.needsPerson(ctx, owner, &f); err != nil {
				return nil, err
			}
		}
		if holds {
			facts = append(facts, f)
		}
	}
	return facts, nil
}

// needsPerson reports whether an account still needs a person, and sets its name.
func (s *Notices) needsPerson(ctx context.Context, owner id.Org, f *fact) (bool, error) {
	a, err := s.deps.Accounts.Get(ctx, owner, f.Account)
	if errors.Is(err, problem.AccountNotFound.New("")) {
		return false, nil
	}
	f.Name = a.Label
	if f.Name == "" {
		f.Name = a.Username
	}
	if f.Name == "" {
		f.Name = string(f.Account)
	}
	return slices.Contains([]account.State{account.ReconnectRequired, account.Restricted, account.Reauthenticating}, a.State), err
}

// pages are where the buttons of the notices lead.
var pages = map[mail.Kind]string{
	mail.WebhookFailing: "/app/webhooks", mail.AccountAttention: "/app/accounts", mail.Usage: "/app/usage", mail.KeyExpiring: "/app/keys",
}

// message returns a notice without its recipient.
func (s *Notices) message(o org.Org, kind mail.Kind, locale string, facts []fact, now time.Time) mail.Message {
	m := mail.Message{
		Kind: kind, Locale: locale, About: now.Format(time.RFC3339Nano), ExpiresAt: now.Add(mailLasts), Link: s.deps.PublicURL + pages[kind],
		Org: o.Name, More: max(0, len(facts)-maxItems),
	}
	for _, f := range facts[:min(len(facts), maxItems)] {
		it := mail.Item{Name: f.Name, Detail: f.Event, Percent: f.Percent, Limit: f.Limit}
		if kind == mail.WebhookFailing {
			it.Lasts = now.Sub(f.At)
		}
		if kind == mail.KeyExpiring {
			it.Lasts = f.At.Sub(now)
		}
		m.Items = append(m.Items, it)
	}
	return m
}

// compose writes the mails to all recipients who have not unsubscribed.
func (s *Notices) compose(ctx context.Context, owner id.Org, kind mail.Kind, setting Setting, facts []fact, now time.Time) ([]mail.Draft, error) {
	o, err := s.deps.Orgs.Get(ctx, owner)
	if err != nil {
		return nil, err
	}
	recipients, err := s.Recipients(ctx, owner)
	if err != nil {
		return nil, err
	}
	var drafts []mail.Draft
	for _, r := range recipients {
		if !r.Subscribed {
			continue
		}
		m := s.message(o, kind, setting.Locale, facts, now)
		m.To = r.Email
		if m.Unsubscribe, err = s.unsubscribeURL(ctx, owner, r.Email); err != nil {
			return nil, err
		}
		d, err := s.deps.Mail.Compose(ctx, owner, m)
		if err != nil {
			return nil, err
		}
		drafts = append(drafts, d)
	}
	return drafts, nil
}
