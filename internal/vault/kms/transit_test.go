package kms_test

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/kms/kmstest"
)

// configOf returns the settings for a server of kmstest. The tests need no Vault.
func configOf(s *kmstest.Transit) kms.TransitConfig {
	return kms.TransitConfig{Address: s.URL, Key: s.Key, Token: secret.New(s.Token)}
}

func openTransit(t testing.TB, c kms.TransitConfig) *kms.Transit {
	t.Helper()
	transit, err := kms.OpenTransit(c)
	must.OK(t, err)
	t.Cleanup(transit.Close)
	return transit
}

func TestTransitPassesTheSuite(t *testing.T) {
	t.Parallel()
	kmstest.Run(t, func(t testing.TB) kmstest.Service {
		t.Helper()
		server, _ := kmstest.NewTransit(t, false)
		return kmstest.Service{
			Open: func(t testing.TB) kms.Wrapper {
				t.Helper()
				return openTransit(t, configOf(server))
			},
			Rotate: func(testing.TB) { server.Rotate() },
			Hang: func(t testing.TB) kms.Wrapper {
				t.Helper()
				server.Hang()
				c := configOf(server)
				c.Timeout = 100 * time.Millisecond
				return openTransit(t, c)
			},
		}
	})
}

// A server that ignores associated data, as old versions do, never gets a key: a wrapped key could be moved to another
// organisation.
func TestTransitGivesNoKeyToAServerThatIgnoresAssociatedData(t *testing.T) {
	t.Parallel()
	server, _ := kmstest.NewTransit(t, false)
	server.IgnoreAAD()
	transit := openTransit(t, configOf(server))
	_, wrap := transit.Wrap(t.Context(), secret.New("key"), []byte("aad"))
	_, check := transit.Check(t.Context())
	for _, err := range []error{wrap, check} {
		if !errors.Is(err, kms.ErrUnavailable) || !strings.Contains(err.Error(), "associated_data") {
			t.Errorf("got %v", err)
		}
	}
}

// Only the rejection of the ciphertext itself is ErrCorrupt; everything else may be temporary. Errors do not contain
// responses.
func TestTransitDistinguishesCorruptFromUnavailable(t *testing.T) {
	t.Parallel()
	aad := []byte("aad")
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	for name, c := range map[string]struct {
		fault http.HandlerFunc
		want  error
	}{
		"bad tag":         {answer(400, `{"errors":["cipher: message authentication failed"]}`), kms.ErrCorrupt},
		"too old":         {answer(400, `{"errors":["ciphertext or signature version is disallowed by policy (too old)"]}`), kms.ErrCorrupt},
		"no key":          {answer(400, `{"errors":["encryption key not found"]}`), kms.ErrUnavailable},
		"no token":        {answer(400, `{"errors":["missing client token"]}`), kms.ErrUnavailable},
		"400 from proxy":  {answer(400, `<html>hunter2`), kms.ErrUnavailable},
		"denied":          {answer(403, `{"errors":["permission denied hunter2"]}`), kms.ErrUnavailable},
		"no mount":        {answer(404, `{"errors":["no handler for route"]}`), kms.ErrUnavailable},
		"too many":        {answer(429, `{"errors":["hunter2"]}`), kms.ErrUnavailable},
		"internal":        {answer(500, `{"errors":["internal error"]}`), kms.ErrUnavailable},
		"sealed":          {answer(503, `{"errors":["Vault is sealed"]}`), kms.ErrUnavailable},
		"not JSON":        {answer(200, `hunter2`), kms.ErrUnavailable},
		"wrong type":      {answer(200, `{"data":{"plaintext":12345678}}`), kms.ErrUnavailable},
		"no data":         {answer(200, `{}`), kms.ErrUnavailable},
		"not base64":      {answer(200, `{"data":{"plaintext":"hunter2!"}}`), kms.ErrUnavailable},
		"endless":         {answer(200, strings.Repeat(" ", 1<<20)+`{"data":{"plaintext":"aHVudGVyMg=="}}`), kms.ErrUnavailable},
		"connection gone": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, kms.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, _ := kmstest.NewTransit(t, false)
			transit := openTransit(t, configOf(server))
			wrapped, err := transit.Wrap(t.Context(), secret.New("key"), aad)
			must.OK(t, err)
			server.Answer(c.fault)
			key, unwrap := transit.Unwrap(t.Context(), wrapped, aad)
			if !errors.Is(unwrap, c.want) || !key.Empty() {
				t.Errorf("unwrap: %v", unwrap)
			}
			_, wrap := transit.Wrap(t.Context(), secret.New("key"), aad)
			_, check := transit.Check(t.Context())
			if !errors.Is(wrap, kms.ErrUnavailable) || !errors.Is(check, kms.ErrUnavailable) || errors.Is(check, kms.ErrCorrupt) {
				t.Errorf("wrap: %v; check: %v", wrap, check)
			}
			for _, err := range []error{unwrap, wrap, check} {
				for _, quoted := range []string{"hunter2", "aHVudGVyMg", "12345678", server.Token} {
					if strings.Contains(err.Error(), quoted) {
						t.Errorf("the error contains %s: %v", quoted, err)
					}
				}
			}
			server.Answer(nil)
			if _, err := transit.Unwrap(t.Context(), wrapped, aad); err != nil {
				t.Errorf("after the fault: %v", err)
			}
		})
	}
}

// A redirect would send the token and the key to another server.
func TestTransitFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	var visits atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits.Add(1) }))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		server, _ := kmstest.NewTransit(t, false)
		server.Answer(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+r.URL.Path, status) })
		if _, err := openTransit(t, configOf(server)).Check(t.Context()); !errors.Is(err, kms.ErrUnavailable) {
			t.Errorf("%d: %v", status, err)
		}
	}
	if n := visits.Load(); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

// The certificate of the server is verified only against the configured roots.
func TestTransitTrustsItsRootsOnly(t *testing.T) {
	t.Parallel()
	server, listener := kmstest.NewTransit(t, true)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: listener.Certificate().Raw})
	must.OK(t, os.WriteFile(roots, text, 0o600))
	c := configOf(server)
	if _, err := openTransit(t, c).Check(t.Context()); !errors.Is(err, kms.ErrUnavailable) {
		t.Errorf("unknown certificate: %v", err)
	}
	c.RootsFile = roots
	if _, err := openTransit(t, c).Check(t.Context()); err != nil {
		t.Errorf("known certificate: %v", err)
	}
	for _, bad := range []string{filepath.Join(t.TempDir(), "missing"), os.DevNull} {
		c.RootsFile = bad
		if _, err := kms.OpenTransit(c); err == nil {
			t.Errorf("roots accepted from %s", bad)
		}
	}
}

// An agent may write a new token at any time, possibly with a trailing newline.
func TestTransitReadsItsTokenFileForEveryCall(t *testing.T) {
	t.Parallel()
	server, _ := kmstest.NewTransit(t, false)
	file := filepath.Join(t.TempDir(), "token")
	c := configOf(server)
	c.Token, c.TokenFile = secret.String{}, file
	transit := openTransit(t, c)
	for _, step := range []struct {
		token string
		good  bool
	}{{server.Token + "\n", true}, {"hvs.hunter2", false}, {"", false}, {"hvs.hun\r\nter2", false}, {server.Token, true}} {
		must.OK(t, os.WriteFile(file, []byte(step.token), 0o600))
		_, err := transit.Check(t.Context())
		if (err == nil) != step.good || err != nil && (!errors.Is(err, kms.ErrUnavailable) || strings.Contains(err.Error(), "hun")) {
			t.Errorf("token %q: %v", step.token, err)
		}
	}
	must.OK(t, os.Remove(file))
	if _, err := transit.Check(t.Context()); !errors.Is(err, kms.ErrUnavailable) {
		t.Errorf("no token file: %v", err)
	}
}

func TestTransitRejectsInvalidSettings(t *testing.T) {
	t.Parallel()
	good := kms.TransitConfig{Address: "https://vault.internal:8200/", Key: "stagedoor", Token: secret.New("hvs.hunter2")}
	openTransit(t, good)
	for name, change := range map[string]func(*kms.TransitConfig){
		"no address":     func(c *kms.TransitConfig) { c.Address = "" },
		"not a URL":      func(c *kms.TransitConfig) { c.Address = "vault.internal:8200" },
		"plain HTTP":     func(c *kms.TransitConfig) { c.Address = "http://vault.internal:8200" },
		"password":       func(c *kms.TransitConfig) { c.Address = "https://user:hunter2@vault.internal" },
		"path":           func(c *kms.TransitConfig) { c.Address = "https://vault.internal/v1/transit" },
		"query":          func(c *kms.TransitConfig) { c.Address = "https://vault.internal?a=hunter2" },
		"no key":         func(c *kms.TransitConfig) { c.Key = "" },
		"key with path":  func(c *kms.TransitConfig) { c.Key = "../sys/seal" },
		"mount upwards":  func(c *kms.TransitConfig) { c.Mount = "a/../b" },
		"mount absolute": func(c *kms.TransitConfig) { c.Mount = "/transit" },
		"no token":       func(c *kms.TransitConfig) { c.Token = secret.String{} },
		"two tokens":     func(c *kms.TransitConfig) { c.TokenFile = "token" },
		"timeout":        func(c *kms.TransitConfig) { c.Timeout = -1 },
	} {
		c := good
		change(&c)
		if _, err := kms.OpenTransit(c); err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error contains a secret: %v", name, err)
		}
	}
	for _, address := range []string{"http://127.0.0.1:8200", "http://[::1]:8200", "http://localhost:8200"} {
		c := good
		c.Address = address
		openTransit(t, c)
	}
}

// A server that cannot unwrap what it wrapped, or returns something else, never gets a key. This is ErrUnavailable, not
// ErrCorrupt.
func TestTransitGivesNoKeyToAServerThatLosesKeys(t *testing.T) {
	t.Parallel()
	for name, decrypted := range map[string]struct {
		status int
		body   string
	}{
		"refuses":     {400, `{"errors":["cipher: message authentication failed"]}`},
		"another key": {200, `{"data":{"plaintext":"aHVudGVyMg=="}}`},
	} {
		server, _ := kmstest.NewTransit(t, false)
		server.Answer(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/encrypt/") {
				_, _ = w.Write([]byte(`{"data":{"ciphertext":"vault:v1:YWJj","key_version":1}}`))
				return
			}
			w.WriteHeader(decrypted.status)
			_, _ = w.Write([]byte(decrypted.body))
		})
		transit := openTransit(t, configOf(server))
		_, wrap := transit.Wrap(t.Context(), secret.New("key"), []byte("aad"))
		_, check := transit.Check(t.Context())
		for _, err := range []error{wrap, check} {
			if !errors.Is(err, kms.ErrUnavailable) || errors.Is(err, kms.ErrCorrupt) || !strings.Contains(err.Error(), "does not return the key") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Mount, key, namespace and token are where Vault expects them.
func TestTransitUsesItsMountAndNamespace(t *testing.T) {
	t.Parallel()
	asked := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	transit := openTransit(t, kms.TransitConfig{
		Address: server.URL + "/", Mount: "teams/keys", Key: "us-1", Namespace: "ns1", Token: secret.New("hvs.token"),
	})
	if _, err := transit.Check(t.Context()); !errors.Is(err, kms.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	r := <-asked
	if r.Method != http.MethodPost || r.URL.Path != "/v1/teams/keys/encrypt/us-1" ||
		r.Header.Get("X-Vault-Namespace") != "ns1" || r.Header.Get("X-Vault-Token") != "hvs.token" {
		t.Errorf("asked %s %s with %d headers", r.Method, r.URL.Path, len(r.Header))
	}
	if _, sent := r.Header["Idempotency-Key"]; sent {
		t.Error("the Idempotency-Key header was sent")
	}
}
