package openid

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// pending is the state of a sign-in while the browser is at the identity provider. It is stored in a cookie, so that any
// node can complete the sign-in and nothing is stored for a person who never returns.
type pending struct {
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"`
	To       string    `json:"t"`
	Until    time.Time `json:"u"`
	// Fresh means that the person must prove again who they are.
	Fresh bool `json:"f,omitempty"`
}

// stateCipher encrypts pending sign-ins.
type stateCipher struct {
	aead cipher.AEAD
	// purpose separates the key from others that are derived from the same setting. It is also the additional data of
	// each cookie.
	purpose string
}

func newStateCipher(key secret.String, purpose string) (stateCipher, error) {
	derived, err := hkdf.Key(sha256.New, []byte(key.Reveal()), nil, purpose, 32)
	if err != nil {
		return stateCipher{}, fmt.Errorf("derive sign-in key: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return stateCipher{}, fmt.Errorf("derive sign-in key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return stateCipher{}, fmt.Errorf("derive sign-in key: %w", err)
	}
	return stateCipher{aead, purpose}, nil
}

// ErrState means that a sign-in was not started in this browser, or too long ago.
var ErrState = errors.New("the sign-in was not started in this browser")

func (k stateCipher) seal(d pending) (string, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("encode sign-in: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(k.aead.Seal(nil, nil, text, []byte(k.purpose))), nil
}

func (k stateCipher) open(text string, now time.Time) (pending, error) {
	var d pending
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return d, ErrState
	}
	plain, err := k.aead.Open(nil, nil, raw, []byte(k.purpose))
	if err != nil || json.Unmarshal(plain, &d) != nil || d.State == "" || !now.Before(d.Until) {
		return pending{}, ErrState
	}
	return d, nil
}
