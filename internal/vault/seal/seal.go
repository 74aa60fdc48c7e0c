// Package seal encrypts secrets at rest. A sealed text opens only with the keys of its holder, and only at the address
// that it was sealed for.
//
// A key of the key management service (package kms) wraps a key per organisation, which wraps a data key per holder,
// which seals texts. A holder is an account, an attempt, or an organisation itself. Deleting the data key of a holder
// (Shred) makes everything that was sealed with it unreadable, including in all backups of the main database. The
// callers store the sealed texts. This package stores only the keys, in the schema keyring, which may be in a separate
// database.
//
// Start with Sealer. The chain of keys is in chain.go, the cache of a node in cache.go, rotation in rotate.go, and
// receipts in receipt.go. See docs/sealing.md.
package seal

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
)

// Every failure that is not a mistake of the caller wraps one of these three.
var (
	// ErrCorrupt means that a sealed text, or a key that it depends on, was changed or belongs to another address. It
	// is returned unwrapped, so that an attacker does not learn which check failed.
	ErrCorrupt = errors.New("the sealed text is corrupt or was sealed for something else")
	// ErrUnavailable means that the keyring or the key management service cannot be reached. It says nothing about the
	// text.
	ErrUnavailable = errors.New("the keys are unavailable; try again later")
	// ErrShredded means that the holder has no data key: it was shredded, or never prepared.
	ErrShredded = errors.New("the holder has no key: it was shredded or never prepared")
)

// Purpose is the use of a sealed text. A text opens only for the purpose that it was sealed for.
type Purpose string

// The purposes. They are part of what texts are bound to and must not change.
const (
	PurposeSession     Purpose = "session"
	PurposeCredentials Purpose = "credentials"
	PurposeAttempt     Purpose = "attempt"
	PurposeInput       Purpose = "input"
	PurposeAnswer      Purpose = "answer"
	PurposeWebhook     Purpose = "webhook_secret"
	PurposeFrame       Purpose = "frame"
	PurposeEvent       Purpose = "event"
	// PurposeDelivery is the beginning of what a receiver answered to a webhook delivery.
	PurposeDelivery Purpose = "delivery"
	// PurposeAudit is a personal value in an audit entry.
	PurposeAudit Purpose = "audit"
	// PurposeJobResult is a block of the result of a job.
	PurposeJobResult Purpose = "job_result"
	// PurposeMail is the recipient and the text of a mail that waits to be sent.
	PurposeMail Purpose = "mail"
	// PurposeRecipient is the address to which a connect link was mailed.
	PurposeRecipient Purpose = "recipient"
	// PurposeNotice is the URL that gets the notices of an organisation.
	PurposeNotice Purpose = "notice"
)

// Address is what a sealed text is bound to. It is not stored with the text.
type Address struct {
	Org id.Org
	// Holder is the id of an account, of an attempt, or of the organisation itself.
	Holder  string
	Purpose Purpose
	// Version distinguishes the texts of one holder and purpose, such as the versions of a session.
	Version int64
}

// Shredded describes what Shred deleted, for the receipt.
type Shredded struct {
	// DataKey is the id of the data key; empty if the holder never had one.
	DataKey     string
	Generations int
	At          time.Time
}

// Bus notifies the other nodes of a shredding; *pubsub.Bus implements it.
type Bus interface {
	Publish(subject string, payload []byte) error
	Subscribe(ctx context.Context, pattern string, handle func(last string, payload []byte)) error
}

// Config sets the limits of a Sealer.
type Config struct {
	// RewrapRate is how many data keys are rewrapped per second. Only one process rewraps at a time. Default: 500.
	RewrapRate int
	// Remember is how many holders' data keys a node caches, about 1 KB each. Default: 100,000.
	Remember int
}

// Deps holds the dependencies of a Sealer.
type Deps struct {
	Config Config
	// DB is the database with the schema keyring. It need not be the main database.
	DB *postgres.DB
	// Separate reports whether DB is another database than the main one; receipts say so. Nil means that it is not.
	Separate func(context.Context) (bool, error)
	// KMS wraps and unwraps. OldKMS only unwrap what they wrapped before, while keys move to KMS.
	KMS    kms.Wrapper
	OldKMS []kms.Wrapper
	// Bus may be nil in a short-lived command.
	Bus Bus
	// Registry registers the metrics. If it is nil, they are not registered.
	Registry prometheus.Registerer
	Log      *slog.Logger
	Now      func() time.Time
}

// Sealer seals and opens texts and manages their keys. It is safe for concurrent use.
type Sealer struct {
	deps Deps
	// wrappers are KMS and OldKMS by their ids.
	wrappers map[string]kms.Wrapper
	cache    keyCache
	metrics  metrics
	// receiptKey is nil until ReceiptKeys has read it.
	receiptKey atomic.Pointer[ReceiptKey]
}

// New makes a Sealer. Run starts its maintenance.
func New(d Deps) *Sealer {
	d.Config.RewrapRate = cmp.Or(d.Config.RewrapRate, 500)
	d.Config.Remember = cmp.Or(d.Config.Remember, 100_000)
	s := &Sealer{deps: d, wrappers: map[string]kms.Wrapper{}, cache: newKeyCache(d.Config.Remember), metrics: newMetrics(d.Registry)}
	for _, w := range append([]kms.Wrapper{d.KMS}, d.OldKMS...) {
		s.wrappers[w.ID()] = w
	}
	return s
}

// Prepare creates the holder's data key if it has none. Any number of nodes may call it concurrently. A shredded holder
// never gets a second key (ErrShredded): a returning account is a new holder with a new id.
func (s *Sealer) Prepare(ctx context.Context, org id.Org, holder string) error {
	return s.prepare(ctx, holderRef{org, holder})
}

// Seal encrypts a text for its address. The holder must have been prepared, or it fails with ErrShredded.
func (s *Sealer) Seal(ctx context.Context, at Address, text secret.String) ([]byte, error) {
	return s.seal(ctx, at, text)
}

// Open decrypts a text that was sealed for the same address. It fails with ErrCorrupt, ErrUnavailable or ErrShredded.
func (s *Sealer) Open(ctx context.Context, at Address, sealed []byte) (secret.String, error) {
	return s.open(ctx, at, sealed)
}

// SealBytes is Seal for content that this process handles in the clear anyway, such as events.
func (s *Sealer) SealBytes(ctx context.Context, at Address, text []byte) ([]byte, error) {
	return s.sealBytes(ctx, at, text)
}

// OpenBytes is Open for what SealBytes has sealed.
func (s *Sealer) OpenBytes(ctx context.Context, at Address, sealed []byte) ([]byte, error) {
	return s.openBytes(ctx, at, sealed)
}

// HasKey reports whether the holder has a data key, and so whether what was sealed with it can still be opened.
func (s *Sealer) HasKey(ctx context.Context, org id.Org, holder string) (bool, error) {
	_, _, err := s.keysOf(ctx, holderRef{org, holder})
	if errors.Is(err, ErrShredded) {
		return false, nil
	}
	return err == nil, err
}

// Shred deletes the holder's data keys. After it has returned, this node opens no text of the holder. Neither does any
// node that the notification has reached; a node that it did not reach stops within a minute. Shredding again returns
// the same result.
func (s *Sealer) Shred(ctx context.Context, org id.Org, holder string) (Shredded, error) {
	return s.shred(ctx, holderRef{org, holder})
}

// ShredOrg deletes all keys of an organisation, and all that the keyring knows of it. Every data key goes first, as
// Shred does it. Nothing may be sealed for the organisation any more: that would create new keys. It can be repeated
// after a failure.
func (s *Sealer) ShredOrg(ctx context.Context, org id.Org) error {
	return s.shredOrg(ctx, org)
}

// Derive returns 32 secret bytes for a purpose. They are the same on all nodes, survive every rotation, and are
// unrelated to those of other purposes.
func (s *Sealer) Derive(ctx context.Context, purpose string) ([]byte, error) {
	return s.derive(ctx, purpose)
}

// AuditKeyed reports whether SetAuditKeyed was ever called.
func (s *Sealer) AuditKeyed(ctx context.Context) (bool, error) {
	at, err := s.queries().AuditKeyedAt(ctx)
	if err != nil && !errors.Is(err, postgres.ErrNoRows) {
		return false, unavailable("read the state of the audit log", err)
	}
	return at != nil, nil
}

// SetAuditKeyed records that every audit entry has a hash with a key that Derive has returned. It is recorded in the
// keyring, where a writer of the main database cannot undo it.
func (s *Sealer) SetAuditKeyed(ctx context.Context) error {
	now := s.deps.Now()
	n, err := s.queries().SetAuditKeyed(ctx, &now)
	if err == nil && n == 0 {
		err = errors.New("the keyring has no root")
	}
	if err != nil {
		return unavailable("write the state of the audit log", err)
	}
	return nil
}
