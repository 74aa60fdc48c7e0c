package seal

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/seal/internal/db"
)

const (
	// shredPattern matches the notifications of shreddings: the last token is the organisation, the payload the holder.
	shredPattern = "inv.shred.*"
	// maxKeyAttempts is how often creating a data key is tried, if the org's key is replaced at the same time.
	maxKeyAttempts = 5
)

// unavailable returns an ErrUnavailable that names the operation and the cause. It does not wrap one twice.
func unavailable(what string, cause error) error {
	if errors.Is(cause, ErrUnavailable) {
		return cause
	}
	return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, cause)
}

func (s *Sealer) seal(ctx context.Context, at Address, text secret.String) ([]byte, error) {
	plain := []byte(text.Reveal())
	defer clear(plain)
	return s.sealBytes(ctx, at, plain)
}

func (s *Sealer) sealBytes(ctx context.Context, at Address, plain []byte) ([]byte, error) {
	if err := at.check(); err != nil {
		return nil, err
	}
	if len(plain) > MaxText {
		return nil, fmt.Errorf("seal a text: it has %d bytes, the maximum is %d", len(plain), MaxText)
	}
	keys, _, err := s.keysOf(ctx, at.holder())
	if err != nil {
		return nil, err
	}
	ciphertext, err := keys.ciphers[keys.newest].Encrypt(plain, at.aad())
	if err != nil {
		return nil, errors.New("seal a text: tink cannot encrypt")
	}
	return slices.Concat(sealedHeader(keys.newest), ciphertext), nil
}

func (s *Sealer) open(ctx context.Context, at Address, sealed []byte) (secret.String, error) {
	plain, err := s.openBytes(ctx, at, sealed)
	if err != nil {
		return secret.String{}, err
	}
	defer clear(plain)
	return secret.New(string(plain)), nil
}

func (s *Sealer) openBytes(ctx context.Context, at Address, sealed []byte) ([]byte, error) {
	if err := at.check(); err != nil {
		return nil, err
	}
	generation, ciphertext, ok := splitSealed(sealed)
	if !ok {
		return nil, s.countCorrupt()
	}
	keys, cached, err := s.keysOf(ctx, at.holder())
	if err == nil && cached && keys.ciphers[generation] == nil {
		// Another node may have added a generation since the keys were cached.
		keys, err = s.loadKeys(ctx, at.holder())
	}
	switch {
	case errors.Is(err, ErrCorrupt):
		return nil, s.countCorrupt()
	case err != nil:
		return nil, err
	case keys.ciphers[generation] == nil:
		return nil, s.countCorrupt()
	}
	plain, err := keys.ciphers[generation].Decrypt(ciphertext, at.aad())
	if err != nil {
		return nil, s.countCorrupt()
	}
	return plain, nil
}

// countCorrupt returns ErrCorrupt and counts it in a metric, so that tampering is noticed.
func (s *Sealer) countCorrupt() error {
	s.metrics.corrupt.Inc()
	return ErrCorrupt
}

func (s *Sealer) prepare(ctx context.Context, h holderRef) error {
	if err := h.check(); err != nil {
		return err
	}
	for range maxKeyAttempts {
		// Most holders are new, so create the key without checking first whether there is one.
		key, err := s.newDataKey(ctx, h, 1)
		if err != nil {
			return err
		}
		now, notices := s.deps.Now(), s.cache.notices(h).Load()
		made, err := s.addHolder(ctx, h, uuid.NewString(), key)
		if made {
			// The caller is about to seal.
			s.cache.store(h, notices, &dataKeys{ciphers: map[int32]tink.AEAD{1: key.cipher}, newest: 1, readAt: now})
			return nil
		}
		if errors.Is(err, errOrgKeyGone) {
			continue
		}
		if err != nil {
			return err
		}
		state, _, err := s.holder(ctx, h)
		switch {
		case err != nil:
			return err
		case state == holderLive:
			return nil
		case state == holderShredded:
			s.cache.drop(h)
			return ErrShredded
		}
		// The holder was shredded long ago, and its row was deleted between the two queries.
	}
	return unavailable("create a data key", errors.New("the keys of the organisation keep changing"))
}

// Renew adds a generation to the holder's data key. Texts are sealed with it from now on. Texts that were sealed before
// still open, with the generation that sealed them.
func (s *Sealer) Renew(ctx context.Context, org id.Org, holder string) error {
	h := holderRef{org, holder}
	if err := h.check(); err != nil {
		return err
	}
	for range maxKeyAttempts {
		state, generations, err := s.holder(ctx, h)
		switch {
		case err != nil:
			return err
		case state != holderLive:
			return ErrShredded
		}
		key, err := s.newDataKey(ctx, h, generations+1)
		if err != nil {
			return err
		}
		err = s.addGeneration(ctx, h, generations+1, key)
		if errors.Is(err, errOrgKeyGone) || errors.Is(err, errGenerationTaken) {
			continue
		}
		// Other nodes seal with the older generation for up to a minute. All nodes can open that.
		s.cache.drop(h)
		return err
	}
	return unavailable("renew a data key", errors.New("the keys of the holder keep changing"))
}

// unstoredKey is a new data key that is not in the keyring yet.
type unstoredKey struct {
	cipher tink.AEAD
	// wrapped is the key, wrapped with this version of the org's key.
	wrapped []byte
	version int32
}

// newDataKey creates a data key and wraps it with the newest key of its organisation.
func (s *Sealer) newDataKey(ctx context.Context, h holderRef, generation int32) (unstoredKey, error) {
	version, orgWrapped, err := s.newestOrgKey(ctx, h.org)
	if errors.Is(err, postgres.ErrNoRows) {
		if err := s.newOrgKey(ctx, h.org, 1); err != nil {
			return unstoredKey{}, err
		}
		// Read the stored key instead of using the new one: another node may have been first.
		version, orgWrapped, err = s.newestOrgKey(ctx, h.org)
	}
	if err != nil {
		return unstoredKey{}, unavailable("read an org key", err)
	}
	org, err := s.unwrapCached(ctx, orgAAD(h.org, version), orgWrapped, cipherOf)
	if err != nil {
		return unstoredKey{}, err
	}
	key, err := newKeyset()
	if err != nil {
		return unstoredKey{}, err
	}
	cipher, err := cipherOf(key)
	if err != nil {
		return unstoredKey{}, err
	}
	wrapped, err := wrapKey(org.cipher, key, dataAAD(h, generation))
	return unstoredKey{cipher, wrapped, version}, err
}

// newOrgKey creates a version of an organisation's key. It does nothing if another node has created the version.
func (s *Sealer) newOrgKey(ctx context.Context, org id.Org, version int32) error {
	key, err := newKeyset()
	if err != nil {
		return err
	}
	wrapped, err := s.wrapWithKMS(ctx, key, orgAAD(org, version))
	if err != nil {
		return err
	}
	_, err = s.addOrgKey(ctx, org, version, wrapped)
	return err
}

// wrapWithKMS wraps a key with the newest key of the key management service.
func (s *Sealer) wrapWithKMS(ctx context.Context, key secret.String, aad []byte) (kms.Wrapped, error) {
	ctx, cancel := context.WithTimeout(ctx, kmsTimeout)
	defer cancel()
	wrapped, err := s.deps.KMS.Wrap(ctx, key, aad)
	if err != nil {
		return kms.Wrapped{}, unavailable("wrap a key", err)
	}
	return wrapped, nil
}

func (s *Sealer) shred(ctx context.Context, h holderRef) (Shredded, error) {
	if err := h.check(); err != nil {
		return Shredded{}, err
	}
	var out Shredded
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		var err error
		out, err = s.shredIn(ctx, tx, h)
		return err
	})
	// Drop the keys even after an error: the transaction may have been committed.
	s.cache.drop(h)
	if err != nil {
		return Shredded{}, unavailable("shred a data key", err)
	}
	if subject, err := pubsub.Subject("inv", "shred", string(h.org)); err == nil && s.deps.Bus != nil {
		_ = s.deps.Bus.Publish(subject, []byte(h.name)) // if it fails, the others find it in the keyring (watchShreds)
	}
	return out, nil
}

// shredBatch is how many holders one query of shredOrg reads or deletes.
const shredBatch = 1000

func (s *Sealer) shredOrg(ctx context.Context, org id.Org) error {
	for {
		holders, err := s.queries().LiveHolders(ctx, db.LiveHoldersParams{OrgID: org, Count: shredBatch})
		if err != nil {
			return unavailable("read the holders of an organisation", err)
		}
		if len(holders) == 0 {
			break
		}
		for _, holder := range holders {
			if _, err := s.shred(ctx, holderRef{org, holder}); err != nil {
				return err
			}
		}
	}
	for {
		n, err := s.queries().DropHolders(ctx, db.DropHoldersParams{OrgID: org, Count: shredBatch})
		if err != nil {
			return unavailable("delete the holders of an organisation", err)
		}
		if n == 0 {
			break
		}
	}
	// No data key refers to them any more. If one was added in the meantime, the foreign key makes this fail.
	if err := s.queries().DropOrgKeys(ctx, org); err != nil {
		return unavailable("delete the keys of an organisation", err)
	}
	return nil
}

// handleShred handles the notification of a shredding.
func (s *Sealer) handleShred(org string, holder []byte) {
	s.cache.drop(holderRef{id.Org(org), string(holder)})
}

// derive uses HKDF-SHA256 on the root, with the purpose as info and without salt.
func (s *Sealer) derive(ctx context.Context, purpose string) ([]byte, error) {
	if purpose == "" {
		return nil, errors.New("derive a key: the purpose is empty")
	}
	root, err := s.rootSecret(ctx)
	if err != nil {
		return nil, err
	}
	secretBytes := []byte(root.Reveal())
	defer clear(secretBytes)
	out, err := hkdf.Key(sha256.New, secretBytes, nil, string(encodeAAD("sd1derive", []byte(purpose))), sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	return out, nil
}

// rootSecret returns the root, and creates it if there is none.
func (s *Sealer) rootSecret(ctx context.Context) (secret.String, error) {
	if old, ok := s.cache.parents.Get(string(rootAAD())); ok && s.deps.Now().Sub(old.at) < freshAge {
		return old.key, nil
	}
	wrapped, err := s.rootKey(ctx)
	if errors.Is(err, postgres.ErrNoRows) {
		if err := s.newRoot(ctx); err != nil {
			return secret.String{}, err
		}
		// Read the stored root instead of using the new one: another node may have been first.
		wrapped, err = s.rootKey(ctx)
	}
	if err != nil {
		return secret.String{}, unavailable("read the root", err)
	}
	root, err := s.unwrapCached(ctx, rootAAD(), wrapped, noCipher)
	if err != nil {
		return secret.String{}, err
	}
	return root.key, nil
}

// newRoot creates the root, unless another node has done so.
func (s *Sealer) newRoot(ctx context.Context) error {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	defer clear(key)
	wrapped, err := s.wrapWithKMS(ctx, secret.New(string(key)), rootAAD())
	if err != nil {
		return err
	}
	return s.addRoot(ctx, wrapped)
}
