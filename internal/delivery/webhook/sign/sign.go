// Package sign makes the signatures of webhooks, and checks them as a receiver would.
//
// There are two. X-Webhook-Signature is an HMAC-SHA256 of the body alone, keyed by the bytes of the whole secret; webhook-signature is
// that of Standard Webhooks: of id, time and body, keyed by what the secret encodes. docs/verify has the same in other languages.
package sign

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// Prefix marks secrets that we made. What follows is the key of Standard Webhooks in base64.
const Prefix = "whsec_"

const secretBytes = 32

// NewSecret makes a secret.
func NewSecret() secret.String {
	var raw [secretBytes]byte
	_, _ = rand.Read(raw[:]) // it never fails
	return secret.New(Prefix + base64.StdEncoding.EncodeToString(raw[:]))
}

// standardKey is the key of Standard Webhooks.
func standardKey(text string) []byte {
	if encoded, ok := strings.CutPrefix(text, Prefix); ok {
		if raw, err := base64.StdEncoding.DecodeString(encoded); err == nil && len(raw) > 0 {
			return raw
		}
	}
	return []byte(text)
}

// Signer signs with a secret. It may be used by many goroutines.
type Signer struct{ states sync.Pool }

// state is a pair of hashes whose keys are set; setting a key costs as much as signing.
type state struct {
	body, standard hash.Hash
	sum            []byte
	text           []byte
}

// New makes a signer.
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

// Sign gives the values for X-Webhook-Signature and webhook-signature.
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

// Verify says whether a body has the signature of X-Webhook-Signature.
func Verify(key secret.String, signature string, body []byte) bool {
	want, _ := New(key).Sign("", 0, body)
	return subtle.ConstantTimeCompare([]byte(want), []byte(signature)) == 1
}

// tolerance is how far the time of a Standard Webhooks signature may be off.
const tolerance = 5 * time.Minute

// VerifyStandard says whether a request has one of the signatures of webhook-signature, and is not older than five minutes.
func VerifyStandard(key secret.String, id, at, signatures string, body []byte, now time.Time) bool {
	sent, err := strconv.ParseInt(at, 10, 64)
	if err != nil || now.Sub(time.Unix(sent, 0)).Abs() > tolerance {
		return false
	}
	_, want := New(key).Sign(id, sent, body)
	good := 0
	for one := range strings.SplitSeq(signatures, " ") {
		good |= subtle.ConstantTimeCompare([]byte(want), []byte(one))
	}
	return good == 1
}
