package dashboard

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

// departure is what a browser keeps while somebody is at the identity provider. It is in a cookie, so that any node can go on, and
// nothing is stored for somebody who never comes back.
type departure struct {
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"`
	To       string    `json:"t"`
	Until    time.Time `json:"u"`
}

// keeper seals departures.
type keeper struct{ aead cipher.AEAD }

// purpose keeps the key apart from others that are made from the same setting, and what was sealed from being used for anything else.
const purpose = "stagedoor dashboard sign-in"

func newKeeper(key secret.String) (keeper, error) {
	derived, err := hkdf.Key(sha256.New, []byte(key.Reveal()), nil, purpose, 32)
	if err != nil {
		return keeper{}, fmt.Errorf("derive the key of sign-ins: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return keeper{}, fmt.Errorf("derive the key of sign-ins: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return keeper{}, fmt.Errorf("derive the key of sign-ins: %w", err)
	}
	return keeper{aead}, nil
}

// errState means that a sign-in did not begin in this browser, or too long ago.
var errState = errors.New("the sign-in was not started in this browser")

func (k keeper) seal(d departure) (string, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("encode a sign-in: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(k.aead.Seal(nil, nil, text, []byte(purpose))), nil
}

func (k keeper) open(text string, now time.Time) (departure, error) {
	var d departure
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return d, errState
	}
	plain, err := k.aead.Open(nil, nil, raw, []byte(purpose))
	if err != nil || json.Unmarshal(plain, &d) != nil || d.State == "" || !now.Before(d.Until) {
		return departure{}, errState
	}
	return d, nil
}
