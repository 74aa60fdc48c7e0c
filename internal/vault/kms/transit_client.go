package kms

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// transitPrefix precedes the version in every ciphertext, also with OpenBao.
const transitPrefix = "vault:v"

// maxResponse limits how much of a response is read: more than twice the largest wrapped key in base64.
const maxResponse = 4 * maxCiphertext

var (
	transitMount = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)*$`)
	transitKey   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
	// errResponse does not contain the response, which may hold a key.
	errResponse = errors.New("the server sent a response that is not of a transit engine")
)

// transitRequest is the body of encrypt and decrypt; all values are base64. The API also has a "context", which derives
// keys and is not authenticated data.
type transitRequest struct {
	Plaintext      string `json:"plaintext,omitempty"`
	Ciphertext     string `json:"ciphertext,omitempty"`
	AssociatedData string `json:"associated_data"`
}

type transitResponse struct {
	Data struct {
		Plaintext  string `json:"plaintext"`
		Ciphertext string `json:"ciphertext"`
	} `json:"data"`
	Errors []string `json:"errors"`
}

// refusal is a response other than 200. Its text contains only the status, because the messages may quote the request.
type refusal struct {
	status   int
	messages []string
}

func (r *refusal) Error() string {
	hint := "see the log of the server"
	switch {
	case r.status >= 300 && r.status < 400:
		hint = "redirects are not followed; set the address of the server itself"
	case r.status == http.StatusBadRequest:
		hint = "check the name of the key, and that it is an aes256-gcm96 key that is not derived"
	case r.status == http.StatusForbidden:
		hint = "the token is invalid or may not use this key"
	case r.status == http.StatusNotFound:
		hint = "check the mount and the namespace"
	case r.status == http.StatusServiceUnavailable:
		hint = "the server is sealed or starting"
	}
	return fmt.Sprintf("the server answered %d: %s", r.status, hint)
}

// blamesCiphertext reports whether the server refused to decrypt this ciphertext, rather than to work for us at all.
// The messages about bad ciphertexts differ between servers, so it excludes the two others that come with status 400.
func (r *refusal) blamesCiphertext() bool {
	return r.status == http.StatusBadRequest && len(r.messages) > 0 && !slices.ContainsFunc(r.messages, func(m string) bool {
		return strings.Contains(m, "encryption key not found") || strings.Contains(m, "missing client token")
	})
}

type transitClient struct {
	base      string
	key       string
	namespace string
	token     secret.String
	tokenFile string
	http      *http.Client
}

// check validates the settings.
func (c TransitConfig) check() error {
	if err := checkAddress(c.Address); err != nil {
		return fmt.Errorf("the address of the transit engine: %w", err)
	}
	switch {
	case !transitMount.MatchString(c.Mount) || len(c.Mount) > maxID/2:
		return errors.New("the mount of the transit engine must be a path such as transit, without leading or trailing slash")
	case !transitKey.MatchString(c.Key) || len(c.Key) > maxID/4:
		return fmt.Errorf("the name of the transit key must consist of at most %d letters, digits, dots, dashes and underscores", maxID/4)
	case c.Token.Empty() == (c.TokenFile == ""):
		return errors.New("the transit engine needs either a token or a token file")
	case c.Timeout < 0:
		return errors.New("the timeout of the transit engine is negative")
	}
	return nil
}

// checkAddress accepts https://host:port, and http for loopback, where an agent may listen.
func checkAddress(text string) error {
	address, err := url.Parse(text)
	switch {
	case err != nil || address.Host == "" || address.User != nil || strings.Trim(address.Path, "/") != "" || address.RawQuery != "" || address.Fragment != "":
		return errors.New("it must look like https://vault.internal:8200")
	case address.Scheme != "https" && (address.Scheme != "http" || !isLoopback(address.Hostname())):
		return errors.New("it must use https; http is allowed only for loopback")
	}
	return nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func newTransitClient(c TransitConfig) (transitClient, error) {
	roots, err := readRoots(c.RootsFile)
	if err != nil {
		return transitClient{}, err
	}
	transport := &http.Transport{
		Proxy:               nil, // keys must not pass through a proxy of the environment
		DialContext:         (&net.Dialer{Timeout: c.Timeout}).DialContext,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout: c.Timeout,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     time.Minute,
	}
	return transitClient{
		base: strings.TrimRight(c.Address, "/") + "/v1/" + c.Mount + "/", key: c.Key, namespace: c.Namespace,
		token: c.Token, tokenFile: c.TokenFile,
		http: &http.Client{
			Transport: transport,
			// A redirect would send the token and the key to another server.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// readRoots returns nil, which means the roots of the system, if path is empty.
func readRoots(path string) (*x509.CertPool, error) {
	var roots *x509.CertPool
	if path == "" {
		return roots, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read root certificates: %w", err)
	}
	roots = x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s contains no PEM certificate", path)
	}
	return roots, nil
}

// call performs one operation with the key. The error is a *refusal if the server answered with another status than
// 200.
func (c *transitClient) call(ctx context.Context, operation string, body transitRequest) (transitResponse, error) {
	request, err := c.request(ctx, operation, body)
	if err != nil {
		return transitResponse{}, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return transitResponse{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return transitResponse{}, err
	}
	defer clear(text)
	var parsed transitResponse
	err = json.Unmarshal(text, &parsed)
	if response.StatusCode != http.StatusOK {
		return transitResponse{}, &refusal{status: response.StatusCode, messages: parsed.Errors}
	}
	if err != nil {
		return transitResponse{}, errResponse // the parser's error may contain the response
	}
	return parsed, nil
}

func (c *transitClient) request(ctx context.Context, operation string, body transitRequest) (*http.Request, error) {
	token, err := c.readToken()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+operation+"/"+c.key, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Vault-Request", "true")
	request.Header.Set("X-Vault-Token", token.Reveal())
	if c.namespace != "" {
		request.Header.Set("X-Vault-Namespace", c.namespace)
	}
	// Both operations may be repeated. The header tells net/http to do so if the server closes an idle connection just
	// as the request is sent; a header without values is not sent.
	request.Header["Idempotency-Key"] = nil
	return request, nil
}

func (c *transitClient) readToken() (secret.String, error) {
	token := c.token
	if c.tokenFile != "" {
		text, err := os.ReadFile(c.tokenFile)
		if err != nil {
			return secret.String{}, fmt.Errorf("read the token: %w", err)
		}
		token = secret.New(strings.TrimSpace(string(text)))
		clear(text)
	}
	// net/http would also reject a token with a line break, but only after it has connected.
	if token.Empty() || strings.ContainsFunc(token.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return secret.String{}, errors.New("the token is empty or contains invalid characters")
	}
	return token, nil
}

// parseTransit parses a ciphertext of the transit engine, such as vault:v3:bm9uY2U=. It accepts only the form that the
// engine writes: spaces, signs, leading zeros and non-canonical base64 would give one wrapped key several texts.
func parseTransit(text string) (uint32, []byte, error) {
	rest, ok := strings.CutPrefix(text, transitPrefix)
	number, encoded, found := strings.Cut(rest, ":")
	if !ok || !found || base64.StdEncoding.DecodedLen(len(encoded)) > maxCiphertext+2 {
		return 0, nil, errResponse
	}
	version, err := strconv.ParseUint(number, 10, 32)
	if err != nil || version == 0 {
		return 0, nil, errResponse
	}
	ciphertext, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(ciphertext) == 0 || len(ciphertext) > maxCiphertext || formatTransit(uint32(version), ciphertext) != text {
		return 0, nil, errResponse
	}
	return uint32(version), ciphertext, nil
}

func formatTransit(version uint32, ciphertext []byte) string {
	return transitPrefix + strconv.FormatUint(uint64(version), 10) + ":" + base64.StdEncoding.EncodeToString(ciphertext)
}
