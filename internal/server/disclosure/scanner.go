package disclosure

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
)

// leakReporter revokes a key that was published. *apikey.Keys implements it.
type leakReporter interface {
	ReportLeak(ctx context.Context, token secret.String, at apikey.Leak) (known bool, err error)
}

// Limits of a report.
const (
	maxReport = 1 << 20
	maxLeaks  = 1000
	// reportTimeout bounds all of it. GitHub waits for 30 s.
	reportTimeout = 25 * time.Second
)

// leak is one entry of a report, as GitHub's partner programme defines it.
type leak struct {
	Token  secret.String `json:"token"`
	Type   string        `json:"type"`
	URL    string        `json:"url"`
	Source string        `json:"source"`
}

// feedback is the answer to one entry. The hash stands for the token, so that no answer contains a key.
type feedback struct {
	TokenHash string `json:"token_hash"`
	TokenType string `json:"token_type"`
	Label     string `json:"label"`
}

// The labels of feedback: the token is, or was, a key of this service; or it never was.
const (
	truePositive  = "true_positive"
	falsePositive = "false_positive"
)

// postLeaks receives a report of published keys. It revokes them and answers which of them were real. The signature
// proves that GitHub sent the report; it is checked before anything else is read from it.
func (s *Disclosure) postLeaks(w http.ResponseWriter, r *http.Request) error {
	if !s.posts.Take(s.deps.Source(r)) {
		return problem.QuotaExceeded.New("There were too many reports from this network.").After(60)
	}
	ctx, cancel := context.WithTimeout(r.Context(), reportTimeout)
	defer cancel()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReport))
	if _, tooBig := errors.AsType[*http.MaxBytesError](err); tooBig {
		return problem.PayloadTooLarge.Newf("A report has at most %d bytes.", maxReport)
	}
	if err != nil {
		return problem.InvalidRequest.New("The body could not be read.")
	}
	if err := s.verify(ctx, r.Header, body); err != nil {
		return err
	}
	var leaks []leak
	if err := json.Unmarshal(body, &leaks); err != nil {
		return problem.MalformedJSON.New("The body is not a list of tokens.") // the error may contain a token
	}
	if len(leaks) > maxLeaks {
		return problem.PayloadTooLarge.Newf("A report has at most %d tokens.", maxLeaks)
	}
	answer := make([]feedback, len(leaks))
	for i, one := range leaks {
		known, err := s.deps.Keys.ReportLeak(ctx, one.Token, apikey.Leak{URL: one.URL, Source: one.Source})
		if err != nil {
			return fmt.Errorf("handle a leaked key: %w", err)
		}
		sum := sha256.Sum256([]byte(one.Token.Reveal()))
		answer[i] = feedback{TokenHash: base64.StdEncoding.EncodeToString(sum[:]), TokenType: one.Type, Label: falsePositive}
		if known {
			answer[i].Label = truePositive
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // The caller may have disconnected.
	return nil
}

// verify checks that a key of the scanner has signed the body.
func (s *Disclosure) verify(ctx context.Context, h http.Header, body []byte) error {
	refused := problem.KeyInvalid.New("The report is not signed with a key of the secret scanner.")
	signature, err := base64.StdEncoding.DecodeString(h.Get("Github-Public-Key-Signature"))
	if err != nil || len(signature) == 0 {
		return refused
	}
	key, err := s.scanner.find(ctx, h.Get("Github-Public-Key-Identifier"))
	if err != nil {
		return problem.ServiceUnavailable.New("The public keys of the secret scanner cannot be read right now.").After(60).Because(err)
	}
	sum := sha256.Sum256(body)
	if key == nil || !ecdsa.VerifyASN1(key, sum[:], signature) {
		return refused
	}
	return nil
}

// scannerKeys are the public keys of the secret scanner. They are read when a report needs one.
type scannerKeys struct {
	from   string
	client *http.Client
	now    func() time.Time

	// reading is shared by the reports that need the list concurrently.
	reading singleflight.Group

	mu   sync.Mutex
	byID map[string]*ecdsa.PublicKey
	// readAt is when byID was read, and triedAt when the last try to read it ended, with err.
	readAt, triedAt time.Time
	err             error
}

const (
	// keysLast is how long keys are used before they are read again; a key that is no longer listed then ends. If they
	// cannot be read, the old ones stay.
	keysLast = time.Hour
	// rereadAfter is the least time between two tries, so that forged reports cause few.
	rereadAfter = time.Minute
	// readTimeout bounds one try. Reports with an unknown key wait for it.
	readTimeout = 10 * time.Second
	maxKeyList  = 1 << 20
)

// find returns the key with an id; nil if there is none. The error means that the list could not be read.
func (k *scannerKeys) find(ctx context.Context, keyID string) (*ecdsa.PublicKey, error) {
	if keyID == "" {
		return nil, nil //nolint:nilnil // no such key
	}
	key, due, err := k.lookUp(keyID)
	if !due {
		return key, err
	}
	// The try goes on if this caller leaves: others wait for it.
	done := k.reading.DoChan("", func() (any, error) {
		k.refresh(context.WithoutCancel(ctx), keyID)
		return nil, nil //nolint:nilnil // the result is in k
	})
	select {
	case <-done:
		key, _, err = k.lookUp(keyID)
		return key, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// lookUp returns the key with an id, as far as it is known, and if the list is due to be read for it.
func (k *scannerKeys) lookUp(keyID string) (key *ecdsa.PublicKey, due bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	key = k.byID[keyID]
	due = (key == nil || now.Sub(k.readAt) >= keysLast) && now.Sub(k.triedAt) >= rereadAfter
	if key == nil {
		err = k.err
	}
	return key, due, err
}

// refresh reads the list, unless a try that has just ended made that unnecessary.
func (k *scannerKeys) refresh(ctx context.Context, keyID string) {
	if _, due, _ := k.lookUp(keyID); !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	found, err := k.read(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.triedAt, k.err = k.now(), err
	if err == nil {
		k.byID, k.readAt = found, k.triedAt
	}
}

// read reads the list of keys, in the form of https://api.github.com/meta/public_keys/secret_scanning.
func (k *scannerKeys) read(ctx context.Context) (map[string]*ecdsa.PublicKey, error) {
	text, err := k.readText(ctx)
	if err != nil {
		return nil, fmt.Errorf("read public keys of the secret scanner: %w", err)
	}
	var list struct {
		Keys []struct {
			ID  string `json:"key_identifier"`
			Key string `json:"key"`
		} `json:"public_keys"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("read public keys of the secret scanner: %w", err)
	}
	found := map[string]*ecdsa.PublicKey{}
	for _, one := range list.Keys {
		block, _ := pem.Decode([]byte(one.Key))
		if block == nil {
			return nil, fmt.Errorf("public key %s of the secret scanner is not in PEM form", one.ID)
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("public key %s of the secret scanner: %w", one.ID, err)
		}
		key, ok := parsed.(*ecdsa.PublicKey)
		if !ok || key.Curve != elliptic.P256() {
			return nil, fmt.Errorf("public key %s of the secret scanner is not on the curve P-256", one.ID)
		}
		found[one.ID] = key
	}
	return found, nil
}

func (k *scannerKeys) readText(ctx context.Context) ([]byte, error) {
	if !strings.Contains(k.from, "://") {
		return os.ReadFile(k.from)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.from, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := k.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxKeyList))
}
