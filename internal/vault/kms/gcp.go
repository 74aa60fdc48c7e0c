package kms

import (
	"bytes"
	"cmp"
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

// GCPConfig names a key of Google Cloud KMS.
type GCPConfig struct {
	// Key is a symmetric key: projects/…/locations/…/keyRings/…/cryptoKeys/…
	Key string
	// Endpoint is a private endpoint, as https://host; http is allowed only for loopback. Default: the endpoint of
	// Google.
	Endpoint string
	// Tokens default to those of the application default credentials: a variable, a file, the account of the machine.
	Tokens oauth2.TokenSource
	// Timeout bounds each call of Wrap and Unwrap as a whole. Default: 5 s.
	Timeout time.Duration
}

// GCP wraps with a key in Google Cloud KMS. It uses the REST API: the client library would add gRPC and fifty modules
// for two calls. The account needs roles/cloudkms.cryptoKeyEncrypterDecrypter on the key.
type GCP struct {
	id, url, key string
	timeout      time.Duration
	http         *http.Client

	mu     sync.Mutex
	tokens oauth2.TokenSource // nil until needed, because finding them may use the network
}

const (
	gcpEndpoint = "https://cloudkms.googleapis.com"
	gcpScope    = "https://www.googleapis.com/auth/cloudkms"
)

var (
	gcpKey = regexp.MustCompile(`^projects/[a-z0-9.:-]{1,64}/locations/[a-z0-9-]{1,32}/keyRings/[A-Za-z0-9_-]{1,63}/cryptoKeys/[A-Za-z0-9_-]{1,63}$`)
	// castagnoli is the polynomial of the checksums in the API.
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errGarbled = errors.New("data was corrupted in transit")
)

// OpenGCP checks the settings. It does not contact Google, so a node can start while Cloud KMS is unavailable.
func OpenGCP(c GCPConfig) (*GCP, error) {
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.Endpoint = cmp.Or(c.Endpoint, gcpEndpoint)
	switch {
	case !gcpKey.MatchString(c.Key) || len(c.Key) > maxID-len("gcp:"):
		return nil, errors.New("the Google key must look like projects/…/locations/…/keyRings/…/cryptoKeys/…, and must not be too long")
	case c.Timeout < 0:
		return nil, errors.New("the timeout of Google Cloud KMS is negative")
	}
	if err := checkAddress(c.Endpoint); err != nil {
		return nil, fmt.Errorf("the endpoint of Google Cloud KMS: %w", err)
	}
	return &GCP{
		id: "gcp:" + c.Key, key: c.Key, url: strings.TrimRight(c.Endpoint, "/") + "/v1/" + c.Key, timeout: c.Timeout, tokens: c.Tokens,
		http: &http.Client{
			Timeout: c.Timeout, // also bounds requests for tokens
			Transport: &http.Transport{
				Proxy: nil, DialContext: (&net.Dialer{Timeout: c.Timeout}).DialContext, TLSHandshakeTimeout: c.Timeout,
				ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func (g *GCP) Close() { g.http.CloseIdleConnections() }

func (g *GCP) ID() string { return g.id }

// gcpRequest and gcpResponse are the bodies of encrypt and decrypt. Checksums are numbers in quotes.
type gcpRequest struct {
	Plaintext     []byte `json:"plaintext,omitempty"`
	PlaintextCRC  int64  `json:"plaintextCrc32c,omitempty,string"`
	Ciphertext    []byte `json:"ciphertext,omitempty"`
	CiphertextCRC int64  `json:"ciphertextCrc32c,omitempty,string"`
	AAD           []byte `json:"additionalAuthenticatedData"`
	AADCRC        int64  `json:"additionalAuthenticatedDataCrc32c,string"`
}

type gcpResponse struct {
	Name              string `json:"name"`
	Plaintext         []byte `json:"plaintext"`
	PlaintextCRC      int64  `json:"plaintextCrc32c,string"`
	Ciphertext        []byte `json:"ciphertext"`
	CiphertextCRC     int64  `json:"ciphertextCrc32c,string"`
	VerifiedPlaintext bool   `json:"verifiedPlaintextCrc32c"`
	VerifiedAAD       bool   `json:"verifiedAdditionalAuthenticatedDataCrc32c"`
}

func checksum(b []byte) int64 { return int64(crc32.Checksum(b, castagnoli)) }

func (g *GCP) Wrap(ctx context.Context, key secret.String, aad []byte) (Wrapped, error) {
	if err := checkWrap(key, aad); err != nil {
		return Wrapped{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	inner := make([]byte, innerSize)
	_, _ = rand.Read(inner) // never fails
	defer clear(inner)
	response, err := g.call(ctx, "encrypt", gcpRequest{Plaintext: inner, PlaintextCRC: checksum(inner), AAD: aad, AADCRC: checksum(aad)})
	if err != nil {
		return Wrapped{}, unavailable("wrap a key", g.id, err)
	}
	// Without this check, corruption would be noticed only at Unwrap, when the key is needed.
	if !response.VerifiedPlaintext || !response.VerifiedAAD || checksum(response.Ciphertext) != response.CiphertextCRC {
		return Wrapped{}, unavailable("wrap a key", g.id, errGarbled)
	}
	number, ok := strings.CutPrefix(response.Name, g.key+"/cryptoKeyVersions/")
	version, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil {
		return Wrapped{}, unavailable("wrap a key", g.id, errors.New("the response does not name the version of the key"))
	}
	ref := Ref{ID: g.id, Version: uint32(version)}
	ciphertext, err := closeEnvelope(ref, inner, response.Ciphertext, key, aad)
	if err != nil {
		return Wrapped{}, unavailable("wrap a key", g.id, err)
	}
	return Wrapped{Key: ref, Ciphertext: ciphertext}, nil
}

func (g *GCP) Unwrap(ctx context.Context, wrapped Wrapped, aad []byte) (secret.String, error) {
	innerWrapped, body, ok := splitEnvelope(wrapped.Ciphertext)
	if !ok || wrapped.Key.ID != g.id || len(aad) == 0 {
		return secret.String{}, ErrCorrupt
	}
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	response, err := g.call(ctx, "decrypt", gcpRequest{Ciphertext: innerWrapped, CiphertextCRC: checksum(innerWrapped), AAD: aad, AADCRC: checksum(aad)})
	if refused, ok := errors.AsType[*gcpRefusal](err); ok && refused.blamesCiphertext() {
		return secret.String{}, ErrCorrupt
	}
	if err == nil && checksum(response.Plaintext) != response.PlaintextCRC {
		err = errGarbled
	}
	if err != nil {
		return secret.String{}, unavailable("unwrap a key", g.id, err)
	}
	defer clear(response.Plaintext)
	key, err := openEnvelope(wrapped.Key, response.Plaintext, innerWrapped, body, aad)
	if err != nil && !errors.Is(err, ErrCorrupt) {
		err = unavailable("unwrap a key", g.id, err)
	}
	return key, err
}

// Check implements Wrapper. It wraps and unwraps a random key.
func (g *GCP) Check(ctx context.Context) (Ref, error) { return roundTrip(ctx, g) }

// gcpRefusal is a response other than 200. Its text does not contain the message, which may quote the request.
type gcpRefusal struct {
	http   int
	status string
}

func (r *gcpRefusal) Error() string {
	return fmt.Sprintf("Google answered %d %s; check the permissions of the account and the state of the key", r.http, r.status)
}

// blamesCiphertext reports whether Google refused to decrypt this ciphertext, rather than to work for us at all. A
// version that was disabled or destroyed gives FAILED_PRECONDITION instead.
func (r *gcpRefusal) blamesCiphertext() bool {
	return r.http == http.StatusBadRequest && r.status == "INVALID_ARGUMENT"
}

var gcpStatus = regexp.MustCompile(`^[A-Z_]{1,40}$`)

// call performs one operation with the key. The error is a *gcpRefusal if Google answered with another status than 200.
func (g *GCP) call(ctx context.Context, operation string, body gcpRequest) (gcpResponse, error) {
	request, err := g.request(ctx, operation, body)
	if err != nil {
		return gcpResponse{}, err
	}
	response, err := g.http.Do(request)
	if err != nil {
		return gcpResponse{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return gcpResponse{}, err
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
		return gcpResponse{}, &gcpRefusal{response.StatusCode, refused.Error.Status}
	}
	var parsed gcpResponse
	if err := json.Unmarshal(text, &parsed); err != nil {
		// The parser's error may contain the response.
		return gcpResponse{}, errors.New("the response is not of Google Cloud KMS")
	}
	return parsed, nil
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
	request.Header["Idempotency-Key"] = nil // may be repeated; see transit_client.go
	return request, nil
}

// token returns an access token. The first call finds the credentials.
func (g *GCP) token(ctx context.Context) (*oauth2.Token, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if g.tokens == nil {
		// The source keeps this context for later requests, so it must not end with this call.
		own := context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, g.http)
		found, err := google.FindDefaultCredentials(own, gcpScope)
		if err != nil {
			return nil, errors.New("no application default credentials found; set GOOGLE_APPLICATION_CREDENTIALS or attach an account to the machine")
		}
		g.tokens = found.TokenSource
	}
	token, err := g.tokens.Token()
	if err != nil {
		return nil, errors.New("Google issues no token for the default credentials") //nolint:staticcheck // a name starts with a capital
	}
	return token, nil
}
