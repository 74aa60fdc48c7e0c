// Package sign creates the signatures of webhook deliveries and explains why a signature does not match (check.go,
// compare.go).
//
// There are two signatures. X-Webhook-Signature is an HMAC-SHA256 of the body, and its key is the text of the secret.
// webhook-signature is that of Standard Webhooks: of id, time and body, with the key that the secret encodes.
// The client libraries and docs/verify contain verifiers.
package sign

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"strconv"
	"strings"
	"sync"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// Prefix marks generated secrets. It is followed by the key of Standard Webhooks in base64.
const Prefix = "whsec_"

const secretBytes = 32

// NewSecret generates a secret.
func NewSecret() secret.String {
	var raw [secretBytes]byte
	_, _ = rand.Read(raw[:]) // never fails
	return secret.New(Prefix + base64.StdEncoding.EncodeToString(raw[:]))
}

// standardKey returns the key of Standard Webhooks: what the secret encodes, or the text of a secret without Prefix.
func standardKey(text string) []byte {
	if encoded, ok := strings.CutPrefix(text, Prefix); ok {
		if raw, err := base64.StdEncoding.DecodeString(encoded); err == nil && len(raw) > 0 {
			return raw
		}
	}
	return []byte(text)
}

// Signer signs with a secret. It is safe for concurrent use.
type Signer struct{ states sync.Pool }

// state is a pair of keyed hashes, reused because setting the key costs as much as signing.
type state struct {
	body, standard hash.Hash
	sum            []byte
	text           []byte
}

// New returns a signer.
func New(key secret.String) *Signer {
	return &Signer{states: sync.Pool{New: func() any {
		text := key.Reveal()
		return &state{body: hmac.New(sha256.New, []byte(text)), standard: hmac.New(sha256.New, standardKey(text))}
	}}}
}

const (
	bodyPrefix     = "sha256="
	standardPrefix = "v1,"
)

// Sign returns the values of X-Webhook-Signature and webhook-signature. at is in Unix seconds.
func (s *Signer) Sign(id string, at int64, body []byte) (whole, standard string) {
	st := s.states.Get().(*state)
	defer s.states.Put(st)
	st.body.Reset()
	st.body.Write(body)
	st.sum = st.body.Sum(st.sum[:0])
	st.text = hex.AppendEncode(append(st.text[:0], bodyPrefix...), st.sum)
	whole = string(st.text)

	st.text = append(append(st.text[:0], id...), '.')
	st.text = append(strconv.AppendInt(st.text, at, 10), '.')
	st.standard.Reset()
	st.standard.Write(st.text)
	st.standard.Write(body)
	st.sum = st.standard.Sum(st.sum[:0])
	st.text = base64.StdEncoding.AppendEncode(append(st.text[:0], standardPrefix...), st.sum)
	return whole, string(st.text)
}
