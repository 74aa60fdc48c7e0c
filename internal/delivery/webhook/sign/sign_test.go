package sign_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

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
		key, now := secret.New(v.Secret), time.Unix(v.Timestamp, 0)
		if sign.Verify(key, v.Signature, []byte(v.Body)) != v.Valid {
			t.Errorf("%s: Verify is not %t", v.Name, v.Valid)
		}
		if sign.VerifyStandard(key, v.ID, strconv.FormatInt(v.Timestamp, 10), v.Standard, []byte(v.Body), now) != v.Valid {
			t.Errorf("%s: VerifyStandard is not %t", v.Name, v.Valid)
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
				if whole, _ := s.Sign("evt", 1, body); !sign.Verify(key, whole, body) {
					t.Error("the signature is that of another body")
				}
			}
		})
	}
	all.Wait()
}

// Requests that are too old, in the future, or not exactly what was signed are refused.
func TestReplaysAreRefused(t *testing.T) {
	t.Parallel()
	key, now := sign.NewSecret(), time.Unix(1_700_000_000, 0)
	_, standard := sign.New(key).Sign("evt_1", now.Unix(), []byte("x"))
	at := strconv.FormatInt(now.Unix(), 10)
	good := func(id, at, signature, body string, now time.Time) bool {
		return sign.VerifyStandard(key, id, at, signature, []byte(body), now)
	}
	if !good("evt_1", at, standard, "x", now) || !good("evt_1", at, "v1,AAAA "+standard, "x", now.Add(4*time.Minute)) {
		t.Error("a valid request is refused")
	}
	if good("evt_1", at, standard, "x", now.Add(6*time.Minute)) || good("evt_1", at, standard, "x", now.Add(-6*time.Minute)) ||
		good("evt_2", at, standard, "x", now) || good("evt_1", at, standard, "y", now) || good("evt_1", "1", standard, "x", now) || good("evt_1", at, "", "x", now) {
		t.Error("an invalid request is accepted")
	}
}

// Only the signature of exactly this body is accepted.
func FuzzVerify(f *testing.F) {
	f.Add("whsec_AAAA", "sha256=00", []byte("{}"))
	f.Add("", "", []byte(nil))
	f.Add("whsec_!!", "v1,x v1,y", []byte("a"))
	f.Fuzz(func(t *testing.T, key, signature string, body []byte) {
		k := secret.New(key)
		whole, standard := sign.New(k).Sign("evt", 5, body)
		if sign.Verify(k, signature, body) != (signature == whole) {
			t.Fatal("a wrong signature is accepted, or the right one is refused")
		}
		got := sign.VerifyStandard(k, "evt", "5", signature, body, time.Unix(5, 0))
		has := false
		for one := range strings.SplitSeq(signature, " ") {
			has = has || one == standard
		}
		if got != has {
			t.Fatal("a wrong signature is accepted, or the right one is refused")
		}
	})
}

func BenchmarkSign(b *testing.B) {
	s := sign.New(sign.NewSecret())
	body := bytes.Repeat([]byte("x"), 1024)
	b.ReportAllocs()
	for b.Loop() {
		s.Sign("evt_01m7fthrzvf4es99n4facfnzj0", 1_700_000_000, body)
	}
}
