package stagedoor_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
)

type vector struct {
	Name, Secret, ID, Body, Signature, Standard string
	Timestamp                                   int64
	Valid                                       bool
}

func vectors(t *testing.T) []vector {
	t.Helper()
	data, err := os.ReadFile("../../docs/verify/vectors.json")
	if err != nil {
		t.Fatal("cannot read the vectors: ", err)
	}
	var list []vector
	if err := json.Unmarshal(data, &list); err != nil || len(list) == 0 {
		t.Fatalf("%d vectors, %v", len(list), err)
	}
	return list
}

func (v vector) header() http.Header {
	h := http.Header{}
	h.Set("webhook-id", v.ID)
	h.Set("webhook-timestamp", strconv.FormatInt(v.Timestamp, 10))
	h.Set("webhook-signature", v.Standard)
	return h
}

func (v vector) verifier() stagedoor.Verifier {
	return stagedoor.Verifier{Secrets: []string{"another", v.Secret}, Now: func() time.Time { return time.Unix(v.Timestamp, 0).Add(time.Minute) }}
}

func TestVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors(t) {
		if err := v.verifier().Check(v.header(), []byte(v.Body)); (err == nil) != v.Valid {
			t.Errorf("%s: %v", v.Name, err)
		}
		for _, name := range []string{"X-Webhook-Signature", "X-Webhook-Signature-Previous"} {
			h := http.Header{}
			h.Set(name, v.Signature)
			check := v.verifier()
			if check.Check(h, []byte(v.Body)) == nil {
				t.Errorf("%s: accepted without a timestamp", v.Name)
			}
			check.AllowUntimed = true
			if err := check.Check(h, []byte(v.Body)); (err == nil) != v.Valid {
				t.Errorf("%s: %s: %v", v.Name, name, err)
			}
		}
	}
}

func TestVerificationErrorHasReason(t *testing.T) {
	t.Parallel()
	v := vectors(t)[0]
	change := func(name, value string) http.Header {
		h := v.header()
		h.Set(name, value)
		if value == "" {
			h.Del(name)
		}
		return h
	}
	at := func(d time.Duration) stagedoor.Verifier {
		check := v.verifier()
		check.Now = func() time.Time { return time.Unix(v.Timestamp, 0).Add(d) }
		return check
	}
	for want, c := range map[stagedoor.VerifyReason]struct {
		check  stagedoor.Verifier
		header http.Header
		body   string
	}{
		stagedoor.ReasonMissingHeader:   {v.verifier(), change("webhook-timestamp", ""), v.Body},
		stagedoor.ReasonMalformedHeader: {v.verifier(), change("webhook-timestamp", "noon"), v.Body},
		stagedoor.ReasonTooOld:          {at(6 * time.Minute), v.header(), v.Body},
		stagedoor.ReasonTooNew:          {at(-6 * time.Minute), v.header(), v.Body},
		stagedoor.ReasonNoMatch:         {v.verifier(), v.header(), v.Body + "\n"},
	} {
		_, err := c.check.Verify(c.header, []byte(c.body))
		var refused *stagedoor.WebhookVerificationError
		if !errors.As(err, &refused) || refused.Reason != want {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := stagedoor.VerifyWebhook(v.Secret, v.header(), []byte(v.Body)); err == nil {
		t.Error("an old webhook was accepted")
	}
}

func TestVerifyDecodesEvent(t *testing.T) {
	t.Parallel()
	v := vectors(t)[0]
	e, err := v.verifier().Verify(v.header(), []byte(v.Body))
	if err != nil || e.ID != v.ID || e.Kind != stagedoor.KindMessage {
		t.Errorf("%+v, %v", e, err)
	}
}
