package stagedoor

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Verifier verifies that webhooks come from Stagedoor.
type Verifier struct {
	// Secrets holds the webhook's signing secret, and others to accept too, such as the previous one.
	Secrets []string
	// Tolerance limits the difference between a request's timestamp and now. Default: five minutes.
	Tolerance time.Duration
	// AllowUntimed also accepts requests that have only X-Webhook-Signature. Without a timestamp a replayed
	// request cannot be recognised.
	AllowUntimed bool
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// VerifyReason says why a request was rejected.
type VerifyReason string

// Reasons for a rejection.
const (
	// ReasonMissingHeader means that a required header is missing.
	ReasonMissingHeader VerifyReason = "missing-header"
	// ReasonMalformedHeader means that a header is malformed.
	ReasonMalformedHeader VerifyReason = "malformed-header"
	// ReasonTooOld and ReasonTooNew mean that the timestamp is outside the tolerance: a replayed request or a wrong clock.
	ReasonTooOld VerifyReason = "timestamp-too-old"
	ReasonTooNew VerifyReason = "timestamp-too-new"
	// ReasonNoMatch means a wrong secret or a changed body, for example one that was parsed and encoded again.
	ReasonNoMatch VerifyReason = "no-match"
)

// WebhookVerificationError means that a request must not be trusted.
type WebhookVerificationError struct {
	Reason VerifyReason
	Detail string
}

// Error implements error.
func (e *WebhookVerificationError) Error() string {
	return "stagedoor: webhook not verified: " + string(e.Reason) + ": " + e.Detail
}

func verificationError(reason VerifyReason, format string, args ...any) error {
	return &WebhookVerificationError{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// VerifyWebhook verifies a request with one secret and decodes its event. body is the raw body, exactly as received.
func VerifyWebhook(secret string, header http.Header, body []byte) (*Event, error) {
	return Verifier{Secrets: []string{secret}}.Verify(header, body)
}

// Verify verifies a request and decodes its event. body is the raw body, exactly as received.
func (v Verifier) Verify(header http.Header, body []byte) (*Event, error) {
	if err := v.Check(header, body); err != nil {
		return nil, err
	}
	e := &Event{}
	if err := json.Unmarshal(body, e); err != nil {
		return nil, fmt.Errorf("stagedoor: the signature is valid, but the body is not an event: %w", err)
	}
	return e, nil
}

// Check verifies the signature and timestamp of a request without decoding its body. Its error is a
// *WebhookVerificationError.
func (v Verifier) Check(header http.Header, body []byte) error {
	id, sent, signatures := header.Get("webhook-id"), header.Get("webhook-timestamp"), header.Get("webhook-signature")
	if id == "" && sent == "" && signatures == "" && v.AllowUntimed {
		return v.checkUntimed(header, body)
	}
	for name, value := range map[string]string{"webhook-id": id, "webhook-timestamp": sent, "webhook-signature": signatures} {
		if value == "" {
			return verificationError(ReasonMissingHeader, "the header %s is missing", name)
		}
	}
	if err := v.checkTime(sent); err != nil {
		return err
	}
	known := false
	for _, one := range strings.Fields(signatures) {
		version, value, ok := strings.Cut(one, ",")
		if !ok || version != "v1" {
			continue // a version that this library does not know
		}
		known = true
		for _, secret := range v.Secrets {
			want := base64.StdEncoding.EncodeToString(computeMAC(standardKey(secret), []byte(id+"."+sent+"."), body))
			if hmac.Equal([]byte(want), []byte(value)) {
				return nil
			}
		}
	}
	if !known {
		return verificationError(ReasonMalformedHeader, "webhook-signature has no v1 signature")
	}
	return verificationError(ReasonNoMatch, "no signature matches the secret and the body")
}

// checkTime checks that a timestamp is within the tolerance.
func (v Verifier) checkTime(sent string) error {
	seconds, err := strconv.ParseInt(sent, 10, 64)
	if err != nil {
		return verificationError(ReasonMalformedHeader, "webhook-timestamp is not a number of seconds")
	}
	now, tolerance := time.Now, v.Tolerance
	if v.Now != nil {
		now = v.Now
	}
	tolerance = cmp.Or(tolerance, 5*time.Minute)
	switch age := now().Sub(time.Unix(seconds, 0)); {
	case age > tolerance:
		return verificationError(ReasonTooOld, "the timestamp is %s in the past", age.Round(time.Second))
	case age < -tolerance:
		return verificationError(ReasonTooNew, "the timestamp is %s in the future", (-age).Round(time.Second))
	}
	return nil
}

// checkUntimed checks X-Webhook-Signature and, while a secret is being rotated, X-Webhook-Signature-Previous.
func (v Verifier) checkUntimed(header http.Header, body []byte) error {
	known, present := false, false
	for _, name := range []string{"X-Webhook-Signature", "X-Webhook-Signature-Previous"} {
		value := header.Get(name)
		if value == "" {
			continue
		}
		present = true
		value, ok := strings.CutPrefix(value, "sha256=")
		if !ok || len(value) != 2*sha256.Size {
			continue
		}
		known = true
		for _, secret := range v.Secrets {
			if hmac.Equal([]byte(hex.EncodeToString(computeMAC([]byte(secret), body))), []byte(value)) {
				return nil
			}
		}
	}
	switch {
	case !present:
		return verificationError(ReasonMissingHeader, "webhook-signature and X-Webhook-Signature are missing")
	case !known:
		return verificationError(ReasonMalformedHeader, "X-Webhook-Signature is not sha256= and 64 hexadecimal digits")
	}
	return verificationError(ReasonNoMatch, "no signature matches the secret and the body")
}

// standardKey returns the key of webhook-signature: the decoded base64 after whsec_, or the secret itself if it
// has no such prefix.
func standardKey(secret string) []byte {
	if encoded, ours := strings.CutPrefix(secret, "whsec_"); ours {
		if raw, err := base64.StdEncoding.DecodeString(encoded); err == nil && len(raw) > 0 {
			return raw
		}
	}
	return []byte(secret)
}

func computeMAC(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}
