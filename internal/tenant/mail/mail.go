// Package mail owns the mails that the service sends: their texts in two languages, and the queue in which they wait for
// the operator's mail server.
//
// Compose writes and seals a mail, and Add queues it in the transaction of the change that it reports, together with the
// River job that sends it (jobs.go). So a mail is neither lost nor sent for a change that was not committed. It is sent at
// least once: if a node dies between the server's answer and its own note of it, the mail is sent again, with the same
// Message-ID. A mail about the same subject is added at most once per hour, by the database's time.
//
// Without a mail server nothing is queued: the Report of Add has the text for the caller, who also records it in the
// audit log of the organisation. The package does not speak SMTP (package engine/smtp), and does not decide when a mail is
// sent: the packages link, member and notice do. Start at Outbox.Compose.
package mail

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/smtp"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/mail/internal/db"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Kind is the kind of a mail.
type Kind string

// The kinds.
const (
	// ConnectLink has a link with which a creator connects an account, Reconnect one to connect it again.
	ConnectLink Kind = "connect_link"
	Reconnect   Kind = "reconnect"
	// Receipt tells a creator that an account was connected.
	Receipt    Kind = "receipt"
	Invitation Kind = "invitation"
	// The notices to an organisation.
	WebhookFailing   Kind = "webhook_failing"
	AccountAttention Kind = "account_attention"
	Usage            Kind = "usage"
	KeyExpiring      Kind = "key_expiring"
)

// Notices lists the kinds that are notices to an organisation.
func Notices() []Kind { return []Kind{WebhookFailing, AccountAttention, Usage, KeyExpiring} }

// Item is one line of a notice.
type Item struct {
	// Name is what the line is about: a URL, an account or a key.
	Name string `json:"name,omitempty"`
	// Detail is the kind of the event after which an account needs a person.
	Detail string `json:"detail,omitempty"`
	// Lasts is how long a webhook has been failing, or how long a key still works.
	Lasts time.Duration `json:"lasts,omitempty"`
	// Percent of Limit calls are used.
	Percent int   `json:"percent,omitempty"`
	Limit   int64 `json:"limit,omitempty"`
}

// Message is a mail to be written.
type Message struct {
	Kind Kind
	// To is the address of the only recipient.
	To string
	// Locale is one of Locales. Default: en.
	Locale string
	// About identifies the subject. Within an hour, only one mail of a kind is sent to a recipient about it.
	About string
	// ExpiresAt is when the mail becomes useless, such as the end of its link.
	ExpiresAt time.Time
	// Link is where the button leads; Unsubscribe is the address with which a recipient stops notices.
	Link, Unsubscribe string

	// Org is the name of the organisation. By and Role are those of an invitation, and Account and Platform the names of
	// what is connected. Any of them but Org may be empty.
	Org, By, Role, Account, Platform string
	// Items are the lines of a notice. More is how many others there are.
	Items []Item
	More  int
}

// IsNotice reports whether the mail is a notice to an organisation.
func (m *Message) IsNotice() bool {
	for _, kind := range Notices() {
		if m.Kind == kind {
			return true
		}
	}
	return false
}

// Status says what became of a mail that was asked for.
type Status string

// The statuses.
const (
	// Queued means that the mail is sent within seconds, if the mail server works.
	Queued Status = "queued"
	// NotConfigured means that the service has no mail server, and the caller must send the text.
	NotConfigured Status = "not_configured"
	// Limited means that the mail is not sent because there are too many: of its subject, or of the organisation.
	Limited Status = "limited"
)

// Report says what became of a mail. Its text may contain a link that is secret.
type Report struct {
	ID id.Mail
	// To is the address with most characters hidden.
	To            string
	Status        Status
	Subject, Text string
}

// Limits of an organisation.
const (
	// MaxPerHour is how many mails an organisation can send in an hour. Concurrent changes may exceed it by a few.
	MaxPerHour = 200
	maxName    = 80
)

// KeepDays is how many days a mail is remembered.
const KeepDays = 30

// sealer seals waiting mails; implemented by *seal.Sealer.
type sealer interface {
	Prepare(ctx context.Context, org id.Org, holder string) error
	SealBytes(ctx context.Context, at seal.Address, text []byte) ([]byte, error)
	OpenBytes(ctx context.Context, at seal.Address, sealed []byte) ([]byte, error)
	Derive(ctx context.Context, purpose string) ([]byte, error)
}

// sender hands mails over; implemented by *smtp.Client.
type sender interface {
	Send(ctx context.Context, m smtp.Mail) error
}

// Deps are the dependencies of an Outbox.
type Deps struct {
	DB    *postgres.DB
	Audit *audit.Log
	Seal  sealer
	Queue enqueuer
	// Sender is nil if the service has no mail server.
	Sender sender
	// Registry gets the metrics; nil for none.
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// Outbox writes, queues and sends mails. It is safe for concurrent use.
type Outbox struct {
	deps  Deps
	texts renderer
	tries *prometheus.CounterVec
}

// New returns an Outbox. The worker of Register sends what it queues.
func New(d Deps) *Outbox { return &Outbox{d, newRenderer(), newTries(d.Registry)} }

// The outcomes of a try to send a mail.
const (
	sentOutcome   = "sent"
	retryOutcome  = "retry"
	failedOutcome = "failed"
)

// newTries returns the counter of tries, with all of its series.
func newTries(registry prometheus.Registerer) *prometheus.CounterVec {
	tries := promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
		Name: "stagedoor_mail_tries_total",
		Help: "Tries to send mails, by kind and outcome: sent, retry if the mail server did not take the mail for now, and failed if it is not tried again.",
	}, []string{"kind", "outcome"})
	for _, kind := range append([]Kind{ConnectLink, Reconnect, Receipt, Invitation}, Notices()...) {
		for _, outcome := range []string{sentOutcome, retryOutcome, failedOutcome} {
			tries.WithLabelValues(string(kind), outcome)
		}
	}
	return tries
}

// IsConfigured reports whether the service has a mail server.
func (o *Outbox) IsConfigured() bool { return o.deps.Sender != nil }

// Draft is a mail that is written and sealed, but not queued.
type Draft struct {
	org     id.Org
	id      id.Mail
	message Message
	letter  letter
	// subject is the hash for the limit per hour. sealed is empty without a mail server.
	subject, sealed []byte
}

// content is what is sealed.
type content struct {
	To          string `json:"to"`
	Subject     string `json:"subject"`
	Text        string `json:"text"`
	HTML        string `json:"html"`
	Unsubscribe string `json:"unsubscribe,omitempty"`
}

// Compose writes a mail. Call it before the transaction in which Add queues it, because it uses the keyring.
func (o *Outbox) Compose(ctx context.Context, org id.Org, m Message) (Draft, error) {
	now, err := o.deps.DB.Now(ctx, o.deps.DB)
	if err != nil {
		return Draft{}, err
	}
	for _, name := range []*string{&m.Org, &m.By, &m.Account, &m.Platform} {
		*name = shorten(*name)
	}
	d := Draft{org: org, id: id.New[id.Mail](), message: m}
	if d.letter, err = o.texts.render(&m, now); err != nil {
		return Draft{}, err
	}
	if !o.IsConfigured() {
		return d, nil
	}
	key, err := o.deps.Seal.Derive(ctx, "mail subject")
	if err != nil {
		return Draft{}, fmt.Errorf("derive the key of mail subjects: %w", err)
	}
	hash := hmac.New(sha256.New, key)
	_ = json.NewEncoder(hash).Encode([]string{string(org), string(m.Kind), strings.ToLower(m.To), m.About}) // a hash takes all
	d.subject = hash.Sum(nil)
	text, err := json.Marshal(content{m.To, d.letter.Subject, d.letter.Text, d.letter.HTML, m.Unsubscribe})
	if err != nil {
		return Draft{}, fmt.Errorf("encode a mail: %w", err)
	}
	if err := o.deps.Seal.Prepare(ctx, org, string(org)); err != nil {
		return Draft{}, fmt.Errorf("prepare the key of %s: %w", org, err)
	}
	if d.sealed, err = o.deps.Seal.SealBytes(ctx, address(org, d.id), text); err != nil {
		return Draft{}, fmt.Errorf("seal a mail of %s: %w", org, err)
	}
	return d, nil
}

// shorten makes a name fit a subject.
func shorten(name string) string {
	name = oneLine(name)
	if utf8.RuneCountInString(name) > maxName {
		name = string([]rune(name)[:maxName-1]) + "…"
	}
	return name
}

// address is what a waiting mail is bound to.
func address(org id.Org, which id.Mail) seal.Address {
	sum := sha256.Sum256([]byte(which))
	return seal.Address{
		Org: org, Holder: string(org), Purpose: seal.PurposeMail, Version: int64(binary.BigEndian.Uint64(sum[:8]) >> 1),
	}
}

// Add queues a mail in the transaction of the caller, who records the result in the audit log (Report.Change).
func (o *Outbox) Add(ctx context.Context, tx postgres.Tx, d Draft) (Report, error) {
	r := Report{ID: d.id, To: mask(d.message.To), Subject: d.letter.Subject, Text: d.letter.Text}
	var err error
	r.Status, err = o.enqueueDraft(ctx, tx, d)
	return r, err
}

// Change returns what the audit log says about a mail: its recipient, and whether it was sent. It has no link.
func (r Report) Change() audit.Change {
	return audit.Change{To: map[string]string{"to": r.To, "status": string(r.Status), "subject": r.Subject}}
}

func (o *Outbox) enqueueDraft(ctx context.Context, tx postgres.Tx, d Draft) (Status, error) {
	if !o.IsConfigured() {
		return NotConfigured, nil
	}
	now, err := o.deps.DB.Now(ctx, tx)
	if err != nil {
		return "", err
	}
	q := db.New(tx)
	sent, err := q.CountSince(ctx, db.CountSinceParams{OrgID: d.org, Since: now.Add(-time.Hour)})
	if err != nil {
		return "", err
	}
	if sent >= MaxPerHour {
		return Limited, nil
	}
	if n, err := q.TakeSubject(ctx, db.TakeSubjectParams{OrgID: d.org, Subject: d.subject, Now: now}); err != nil || n == 0 {
		return Limited, err
	}
	if err := q.Add(ctx, db.AddParams{
		OrgID: d.org, ID: d.id, Kind: string(d.message.Kind), Sealed: d.sealed, Now: now, ExpiresAt: d.message.ExpiresAt,
	}); err != nil {
		return "", err
	}
	return Queued, o.enqueue(ctx, tx, d.org, d.id)
}

// mask hides most of an address: the first character and the domain stay.
func mask(to string) string {
	name, domain, _ := strings.Cut(to, "@")
	first, _ := utf8.DecodeRuneInString(name)
	return string(first) + "•••@" + domain
}
