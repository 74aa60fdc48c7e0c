// Package verify checks that a webhook comes from Stagedoor. Copy this file; it needs only the standard library.
package verify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Tolerance is the maximum difference between the time of a request and now.
const Tolerance = 5 * time.Minute

// Request reports whether a request is signed with the secret and not older than Tolerance. The body must be the raw
// bytes that you received. While a secret is being rotated, X-Webhook-Signature-Previous has the signature of the old
// one.
func Request(secret string, h http.Header, body []byte, now time.Time) bool {
	signed := Signature(secret, h.Get("X-Webhook-Signature"), body) || Signature(secret, h.Get("X-Webhook-Signature-Previous"), body)
	return signed && Standard(secret, h.Get("webhook-id"), h.Get("webhook-timestamp"), h.Get("webhook-signature"), body, now)
}

// Signature checks X-Webhook-Signature, which covers only the body. It does not detect replayed requests.
func Signature(secret, signature string, body []byte) bool {
	want := "sha256=" + hex.EncodeToString(sum([]byte(secret), body))
	return hmac.Equal([]byte(want), []byte(signature))
}

// Standard checks webhook-signature (Standard Webhooks), which covers id, time and body. The header has several
// signatures while a secret is being rotated.
func Standard(secret, id, timestamp, signatures string, body []byte, now time.Time) bool {
	sent, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || now.Sub(time.Unix(sent, 0)).Abs() > Tolerance {
		return false
	}
	key := []byte(secret)
	if encoded, ours := strings.CutPrefix(secret, "whsec_"); ours {
		if raw, err := base64.StdEncoding.DecodeString(encoded); err == nil && len(raw) > 0 {
			key = raw
		}
	}
	want := "v1," + base64.StdEncoding.EncodeToString(sum(key, []byte(id+"."+timestamp+"."), body))
	for _, one := range strings.Split(signatures, " ") {
		if hmac.Equal([]byte(want), []byte(one)) {
			return true
		}
	}
	return false
}

func sum(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}
