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

// transitPrefix is before the version in every ciphertext; OpenBao has kept it.
const transitPrefix = "vault:v"

// maxAnswer bounds what is read of an answer: the largest wrapped key as base64 twice over.
const maxAnswer = 4 * maxCiphertext

var (
	transitMount = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)*$`)
	transitKey   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
	// errAnswer tells nothing of the answer, which may hold a key.
	errAnswer = errors.New("its answer is not one of the transit engine")
)

// transitRequest is the body of encrypt and of decrypt, all of it base64. The API also knows a "context", which derives
// keys and is not authenticated data.
type transitRequest struct {
	Plaintext      string `json:"plaintext,omitempty"`
	Ciphertext     string `json:"ciphertext,omitempty"`
	AssociatedData string `json:"associated_data"`
}

type transitAnswer struct {
	Data struct {
		Plaintext  string `json:"plaintext"`
		Ciphertext string `json:"ciphertext"`
	} `json:"data"`
	Errors []string `json:"errors"`
}

// refusal is an answer other than 200. It prints its status only, because messages may quote what was sent.
type refusal struct {
	status   int
	messages []string
}

func (r *refusal) Error() string {
	hint := "look at the server's log"
	switch {
	case r.status >= 300 && r.status < 400:
		hint = "redirects are not followed; give the address of the server itself"
	case r.status == http.StatusBadRequest:
		hint = "look for the key's name, and that it is an aes256-gcm96 key that is not derived"
	case r.status == http.StatusForbidden:
		hint = "the token is not valid or may not use this key"
	case r.status == http.StatusNotFound:
		hint = "look for the mount and the namespace"
	case r.status == http.StatusServiceUnavailable:
		hint = "it is sealed or starting"
	}
	return fmt.Sprintf("it answered %d: %s", r.status, hint)
}

// blamesCiphertext tells a refusal to decrypt this ciphertext from one to work for us at all. The texts for bad
// ciphertexts differ between servers, the other two do not.
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

// check says what is wrong with the settings.
func (c TransitConfig) check() error {
	if err := checkAddress(c.Address); err != nil {
		return fmt.Errorf("the address of the transit engine: %w", err)
	}
	switch {
	case !transitMount.MatchString(c.Mount) || len(c.Mount) > maxID/2:
		return errors.New("the mount of the transit engine is a path such as transit, without a slash at its ends")
	case !transitKey.MatchString(c.Key) || len(c.Key) > maxID/4:
		return fmt.Errorf("the name of the transit key has letters, digits, dots, dashes and underscores, at most %d", maxID/4)
	case c.Token.Empty() == (c.TokenFile == ""):
		return errors.New("the transit engine needs a token or a token file, and not both")
	case c.Timeout < 0:
		return errors.New("the time-out of the transit engine is negative")
	}
	return nil
}

// checkAddress takes https://host:port, and http on loopback, where an agent may listen.
func checkAddress(text string) error {
	address, err := url.Parse(text)
	switch {
	case err != nil || address.Host == "" || address.User != nil || strings.Trim(address.Path, "/") != "" || address.RawQuery != "" || address.Fragment != "":
		return errors.New("it is not like https://vault.internal:8200")
	case address.Scheme != "https" && (address.Scheme != "http" || !loopback(address.Hostname())):
		return errors.New("it needs https; http is for loopback only")
	}
	return nil
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func newTransitClient(c TransitConfig) (transitClient, error) {
	roots, err := readRoots(c.RootsFile)
	if err != nil {
		return transitClient{}, err
	}
	transport := &http.Transport{
		Proxy:               nil, // keys take no detour
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
			// A redirect would take token and key to a server that nobody has named.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// readRoots gives nil, which means the system's, if there is no file.
func readRoots(path string) (*x509.CertPool, error) {
	var roots *x509.CertPool
	if path == "" {
		return roots, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the roots of the transit engine: %w", err)
	}
	roots = x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate as PEM", path)
	}
	return roots, nil
}

// call does one operation with the key. Its error is a *refusal if the server answered.
func (c *transitClient) call(ctx context.Context, operation string, body transitRequest) (transitAnswer, error) {
	request, err := c.request(ctx, operation, body)
	if err != nil {
		return transitAnswer{}, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return transitAnswer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return transitAnswer{}, err
	}
	defer clear(text)
	var answer transitAnswer
	err = json.Unmarshal(text, &answer)
	if response.StatusCode != http.StatusOK {
		return transitAnswer{}, &refusal{status: response.StatusCode, messages: answer.Errors}
	}
	if err != nil {
		return transitAnswer{}, errAnswer // the parser's error may quote the answer
	}
	return answer, nil
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
	// Both operations may be done twice. This tells net/http to do so when the server closes an idle connection
	// under our hands; an empty list is not sent.
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
	// net/http would refuse a token with a line break as well, but after we have begun to speak.
	if token.Empty() || strings.ContainsFunc(token.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return secret.String{}, errors.New("the token is empty or has characters that no token has")
	}
	return token, nil
}

// parseTransit reads a ciphertext of the transit engine, such as vault:v3:bm9uY2U=, in the one form that the engine
// writes. Spaces, signs, leading zeros and loose base64 would make several texts of one wrapped key.
func parseTransit(text string) (uint32, []byte, error) {
	rest, ok := strings.CutPrefix(text, transitPrefix)
	number, encoded, two := strings.Cut(rest, ":")
	if !ok || !two || base64.StdEncoding.DecodedLen(len(encoded)) > maxCiphertext+2 {
		return 0, nil, errAnswer
	}
	version, err := strconv.ParseUint(number, 10, 32)
	if err != nil || version == 0 {
		return 0, nil, errAnswer
	}
	ciphertext, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(ciphertext) == 0 || len(ciphertext) > maxCiphertext || formatTransit(uint32(version), ciphertext) != text {
		return 0, nil, errAnswer
	}
	return uint32(version), ciphertext, nil
}

func formatTransit(version uint32, ciphertext []byte) string {
	return transitPrefix + strconv.FormatUint(uint64(version), 10) + ":" + base64.StdEncoding.EncodeToString(ciphertext)
}
