package sealtest

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"sync"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Memory seals content in tests that have no keyring, with real ciphers. It derives the key of a holder from
// its name, so that several of them open the same texts. It is safe for concurrent use.
type Memory struct {
	mu sync.Mutex
	// keys are those in use; nil for a holder that was shredded.
	keys       map[string]cipher.AEAD
	auditKeyed bool
}

// NewMemory returns a sealer for which nothing was shredded.
func NewMemory() *Memory { return &Memory{keys: map[string]cipher.AEAD{}} }

// Always is for event.Deps.Seals.
func Always() bool { return true }

// Shred deletes the key of a holder.
func (s *Memory) Shred(holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[holder] = nil
}

// SealBytes seals a text for an address.
func (s *Memory) SealBytes(_ context.Context, at seal.Address, text []byte) ([]byte, error) {
	key, err := s.keyOf(at.Holder)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, key.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return key.Seal(nonce, nonce, text, fmt.Append(nil, at)), nil
}

// OpenBytes opens what SealBytes has sealed for the same address.
func (s *Memory) OpenBytes(_ context.Context, at seal.Address, sealed []byte) ([]byte, error) {
	key, err := s.keyOf(at.Holder)
	if err != nil {
		return nil, err
	}
	if len(sealed) < key.NonceSize() {
		return nil, seal.ErrCorrupt
	}
	text, err := key.Open(nil, sealed[:key.NonceSize()], sealed[key.NonceSize():], fmt.Append(nil, at))
	if err != nil {
		return nil, seal.ErrCorrupt
	}
	return text, nil
}

// Prepare does nothing: every holder that was not shredded has a key.
func (*Memory) Prepare(context.Context, id.Org, string) error { return nil }

// Warm does nothing: all keys are in memory.
func (*Memory) Warm(context.Context, id.Org, []string) error { return nil }

// Derive returns the same bytes for a purpose in all sealers.
func (*Memory) Derive(_ context.Context, purpose string) ([]byte, error) {
	secret := sha256.Sum256([]byte("derive " + purpose))
	return secret[:], nil
}

// AuditKeyed reports whether SetAuditKeyed was called.
func (s *Memory) AuditKeyed(context.Context) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.auditKeyed, nil
}

// SetAuditKeyed makes AuditKeyed return true.
func (s *Memory) SetAuditKeyed(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.auditKeyed = true
	return nil
}

func (s *Memory) keyOf(holder string) (cipher.AEAD, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, known := s.keys[holder]
	if known && key == nil {
		return nil, seal.ErrShredded
	}
	if !known {
		secret := sha256.Sum256([]byte(holder))
		block, err := aes.NewCipher(secret[:])
		if err != nil {
			return nil, err
		}
		if key, err = cipher.NewGCM(block); err != nil {
			return nil, err
		}
		s.keys[holder] = key
	}
	return key, nil
}
