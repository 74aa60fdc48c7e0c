package kms

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// GCPConfig says which key of Google Cloud KMS wraps.
type GCPConfig struct {
	// Key is projects/…/locations/…/keyRings/…/cryptoKeys/…, a symmetric key.
	Key string
	// Endpoint is for a private endpoint, as https://host; http is taken for loopback only. Google's own if empty.
	Endpoint string
	// Tokens are made from the application default credentials if this is nil: a variable, a file, the machine's account.
	Tokens oauth2.TokenSource
	// Timeout bounds each call of Wrap, Unwrap and Check as a whole; 5 s if zero.
	Timeout time.Duration
}

// GCP wraps with a key in Google Cloud KMS, over its REST API: the client library would bring gRPC and fifty modules for
// two calls. The account needs roles/cloudkms.cryptoKeyEncrypterDecrypter on the key.
type GCP struct {
	id, url, key string
	timeout      time.Duration
	http         *http.Client

	mu     sync.Mutex
	tokens oauth2.TokenSource // nil until they are needed: to look for them may ask the network
}

const (
	gcpEndpoint = "https://cloudkms.googleapis.com"
	gcpScope    = "https://www.googleapis.com/auth/cloudkms"
)

var (
	gcpKey = regexp.MustCompile(`^projects/[a-z0-9.:-]{1,64}/locations/[a-z0-9-]{1,32}/keyRings/[A-Za-z0-9_-]{1,63}/cryptoKeys/[A-Za-z0-9_-]{1,63}$`)
	// castagnoli is what Google checks bytes with.
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errGarbled = errors.New("bytes were changed on the way")
)

// OpenGCP checks the settings. It does not wait for Google: a node starts while it is away.
func OpenGCP(c GCPConfig) (*GCP, error) {
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	if c.Endpoint == "" {
		c.Endpoint = gcpEndpoint
	}
	switch {
	case !gcpKey.MatchString(c.Key) || len(c.Key) > maxID-len("gcp:"):
		return nil, errors.New("the Google key is not like projects/…/locations/…/keyRings/…/cryptoKeys/…, or it is too long")
	case c.Timeout < 0:
		return nil, errors.New("the time-out of Google Cloud KMS is negative")
	}
	if err := checkAddress(c.Endpoint); err != nil {
		return nil, fmt.Errorf("the endpoint of Google Cloud KMS: %w", err)
	}
	return &GCP{
		id: "gcp:" + c.Key, key: c.Key, url: strings.TrimRight(c.Endpoint, "/") + "/v1/" + c.Key, timeout: c.Timeout, tokens: c.Tokens,
		http: &http.Client{
			Timeout: c.Timeout, // also for tokens
			Transport: &http.Transport{
				Proxy: nil, DialContext: (&net.Dialer{Timeout: c.Timeout}).DialContext, TLSHandshakeTimeout: c.Timeout,
				ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close lets go of idle connections.
func (g *GCP) Close() { g.http.CloseIdleConnections() }

// ID implements Wrapper.
func (g *GCP) ID() string { return g.id }

// gcpRequest and gcpAnswer are the bodies of encrypt and of decrypt. Checksums are numbers in quotes.
type gcpRequest struct {
	Plaintext     []byte `json:"plaintext,omitempty"`
	PlaintextCRC  int64  `json:"plaintextCrc32c,omitempty,string"`
	Ciphertext    []byte `json:"ciphertext,omitempty"`
	CiphertextCRC int64  `json:"ciphertextCrc32c,omitempty,string"`
	AAD           []byte `json:"additionalAuthenticatedData"`
	AADCRC        int64  `json:"additionalAuthenticatedDataCrc32c,string"`
}

type gcpAnswer struct {
	Name              string `json:"name"`
	Plaintext         []byte `json:"plaintext"`
	PlaintextCRC      int64  `json:"plaintextCrc32c,string"`
	Ciphertext        []byte `json:"ciphertext"`
	CiphertextCRC     int64  `json:"ciphertextCrc32c,string"`
	VerifiedPlaintext bool   `json:"verifiedPlaintextCrc32c"`
	VerifiedAAD       bool   `json:"verifiedAdditionalAuthenticatedDataCrc32c"`
}

func checksum(b []byte) int64 { return int64(crc32.Checksum(b, castagnoli)) }

// Wrap implements Wrapper.
func (g *GCP) Wrap(ctx context.Context, key secret.String, aad []byte) (Wrapped, error) {
	if err := checkWrap(key, aad); err != nil {
		return Wrapped{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	inner := make([]byte, innerSize)
	_, _ = rand.Read(inner) // never fails
	defer clear(inner)
	answer, err := g.call(ctx, "encrypt", gcpRequest{Plaintext: inner, PlaintextCRC: checksum(inner), AAD: aad, AADCRC: checksum(aad)})
	if err != nil {
		return Wrapped{}, unavailable("wrap a key", g.id, err)
	}
	// What was garbled would only be noticed when it is too late.
	if !answer.VerifiedPlaintext || !answer.VerifiedAAD || checksum(answer.Ciphertext) != answer.CiphertextCRC {
		return Wrapped{}, unavailable("wrap a key", g.id, errGarbled)
	}
	number, ok := strings.CutPrefix(answer.Name, g.key+"/cryptoKeyVersions/")
	version, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil {
		return Wrapped{}, unavailable("wrap a key", g.id, errors.New("it does not say which version of the key it used"))
	}
	ref := Ref{ID: g.id, Version: uint32(version)}
	ciphertext, err := closeEnvelope(ref, inner, answer.Ciphertext, key, aad)
	if err != nil {
		return Wrapped{}, unavailable("wrap a key", g.id, err)
	}
	return Wrapped{Key: ref, Ciphertext: ciphertext}, nil
}

// Unwrap implements Wrapper.
func (g *GCP) Unwrap(ctx context.Context, wrapped Wrapped, aad []byte) (secret.String, error) {
	innerWrapped, body, ok := splitEnvelope(wrapped.Ciphertext)
	if !ok || wrapped.Key.ID != g.id || len(aad) == 0 {
		return secret.String{}, ErrCorrupt
	}
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	answer, err := g.call(ctx, "decrypt", gcpRequest{Ciphertext: innerWrapped, CiphertextCRC: checksum(innerWrapped), AAD: aad, AADCRC: checksum(aad)})
	if refused, ok := errors.AsType[*gcpRefusal](err); ok && refused.blamesCiphertext() {
		return secret.String{}, ErrCorrupt
	}
	if err == nil && checksum(answer.Plaintext) != answer.PlaintextCRC {
		err = errGarbled
	}
	if err != nil {
		return secret.String{}, unavailable("unwrap a key", g.id, err)
	}
	defer clear(answer.Plaintext)
	key, err := openEnvelope(wrapped.Key, answer.Plaintext, innerWrapped, body, aad)
	if err != nil && !errors.Is(err, ErrCorrupt) {
		err = unavailable("unwrap a key", g.id, err)
	}
	return key, err
}

// Check implements Wrapper: it wraps and unwraps a key.
func (g *GCP) Check(ctx context.Context) (Ref, error) { return roundTrip(ctx, g) }

// gcpRefusal is an answer other than 200. It prints no message, because that may quote what was sent.
type gcpRefusal struct {
	http   int
	status string
}

func (r *gcpRefusal) Error() string {
	return fmt.Sprintf("Google answered %d %s; look at the account's rights and at the key's state", r.http, r.status)
}

// blamesCiphertext tells a refusal to decrypt this ciphertext from one to work for us at all; a version that was disabled
// or destroyed is FAILED_PRECONDITION.
func (r *gcpRefusal) blamesCiphertext() bool {
	return r.http == http.StatusBadRequest && r.status == "INVALID_ARGUMENT"
}

var gcpStatus = regexp.MustCompile(`^[A-Z_]{1,40}$`)

// call does one operation with the key. Its error is a *gcpRefusal if Google answered.
func (g *GCP) call(ctx context.Context, operation string, body gcpRequest) (gcpAnswer, error) {
	request, err := g.request(ctx, operation, body)
	if err != nil {
		return gcpAnswer{}, err
	}
	response, err := g.http.Do(request)
	if err != nil {
		return gcpAnswer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return gcpAnswer{}, err
	}
	defer clear(text)
	if response.StatusCode != http.StatusOK {
		var refused struct {
			Error struct {
				Status string `json:"status"`
			} `json:"error"`
		}
		if json.Unmarshal(text, &refused) != nil || !gcpStatus.MatchString(refused.Error.Status) {
			refused.Error.Status = ""
		}
		return gcpAnswer{}, &gcpRefusal{response.StatusCode, refused.Error.Status}
	}
	var answer gcpAnswer
	if err := json.Unmarshal(text, &answer); err != nil {
		return gcpAnswer{}, errors.New("its answer is not one of Google Cloud KMS") // the parser's error may quote the answer
	}
	return answer, nil
}

func (g *GCP) request(ctx context.Context, operation string, body gcpRequest) (*http.Request, error) {
	token, err := g.token(ctx)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+":"+operation, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	token.SetAuthHeader(request)
	request.Header["Idempotency-Key"] = nil // may be done twice; see transit_client.go
	return request, nil
}

func (g *GCP) token(ctx context.Context) (*oauth2.Token, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if g.tokens == nil {
		// The source outlives this call, and asks for tokens with the context that it was made with.
		own := context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, g.http)
		found, err := google.FindDefaultCredentials(own, gcpScope)
		if err != nil {
			return nil, errors.New("there are no application default credentials; set GOOGLE_APPLICATION_CREDENTIALS or give the machine an account")
		}
		g.tokens = found.TokenSource
	}
	token, err := g.tokens.Token()
	if err != nil {
		return nil, errors.New("Google gives no token for the credentials that were found") //nolint:staticcheck // a name begins with a capital
	}
	return token, nil
}
