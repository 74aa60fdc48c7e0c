// Package idempotency makes a request that carries an Idempotency-Key run once, over any number of nodes.
//
// A key is reserved in the database before the request runs, and the answer kept under it for 24 hours. It owns the rows and what a
// repetition is told; package route asks it, around every operation that changes something. The rules for callers are in
// docs/idempotency.md. Start reading at Begin.
package idempotency

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

const (
	// Kept is how long an answer is.
	Kept = 24 * time.Hour
	// Lease is how long a run is believed to be alive, unless its request says more.
	Lease = time.Minute
)

// Request is what was asked for under a key.
type Request struct {
	Org id.Org
	// Caller is the API key that asked. Another one is not given the answer: it may hold more than that one may know.
	Caller string
	// Key is the caller's own, Route the operation. A key belongs to one operation.
	Key, Route string
	// Target is the path and the query. With the body it says what was asked for.
	Target string
	Body   []byte
	// Lease is how long the run may take.
	Lease time.Duration
	// Repeatable means that a request whose first run died may be run again.
	Repeatable bool
}

// Answer is what was answered.
type Answer struct {
	Status int
	Header map[string]string
	Body   []byte
	// TooLarge means that the body is not kept.
	TooLarge bool
}

// Claim is the right to run a request and to settle its key.
type Claim struct {
	org               id.Org
	key, route, owner string
}

// sealer keeps answers at rest; *seal.Sealer has it.
type sealer interface {
	Prepare(ctx context.Context, org id.Org, holder string) error
	Seal(ctx context.Context, at seal.Address, text secret.String) ([]byte, error)
	Open(ctx context.Context, at seal.Address, sealed []byte) (secret.String, error)
	Derive(ctx context.Context, purpose string) ([]byte, error)
}

// Deps is what the service needs.
type Deps struct {
	DB   *postgres.DB
	Seal sealer
}

// Keys is the service.
type Keys struct {
	Deps
	// pepper is the key of the hashes, once it was read.
	pepper atomic.Pointer[[]byte]
}

// New makes the service.
func New(d Deps) *Keys { return &Keys{Deps: d} }

// ErrLost means that the claim is another run's by now, because this one took too long.
var ErrLost = errors.New("another run has taken the key")

// beginTries bounds how often a key is tried that others take and free meanwhile.
const beginTries = 3

// Begin reserves the key, or finds the answer that was given under it: exactly one of the two is returned. Its errors for the caller
// are problems.
func (k *Keys) Begin(ctx context.Context, r Request) (*Claim, *Answer, error) {
	hash, err := k.hash(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	claim := &Claim{r.Org, r.Key, r.Route, string(id.New[id.Request]())}
	for range beginTries {
		reserved, err := reserve(ctx, k.DB.Pool(), claim, r, hash)
		if err != nil {
			return nil, nil, err
		}
		if reserved {
			return claim, nil, nil
		}
		found, err := get(ctx, k.DB.Pool(), r)
		if errors.Is(err, postgres.ErrNoRows) {
			continue // freed since
		}
		if err != nil {
			return nil, nil, err
		}
		answer, err := k.judge(ctx, r, hash, found)
		return nil, answer, err
	}
	return nil, nil, inProgress()
}

// Known says whether the key has been used for the operation.
func (k *Keys) Known(ctx context.Context, r Request) (bool, error) {
	return known(ctx, k.DB.Pool(), r)
}

// judge says what a repetition is told.
func (k *Keys) judge(ctx context.Context, r Request, hash []byte, found row) (*Answer, error) {
	switch {
	case !hmac.Equal(hash, found.hash):
		return nil, problem.IdempotencyMismatch.New("This Idempotency-Key was used for another request: another path, another body, or another API key.")
	case found.state == stateLarge:
		return nil, problem.Internal.Newf("The first request with this Idempotency-Key ended with status %d. Its answer was too large to be kept.", found.status).
			Retry(false).With("outcome", "done")
	case found.state == stateDone:
		return k.reveal(ctx, r.Org, found)
	case found.lapsed:
		return nil, problem.Internal.New("The first request with this Idempotency-Key broke off, and it is not known whether it was carried out. " +
			"Read what happened before you send it again with a new key.").InDoubt()
	}
	return nil, inProgress()
}

func inProgress() error {
	return problem.IdempotencyInProgress.New("The first request with this Idempotency-Key is still running.").After(1)
}

// Finish keeps the answer. A run that was given up since must not overwrite what another one does.
func (k *Keys) Finish(ctx context.Context, c *Claim, a Answer) error {
	r := row{state: stateDone, status: a.Status, header: a.Header}
	if a.TooLarge {
		r.state = stateLarge
	} else if len(a.Body) > 0 {
		var err error
		if r.body, err = k.hide(ctx, c.org, a.Body); err != nil {
			return err
		}
	}
	return finish(ctx, k.DB.Pool(), c, r)
}

// Release forgets that the key was used: nothing was carried out under it.
func (k *Keys) Release(ctx context.Context, c *Claim) error { return release(ctx, k.DB.Pool(), c) }

// Abandon says that the run broke off and nobody knows how far it came.
func (k *Keys) Abandon(ctx context.Context, c *Claim) error { return abandon(ctx, k.DB.Pool(), c) }

// trimBatch bounds what one statement removes.
const trimBatch = 2000

// Trim removes what has expired, and says how much it was.
func (k *Keys) Trim(ctx context.Context) (int64, error) {
	var total int64
	for {
		n, err := trim(ctx, k.DB.Pool(), trimBatch)
		total += n
		if err != nil || n < trimBatch {
			return total, err
		}
	}
}

// address is where an org's answers are sealed for.
func address(org id.Org) seal.Address {
	return seal.Address{Org: org, Holder: string(org), Purpose: seal.PurposeAnswer, Version: 1}
}

func (k *Keys) hide(ctx context.Context, org id.Org, body []byte) ([]byte, error) {
	text := secret.New(string(body))
	sealed, err := k.Seal.Seal(ctx, address(org), text)
	if errors.Is(err, seal.ErrShredded) { // the org has sealed nothing yet
		if err = k.Seal.Prepare(ctx, org, string(org)); err == nil {
			sealed, err = k.Seal.Seal(ctx, address(org), text)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("seal an answer of %s: %w", org, err)
	}
	return sealed, nil
}

func (k *Keys) reveal(ctx context.Context, org id.Org, found row) (*Answer, error) {
	a := &Answer{Status: found.status, Header: found.header}
	if len(found.body) == 0 {
		return a, nil
	}
	text, err := k.Seal.Open(ctx, address(org), found.body)
	if err != nil {
		return nil, unavailable("open an answer of "+string(org), err)
	}
	a.Body = []byte(text.Reveal())
	return a, nil
}

// hash is over what was asked for, and by whom. Its parts are told apart by their lengths.
func (k *Keys) hash(ctx context.Context, r Request) ([]byte, error) {
	pepper := k.pepper.Load()
	if pepper == nil {
		derived, err := k.Seal.Derive(ctx, "idempotency")
		if err != nil {
			return nil, unavailable("derive the key of request hashes", err)
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

// unavailable tells keys that are away from keys that are gone.
func unavailable(doing string, err error) error {
	if errors.Is(err, seal.ErrUnavailable) {
		return problem.ServiceUnavailable.New("The service cannot reach its keys right now.").After(2).Because(err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
