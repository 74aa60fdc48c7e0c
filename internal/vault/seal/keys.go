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
)

const (
	// shredPattern is what a node listens on: the last token is the org, the payload the holder.
	shredPattern = "inv.shred.*"
	// keyTries is how often a data key is made anew because the org's key was replaced meanwhile.
	keyTries = 5
)

// unavailable says what could not be done and why.
func unavailable(what string, cause error) error {
	if errors.Is(cause, ErrUnavailable) {
		return cause
	}
	return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, cause)
}

func (s *Sealer) seal(ctx context.Context, at Address, text secret.String) ([]byte, error) {
	if err := at.check(); err != nil {
		return nil, err
	}
	plain := []byte(text.Reveal())
	defer clear(plain)
	if len(plain) > MaxText {
		return nil, fmt.Errorf("a text of %d bytes cannot be sealed; at most %d can", len(plain), MaxText)
	}
	keys, _, err := s.keysOf(ctx, at.holder())
	if err != nil {
		return nil, err
	}
	ciphertext, err := keys.ciphers[keys.newest].Encrypt(plain, at.aad())
	if err != nil {
		return nil, errors.New("seal a text: tink cannot encrypt")
	}
	return slices.Concat(header(keys.newest), ciphertext), nil
}

func (s *Sealer) open(ctx context.Context, at Address, sealed []byte) (secret.String, error) {
	if err := at.check(); err != nil {
		return secret.String{}, err
	}
	generation, ciphertext, ok := split(sealed)
	if !ok {
		return secret.String{}, s.corrupt()
	}
	keys, remembered, err := s.keysOf(ctx, at.holder())
	if err == nil && remembered && keys.ciphers[generation] == nil {
		// Another node may have added a generation since.
		keys, err = s.load(ctx, at.holder())
	}
	switch {
	case errors.Is(err, ErrCorrupt):
		return secret.String{}, s.corrupt()
	case err != nil:
		return secret.String{}, err
	case keys.ciphers[generation] == nil:
		return secret.String{}, s.corrupt()
	}
	plain, err := keys.ciphers[generation].Decrypt(ciphertext, at.aad())
	if err != nil {
		return secret.String{}, s.corrupt()
	}
	defer clear(plain)
	return secret.New(string(plain)), nil
}

// corrupt counts, so that tampering shows.
func (s *Sealer) corrupt() error {
	s.metrics.corrupt.Inc()
	return ErrCorrupt
}

func (s *Sealer) prepare(ctx context.Context, h holderRef) error {
	if err := h.check(); err != nil {
		return err
	}
	for range keyTries {
		// Most holders are new, so the key comes before the question whether there is one.
		key, err := s.newDataKey(ctx, h, 1)
		if err != nil {
			return err
		}
		now, heard := s.Now(), s.known.shard(h).Load()
		made, err := s.addHolder(ctx, h, uuid.NewString(), key)
		if made {
			// Who prepares is about to seal.
			s.known.keep(h, heard, &dataKeys{ciphers: map[int32]tink.AEAD{1: key.cipher}, newest: 1, readAt: now})
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
			s.known.forget(h)
			return ErrShredded
		}
		// It was just forgotten, long after it was shredded.
	}
	return unavailable("make a data key", errors.New("the keys of the org keep changing"))
}

// Renew gives a holder a new generation of its data key. What is sealed from now on needs it; what was sealed before stays
// readable until it is sealed again.
func (s *Sealer) Renew(ctx context.Context, org id.Org, holder string) error {
	h := holderRef{org, holder}
	if err := h.check(); err != nil {
		return err
	}
	for range keyTries {
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
		// Other nodes seal with the older one for up to a minute, which all can open.
		s.known.forget(h)
		return err
	}
	return unavailable("renew a data key", errors.New("the keys of the holder keep changing"))
}

// newKey is a data key that is not stored yet.
type newKey struct {
	cipher tink.AEAD
	// wrapped by this version of the org's key.
	wrapped []byte
	version int32
}

// newDataKey makes a data key and wraps it with the newest key of its org.
func (s *Sealer) newDataKey(ctx context.Context, h holderRef, generation int32) (newKey, error) {
	version, orgWrapped, err := s.newestOrgKey(ctx, h.org)
	if errors.Is(err, postgres.ErrNoRows) {
		if err := s.newOrgKey(ctx, h.org, 1); err != nil {
			return newKey{}, err
		}
		// Not what was just made: another node may have been first.
		version, orgWrapped, err = s.newestOrgKey(ctx, h.org)
	}
	if err != nil {
		return newKey{}, unavailable("read an org key", err)
	}
	org, err := s.unwrap(ctx, orgAAD(h.org, version), orgWrapped, cipherOf)
	if err != nil {
		return newKey{}, err
	}
	key, err := newKeyset()
	if err != nil {
		return newKey{}, err
	}
	cipher, err := cipherOf(key)
	if err != nil {
		return newKey{}, err
	}
	wrapped, err := wrapKey(org.cipher, key, dataAAD(h, generation))
	return newKey{cipher, wrapped, version}, err
}

// newOrgKey makes a version of an org's key, unless there is one already.
func (s *Sealer) newOrgKey(ctx context.Context, org id.Org, version int32) error {
	key, err := newKeyset()
	if err != nil {
		return err
	}
	wrapped, err := s.wrap(ctx, key, orgAAD(org, version))
	if err != nil {
		return err
	}
	_, err = s.addOrgKey(ctx, org, version, wrapped)
	return err
}

// wrap wraps with the key management service.
func (s *Sealer) wrap(ctx context.Context, key secret.String, aad []byte) (kms.Wrapped, error) {
	ctx, cancel := context.WithTimeout(ctx, kmsTimeout)
	defer cancel()
	wrapped, err := s.KMS.Wrap(ctx, key, aad)
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
	err := s.DB.Tx(ctx, func(tx postgres.Tx) error {
		var err error
		out, err = s.shredIn(ctx, tx, h)
		return err
	})
	// Also if it failed: it may have been committed.
	s.known.forget(h)
	if err != nil {
		return Shredded{}, unavailable("shred a data key", err)
	}
	if subject, err := pubsub.Subject("inv", "shred", string(h.org)); err == nil && s.Bus != nil {
		_ = s.Bus.Poke(subject, []byte(h.name)) // without it the others notice within a minute
	}
	return out, nil
}

// heardShred takes a poke.
func (s *Sealer) heardShred(org string, holder []byte) {
	s.known.forget(holderRef{id.Org(org), string(holder)})
}

func (s *Sealer) derive(ctx context.Context, purpose string) ([]byte, error) {
	if purpose == "" {
		return nil, errors.New("derive a key: there is no purpose")
	}
	root, err := s.root(ctx)
	if err != nil {
		return nil, err
	}
	secretBytes := []byte(root.Reveal())
	defer clear(secretBytes)
	out, err := hkdf.Key(sha256.New, secretBytes, nil, string(bind("sd1derive", []byte(purpose))), sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	return out, nil
}

// root gives the root, or makes it if there is none.
func (s *Sealer) root(ctx context.Context) (secret.String, error) {
	if old, ok := s.known.above.Get(string(rootAAD())); ok && s.Now().Sub(old.at) < freshAge {
		return old.key, nil
	}
	wrapped, err := s.rootKey(ctx)
	if errors.Is(err, postgres.ErrNoRows) {
		if err := s.newRoot(ctx); err != nil {
			return secret.String{}, err
		}
		// Not what was just made: another node may have been first.
		wrapped, err = s.rootKey(ctx)
	}
	if err != nil {
		return secret.String{}, unavailable("read the root", err)
	}
	root, err := s.unwrap(ctx, rootAAD(), wrapped, noCipher)
	if err != nil {
		return secret.String{}, err
	}
	return root.key, nil
}

func (s *Sealer) newRoot(ctx context.Context) error {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	defer clear(key)
	wrapped, err := s.wrap(ctx, secret.New(string(key)), rootAAD())
	if err != nil {
		return err
	}
	return s.addRoot(ctx, wrapped)
}
