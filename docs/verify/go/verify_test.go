package verify_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	verify "github.com/stagedoor/stagedoor/docs/verify/go"
)

// The helper accepts and rejects the vectors as they say, and rejects old requests.
func TestVectors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name, Secret, ID, Body, Signature, Standard string
		Timestamp                                   int64
		Valid                                       bool
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		now, body := time.Unix(v.Timestamp, 0), []byte(v.Body)
		if verify.Signature(v.Secret, v.Signature, body) != v.Valid {
			t.Errorf("%s: X-Webhook-Signature", v.Name)
		}
		at := strconv.FormatInt(v.Timestamp, 10)
		if verify.Standard(v.Secret, v.ID, at, v.Standard, body, now) != v.Valid {
			t.Errorf("%s: webhook-signature", v.Name)
		}
		if verify.Standard(v.Secret, v.ID, at, v.Standard, body, now.Add(6*time.Minute)) {
			t.Errorf("%s: an old request passes", v.Name)
		}
		h := http.Header{}
		h.Set("X-Webhook-Signature", v.Signature)
		h.Set("Webhook-Id", v.ID)
		h.Set("Webhook-Timestamp", at)
		h.Set("Webhook-Signature", v.Standard)
		if verify.Request(v.Secret, h, body, now) != v.Valid {
			t.Errorf("%s: the whole request", v.Name)
		}
		// The receiver still uses the old secret, whose signature is sent along with the new one.
		h.Set("X-Webhook-Signature", "sha256=00")
		h.Set("X-Webhook-Signature-Previous", v.Signature)
		h.Set("Webhook-Signature", "v1,00 "+v.Standard)
		if verify.Request(v.Secret, h, body, now) != v.Valid {
			t.Errorf("%s: the whole request, while the secret is being rotated", v.Name)
		}
	}
}
