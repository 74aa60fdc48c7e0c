package stagedoor

import (
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

// Verifier checks that webhooks come from Stagedoor.
type Verifier struct {
	// Secrets are the webhook's signing secret, and others that are also taken, such as the one before.
	Secrets []string
	// Tolerance is how far a request's time may be from now; five minutes if it is 0.
	Tolerance time.Duration
	// AllowUntimed also takes a request that has only X-Webhook-Signature, which does not tell it from its repetition.
	AllowUntimed bool
	// Now is the clock; that of the machine if it is nil.
	Now func() time.Time
}

// VerifyReason says why a request was refused.
type VerifyReason string

// Reasons.
const (
	// ReasonMissingHeader: a header that is needed is not there.
	ReasonMissingHeader VerifyReason = "missing-header"
	// ReasonMalformedHeader: a header is there and does not look as it should.
	ReasonMalformedHeader VerifyReason = "malformed-header"
	// ReasonTooOld and ReasonTooNew: it was not sent now, or a clock is wrong.
	ReasonTooOld VerifyReason = "timestamp-too-old"
	ReasonTooNew VerifyReason = "timestamp-too-new"
	// ReasonNoMatch: another secret, or a body that was changed, such as one that was parsed and written again.
	ReasonNoMatch VerifyReason = "no-match"
)

// WebhookVerificationError means that a request must not be believed.
type WebhookVerificationError struct {
	Reason VerifyReason
	Detail string
}

// Error says why.
func (e *WebhookVerificationError) Error() string {
	return "stagedoor: the webhook is not verified: " + string(e.Reason) + ": " + e.Detail
}

func refuse(reason VerifyReason, format string, args ...any) error {
	return &WebhookVerificationError{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// VerifyWebhook checks a request with one secret and reads its event. Body is the raw body, as it was received.
func VerifyWebhook(secret string, header http.Header, body []byte) (*Event, error) {
	return Verifier{Secrets: []string{secret}}.Verify(header, body)
}

// Verify checks a request and reads its event. Body is the raw body, as it was received.
func (v Verifier) Verify(header http.Header, body []byte) (*Event, error) {
	if err := v.Check(header, body); err != nil {
		return nil, err
	}
	e := &Event{}
	if err := json.Unmarshal(body, e); err != nil {
		return nil, fmt.Errorf("stagedoor: the webhook is signed, but it is no event: %w", err)
	}
	return e, nil
}

// Check checks a request's signature and time, whatever its body is. Its error is a *WebhookVerificationError.
func (v Verifier) Check(header http.Header, body []byte) error {
	id, sent, signatures := header.Get("webhook-id"), header.Get("webhook-timestamp"), header.Get("webhook-signature")
	if id == "" && sent == "" && signatures == "" && v.AllowUntimed {
		return v.untimed(header, body)
	}
	for name, value := range map[string]string{"webhook-id": id, "webhook-timestamp": sent, "webhook-signature": signatures} {
		if value == "" {
			return refuse(ReasonMissingHeader, "there is no %s", name)
		}
	}
	if err := v.timely(sent); err != nil {
		return err
	}
	known := false
	for _, one := range strings.Fields(signatures) {
		version, value, ok := strings.Cut(one, ",")
		if !ok || version != "v1" {
			continue // a version of later
		}
		known = true
		for _, secret := range v.Secrets {
			want := base64.StdEncoding.EncodeToString(sum(standardKey(secret), []byte(id+"."+sent+"."), body))
			if hmac.Equal([]byte(want), []byte(value)) {
				return nil
			}
		}
	}
	if !known {
		return refuse(ReasonMalformedHeader, "webhook-signature has no signature of version v1")
	}
	return refuse(ReasonNoMatch, "no signature was made with this secret of this body")
}

func (v Verifier) timely(sent string) error {
	seconds, err := strconv.ParseInt(sent, 10, 64)
	if err != nil {
		return refuse(ReasonMalformedHeader, "webhook-timestamp is no number of seconds")
	}
	now, tolerance := time.Now, v.Tolerance
	if v.Now != nil {
		now = v.Now
	}
	if tolerance == 0 {
		tolerance = 5 * time.Minute
	}
	switch age := now().Sub(time.Unix(seconds, 0)); {
	case age > tolerance:
		return refuse(ReasonTooOld, "it was sent %s ago", age.Round(time.Second))
	case age < -tolerance:
		return refuse(ReasonTooNew, "it was sent %s in the future", (-age).Round(time.Second))
	}
	return nil
}

// untimed checks X-Webhook-Signature, and the one of the secret before while both are used.
func (v Verifier) untimed(header http.Header, body []byte) error {
	known, some := false, false
	for _, name := range []string{"X-Webhook-Signature", "X-Webhook-Signature-Previous"} {
		value := header.Get(name)
		if value == "" {
			continue
		}
		some = true
		value, ok := strings.CutPrefix(value, "sha256=")
		if !ok || len(value) != 2*sha256.Size {
			continue
		}
		known = true
		for _, secret := range v.Secrets {
			if hmac.Equal([]byte(hex.EncodeToString(sum([]byte(secret), body))), []byte(value)) {
				return nil
			}
		}
	}
	switch {
	case !some:
		return refuse(ReasonMissingHeader, "there is no webhook-signature and no X-Webhook-Signature")
	case !known:
		return refuse(ReasonMalformedHeader, "X-Webhook-Signature is not sha256= and 64 hexadecimal digits")
	}
	return refuse(ReasonNoMatch, "no signature was made with this secret of this body")
}

// standardKey is the key of webhook-signature: the base64 behind whsec_, or the secret itself if it is another.
func standardKey(secret string) []byte {
	if encoded, ours := strings.CutPrefix(secret, "whsec_"); ours {
		if raw, err := base64.StdEncoding.DecodeString(encoded); err == nil && len(raw) > 0 {
			return raw
		}
	}
	return []byte(secret)
}

func sum(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}
