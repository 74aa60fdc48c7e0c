// Package seal keeps secrets at rest: it turns a text into bytes that open only with the keys of their holder, and only
// at the address they were sealed for.
//
// A key of the key management service (package kms) wraps a key per org, that wraps a data key per holder, and that seals.
// A holder is an account, an attempt, or an org itself. Deleting its data key (Shred) makes all that it has sealed noise,
// in every backup of the main database too. The sealed bytes are kept by whoever has sealed them; this package owns the
// keys alone, in the schema keyring, which may be in a database of its own. Start reading at Sealer; the chain of keys is
// in chain.go, what nodes remember of it in cache.go, rotation in rotate.go, receipts in receipt.go. See docs/sealing.md.
package seal

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
)

// Every failure that is not the caller's own mistake is one of these three.
var (
	// ErrCorrupt means that sealed bytes, or a key above them, are not what they were, or belong to another address. It is
	// always returned as it is: which check failed is told to nobody.
	ErrCorrupt = errors.New("the sealed text is corrupt or was sealed for something else")
	// ErrUnavailable means that nothing is known: the keyring or the key management service is away.
	ErrUnavailable = errors.New("the keys cannot be read now; try again later")
	// ErrShredded means that the holder has no data key: it was shredded, or never prepared.
	ErrShredded = errors.New("there is no key for this any more")
)

// Purpose says what a sealed text is. A text opens for its own purpose only.
type Purpose string

// The purposes.
const (
	PurposeSession     Purpose = "session"
	PurposeCredentials Purpose = "credentials"
	PurposeAttempt     Purpose = "attempt"
	PurposeInput       Purpose = "input"
	PurposeAnswer      Purpose = "answer"
	PurposeWebhook     Purpose = "webhook_secret"
)

// Address is what a sealed text is bound to.
type Address struct {
	Org id.Org
	// Holder is the id of an account, an attempt, or the org itself for what belongs to the org as a whole.
	Holder  string
	Purpose Purpose
	// Version tells the texts of one holder and purpose apart, such as the versions of a session.
	Version int64
}

// Shredded is what was there when a holder was shredded, for its receipt.
type Shredded struct {
	// DataKey is the id of the data key; empty if the holder never had one.
	DataKey     string
	Generations int
	At          time.Time
}

// Bus carries the news of a shredding to the other nodes; *pubsub.Bus does.
type Bus interface {
	Poke(subject string, payload []byte) error
	Listen(ctx context.Context, pattern string, heard func(last string, payload []byte)) error
}

// Config bounds what a sealer does.
type Config struct {
	// RewrapRate is how many data keys the fleet re-wraps per second; 500 if zero.
	RewrapRate int
	// Remember is how many holders' data keys a node remembers, about 1 KB each; 50,000 if zero.
	Remember int
}

// Deps is what the service needs.
type Deps struct {
	Config Config
	// DB is where the schema keyring is, which need not be the main database.
	DB *postgres.DB
	// KMS wraps. OldKMS only unwraps what was wrapped by it, while keys move to KMS.
	KMS    kms.Wrapper
	OldKMS []kms.Wrapper
	// Bus is nil for a command that ends soon.
	Bus Bus
	Log *slog.Logger
	Now func() time.Time
}

// Sealer is the service. It may be used by many goroutines.
type Sealer struct {
	Deps
	wrappers map[string]kms.Wrapper
	known    known
	metrics  metrics
}

// New makes the service.
func New(d Deps) *Sealer {
	if d.Config.RewrapRate == 0 {
		d.Config.RewrapRate = 500
	}
	if d.Config.Remember == 0 {
		d.Config.Remember = 50_000
	}
	s := &Sealer{Deps: d, wrappers: map[string]kms.Wrapper{}, known: newKnown(d.Config.Remember), metrics: newMetrics()}
	for _, w := range append([]kms.Wrapper{d.KMS}, d.OldKMS...) {
		s.wrappers[w.ID()] = w
	}
	return s
}

// Prepare makes the holder's data key if it has none. It may be called at any time, by any number of nodes at once. A
// holder that was shredded is given no second key (ErrShredded): whoever comes back is a new holder with a new id.
func (s *Sealer) Prepare(ctx context.Context, org id.Org, holder string) error {
	return s.prepare(ctx, holderRef{org, holder})
}

// Seal encrypts a text for its address. The holder must have been prepared, or it fails with ErrShredded.
func (s *Sealer) Seal(ctx context.Context, at Address, text secret.String) ([]byte, error) {
	return s.seal(ctx, at, text)
}

// Open gives the text back if it was sealed for the same address. It fails with ErrCorrupt, ErrUnavailable or ErrShredded.
func (s *Sealer) Open(ctx context.Context, at Address, sealed []byte) (secret.String, error) {
	return s.open(ctx, at, sealed)
}

// Shred deletes the holder's data keys. Once it has returned, this node opens nothing of the holder, and neither does any
// node that was reached by the poke; one that was not stops within a minute. Shredding again gives the same answer.
func (s *Sealer) Shred(ctx context.Context, org id.Org, holder string) (Shredded, error) {
	return s.shred(ctx, holderRef{org, holder})
}

// Derive gives 32 bytes for a purpose: the same on all nodes and for ever, and unrelated to those of other purposes.
func (s *Sealer) Derive(ctx context.Context, purpose string) ([]byte, error) {
	return s.derive(ctx, purpose)
}
