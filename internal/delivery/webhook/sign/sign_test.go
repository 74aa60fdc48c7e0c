package sign_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/sign"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// The signatures match the test vectors of the verifiers in other languages.
func TestVectors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/verify/vectors.json")
	must.OK(t, err)
	var vectors []struct {
		Name, Secret, ID, Body, Signature, Standard string
		Timestamp                                   int64
		Valid                                       bool
	}
	if err := json.Unmarshal(text, &vectors); err != nil || len(vectors) < 8 {
		t.Fatal(err, len(vectors))
	}
	for _, v := range vectors {
		whole, standard := sign.New(secret.New(v.Secret)).Sign(v.ID, v.Timestamp, []byte(v.Body))
		if (whole == v.Signature) != v.Valid || slices.Contains(strings.Fields(v.Standard), standard) != v.Valid {
			t.Errorf("%s: got %s and %s", v.Name, whole, standard)
		}
	}
}

// The signatures are the documented HMACs, computed here without this package.
func TestSignaturesAreWhatTheDocumentationSays(t *testing.T) {
	t.Parallel()
	body := []byte(`{"id":"evt_1"}`)
	raw := bytes.Repeat([]byte{7}, 32)
	text := "whsec_" + base64.StdEncoding.EncodeToString(raw)
	hash := func(key, text []byte) []byte {
		h := hmac.New(sha256.New, key)
		h.Write(text)
		return h.Sum(nil)
	}
	whole, standard := sign.New(secret.New(text)).Sign("evt_1", 1700000000, body)
	if whole != "sha256="+hex.EncodeToString(hash([]byte(text), body)) {
		t.Error(whole)
	}
	if standard != "v1,"+base64.StdEncoding.EncodeToString(hash(raw, []byte("evt_1.1700000000."+string(body)))) {
		t.Error(standard)
	}
	_, plain := sign.New(secret.New("a secret of your own")).Sign("evt_1", 1700000000, body)
	if plain != "v1,"+base64.StdEncoding.EncodeToString(hash([]byte("a secret of your own"), []byte("evt_1.1700000000."+string(body)))) {
		t.Error(plain)
	}
}

// A signer can be used concurrently.
func TestSignerIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	key := sign.NewSecret()
	s := sign.New(key)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 200 {
				body := []byte(strings.Repeat(strconv.Itoa(i), n))
				whole, _ := s.Sign("evt", 1, body)
				if want, _ := sign.New(key).Sign("evt", 1, body); whole != want {
					t.Error("the signature is that of another body")
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkSign(b *testing.B) {
	s := sign.New(sign.NewSecret())
	body := bytes.Repeat([]byte("x"), 1024)
	b.ReportAllocs()
	for b.Loop() {
		s.Sign("evt_01m7fthrzvf4es99n4facfnzj0", 1_700_000_000, body)
	}
}
