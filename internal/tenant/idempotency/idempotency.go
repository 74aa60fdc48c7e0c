// Package idempotency makes a request that carries an Idempotency-Key run once, over any number of nodes.
//
// It reserves the key in the database before the request runs, and stores the answer under it for 24 hours. It owns
// these rows and decides what a repeated request gets. Package endpoint calls it around every operation that changes
// something, and decides which answers are stored. docs/idempotency.md has the rules for callers. Start reading at
// Begin.
package idempotency

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/idempotency/internal/db"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

const (
	// Kept is how long an answer is stored.
	Kept = 24 * time.Hour
	// Lease is the usual Request.Lease: how long a run is assumed to be alive.
	Lease = time.Minute
)

// Request describes a request that carries a key.
type Request struct {
	Org id.Org
	// Account is the account whose content the answer contains; empty if it contains none. The answer is sealed with the
	// account's key, so that it is gone when the account is deleted.
	Account id.Account
	// Caller is the API key that sent the request. Another API key does not get the answer, which may contain more than
	// that key may see.
	Caller string
	// Key is the Idempotency-Key and Route the operation. The same key under another operation is unrelated.
	Key, Route string
	// Target is the path and the query. Target and Body must be the same in a repeated request.
	Target string
	Body   []byte
	// Lease is how long the run may take. After that a repeated request assumes that the run has died.
	Lease time.Duration
	// Repeatable allows the request to be run again after its first run has died.
	Repeatable bool
}

// Answer is a stored response.
type Answer struct {
	Status int
	Header map[string]string
	Body   []byte
	// TooLarge means that the body is not stored.
	TooLarge bool
}

// Claim is the right to run a request. Its holder must end it with Finish, Release or Abandon. Claims of one key differ
// by owner, so that a run which has lost its claim cannot change the row.
type Claim struct {
	org               id.Org
	account           id.Account
	key, route, owner string
}

// sealer encrypts stored answers. *seal.Sealer implements it.
type sealer interface {
	Prepare(ctx context.Context, org id.Org, holder string) error
	Seal(ctx context.Context, at seal.Address, text secret.String) ([]byte, error)
	Open(ctx context.Context, at seal.Address, sealed []byte) (secret.String, error)
	Derive(ctx context.Context, purpose string) ([]byte, error)
}

// Deps are the dependencies of Keys.
type Deps struct {
	DB   *postgres.DB
	Seal sealer
}

// Keys reserves idempotency keys and stores answers under them. Its methods are safe for concurrent use.
type Keys struct {
	deps Deps
	// pepper is the secret of the request hashes, nil until it was derived.
	pepper atomic.Pointer[[]byte]
}

// New returns a Keys with the given dependencies.
func New(d Deps) *Keys { return &Keys{deps: d} }

// ErrLost means that the claim has ended: another run took the key over after the lease had expired, or the claim was
// already finished or released.
var ErrLost = errors.New("another run has taken the key")

// beginTries bounds how often Begin retries a key that others reserve and release concurrently.
const beginTries = 3

// Begin reserves the key and returns a claim, or returns the answer that is stored under it. Otherwise it returns an
// error: a problem for the caller (idempotency-in-progress, idempotency-mismatch, unknown outcome) or a failure.
func (k *Keys) Begin(ctx context.Context, r Request) (*Claim, *Answer, error) {
	hash, err := k.hashRequest(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	claim := &Claim{r.Org, r.Account, r.Key, r.Route, string(id.New[id.Request]())}
	for range beginTries {
		reserved, err := reserve(ctx, k.deps.DB, claim, r, hash)
		if err != nil {
			return nil, nil, err
		}
		if reserved {
			return claim, nil, nil
		}
		found, err := db.New(k.deps.DB).Get(ctx, db.GetParams{OrgID: r.Org, Key: r.Key, Route: r.Route})
		if errors.Is(err, postgres.ErrNoRows) {
			continue // released after reserve failed
		}
		if err != nil {
			return nil, nil, err
		}
		answer, err := k.answerRepeat(ctx, r, hash, found)
		return nil, answer, err
	}
	return nil, nil, inProgress()
}

// Known reports whether the key has been used for the operation. The result may change before a later Begin.
func (k *Keys) Known(ctx context.Context, r Request) (bool, error) {
	return db.New(k.deps.DB).Known(ctx, db.KnownParams{OrgID: r.Org, Key: r.Key, Route: r.Route})
}

// answerRepeat decides what a request gets whose key is already in use: the stored answer or a problem.
func (k *Keys) answerRepeat(ctx context.Context, r Request, hash []byte, found db.GetRow) (*Answer, error) {
	switch {
	case !hmac.Equal(hash, found.RequestHash):
		return nil, problem.IdempotencyMismatch.New(
			"This Idempotency-Key was used for a different request: another path, body or API key.")
	case found.State == stateLarge:
		return nil, problem.Internal.Newf("The first request with this Idempotency-Key ended with status %d. "+
			"Its response was not stored: it was too large, or the account was deleted.", found.Status).
			Retry(false).With("outcome", "done")
	case found.State == stateDone:
		return k.openAnswer(ctx, r, found)
	case found.Lapsed:
		return nil, problem.Internal.New("The first request with this Idempotency-Key was interrupted, " +
			"and it is unknown whether it was carried out. Check what happened before you send it again with a new key.").InDoubt()
	}
	return nil, inProgress()
}

func inProgress() error {
	return problem.IdempotencyInProgress.New("The first request with this Idempotency-Key is still running.").After(1)
}

// Finish stores the answer, sealed. It returns ErrLost if another run has taken the key over. A run whose lease has
// expired can still finish if none has.
func (k *Keys) Finish(ctx context.Context, c *Claim, a Answer) error {
	if a.TooLarge {
		a.Body = nil
		return storeAnswer(ctx, k.deps.DB, c, stateLarge, a)
	}
	if len(a.Body) > 0 {
		sealed, err := k.sealBody(ctx, c.org, c.account, a.Body)
		if c.account != "" && errors.Is(err, seal.ErrShredded) {
			if a.Status < http.StatusBadRequest {
				a.Body = nil // the account was deleted, and nothing of it is stored
				return storeAnswer(ctx, k.deps.DB, c, stateLarge, a)
			}
			sealed, err = k.sealBody(ctx, c.org, "", a.Body) // an account that does not exist, or no longer
		}
		if err != nil {
			return err
		}
		a.Body = sealed
	}
	return storeAnswer(ctx, k.deps.DB, c, stateDone, a)
}

// Release deletes the reservation because nothing was carried out under the key. The key can then be used for anything.
func (k *Keys) Release(ctx context.Context, c *Claim) error {
	p := db.ReleaseParams{OrgID: c.org, Key: c.key, Route: c.route, Owner: c.owner}
	n, err := db.New(k.deps.DB).Release(ctx, p)
	return checkOwner("release an idempotency key", c, n, err)
}

// Abandon records that the run was interrupted and that its outcome is unknown, by ending its lease immediately.
func (k *Keys) Abandon(ctx context.Context, c *Claim) error {
	p := db.AbandonParams{OrgID: c.org, Key: c.key, Route: c.route, Owner: c.owner}
	n, err := db.New(k.deps.DB).Abandon(ctx, p)
	return checkOwner("abandon an idempotency key", c, n, err)
}

// trimBatch bounds how many rows one statement deletes.
const trimBatch = 2000

// Trim deletes expired rows of all orgs and returns how many.
func (k *Keys) Trim(ctx context.Context) (int64, error) {
	var total int64
	for {
		n, err := db.New(k.deps.DB).Trim(ctx, trimBatch)
		total += n
		if err != nil || n < trimBatch {
			return total, err
		}
	}
}

// address returns the address under which answers of an account, or of an org, are sealed.
func address(org id.Org, account id.Account) seal.Address {
	at := seal.Address{Org: org, Holder: string(org), Purpose: seal.PurposeAnswer, Version: 1}
	if account != "" {
		at.Holder = string(account)
	}
	return at
}

func (k *Keys) sealBody(ctx context.Context, org id.Org, account id.Account, body []byte) ([]byte, error) {
	at, text := address(org, account), secret.New(string(body))
	sealed, err := k.deps.Seal.Seal(ctx, at, text)
	if account == "" && errors.Is(err, seal.ErrShredded) { // the org has no data key yet
		if err = k.deps.Seal.Prepare(ctx, org, string(org)); err == nil {
			sealed, err = k.deps.Seal.Seal(ctx, at, text)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("seal an answer of %s: %w", org, err)
	}
	return sealed, nil
}

func (k *Keys) openAnswer(ctx context.Context, r Request, found db.GetRow) (*Answer, error) {
	a := &Answer{Status: found.Status, Header: found.Headers}
	if len(found.Body) == 0 {
		return a, nil
	}
	text, err := k.deps.Seal.Open(ctx, address(r.Org, r.Account), found.Body)
	if r.Account != "" && (errors.Is(err, seal.ErrCorrupt) || errors.Is(err, seal.ErrShredded)) {
		// It may be sealed for the org: by the version before this, or because there was no such account.
		if ofOrg, failed := k.deps.Seal.Open(ctx, address(r.Org, ""), found.Body); failed == nil {
			text, err = ofOrg, nil
		}
	}
	if r.Account != "" && errors.Is(err, seal.ErrShredded) {
		return nil, problem.AccountNotFound.New("The organisation has no account with this id.")
	}
	if err != nil {
		return nil, wrapSealError("open an answer of "+string(r.Org), err)
	}
	a.Body = []byte(text.Reveal())
	return a, nil
}

// hashRequest returns a keyed hash of the caller, the target and the body, each preceded by its length. The hash is
// keyed because bodies contain passwords, which a plain hash would allow to be guessed.
func (k *Keys) hashRequest(ctx context.Context, r Request) ([]byte, error) {
	pepper := k.pepper.Load()
	if pepper == nil {
		derived, err := k.deps.Seal.Derive(ctx, "idempotency")
		if err != nil {
			return nil, wrapSealError("derive the secret of request hashes", err)
		}
		pepper = &derived
		k.pepper.Store(pepper)
	}
	h := hmac.New(sha256.New, *pepper)
	var size [8]byte
	for _, part := range [...][]byte{[]byte(r.Caller), []byte(r.Target), r.Body} {
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write(part)
	}
	return h.Sum(nil), nil
}

// wrapSealError turns a key service that cannot be reached into the problem service-unavailable. Other errors, such as
// destroyed keys, stay internal.
func wrapSealError(doing string, err error) error {
	if errors.Is(err, seal.ErrUnavailable) {
		return problem.ServiceUnavailable.New("The service cannot reach its keys right now.").After(2).Because(err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
