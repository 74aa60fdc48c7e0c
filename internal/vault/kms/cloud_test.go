package kms_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"golang.org/x/oauth2"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/kms/kmstest"
)

// These tests use the servers of kmstest, not AWS or Google.

func openAWS(t testing.TB, server *kmstest.Cloud, timeout time.Duration) kms.Wrapper {
	t.Helper()
	w, err := kms.OpenAWS(t.Context(), kms.AWSConfig{
		Key: server.Key, Endpoint: server.URL, Timeout: timeout,
		Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "hunter2-secret", ""),
	})
	must.OK(t, err)
	return w
}

func openGCP(t testing.TB, server *kmstest.Cloud, timeout time.Duration) kms.Wrapper {
	t.Helper()
	w, err := kms.OpenGCP(kms.GCPConfig{
		Key: server.Key, Endpoint: server.URL, Timeout: timeout,
		Tokens: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "hunter2-token"}),
	})
	must.OK(t, err)
	t.Cleanup(w.Close)
	return w
}

type cloud struct {
	start func(testing.TB) *kmstest.Cloud
	open  func(testing.TB, *kmstest.Cloud, time.Duration) kms.Wrapper
}

func clouds() map[string]cloud {
	return map[string]cloud{"AWS": {kmstest.NewAWS, openAWS}, "Google": {kmstest.NewGCP, openGCP}}
}

func TestCloudsPassTheSuite(t *testing.T) {
	t.Parallel()
	for name, c := range clouds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kmstest.Run(t, func(t testing.TB) kmstest.Service {
				t.Helper()
				server := c.start(t)
				return kmstest.Service{
					Open: func(t testing.TB) kms.Wrapper {
						t.Helper()
						return c.open(t, server, 0)
					},
					Rotate: func(testing.TB) { server.Rotate() },
					Hang: func(t testing.TB) kms.Wrapper {
						t.Helper()
						server.Hang()
						return c.open(t, server, 100*time.Millisecond)
					},
				}
			})
		})
	}
}

// Only the rejection of the ciphertext itself is ErrCorrupt; everything else may be temporary. Errors do not contain
// responses.
func TestCloudsDistinguishCorruptFromUnavailable(t *testing.T) {
	t.Parallel()
	type fault struct {
		status int
		body   string
		want   error
	}
	faults := map[string]map[string]fault{
		"AWS": {
			"bad ciphertext": {400, `{"__type":"InvalidCiphertextException"}`, kms.ErrCorrupt},
			"another key":    {400, `{"__type":"IncorrectKeyException"}`, kms.ErrCorrupt},
			"denied":         {400, `{"__type":"AccessDeniedException","message":"hunter2"}`, kms.ErrUnavailable},
			"disabled":       {400, `{"__type":"DisabledException"}`, kms.ErrUnavailable},
			"to be deleted":  {400, `{"__type":"KMSInvalidStateException"}`, kms.ErrUnavailable},
			"throttled":      {400, `{"__type":"ThrottlingException"}`, kms.ErrUnavailable},
			"internal":       {500, `{"__type":"KMSInternalException"}`, kms.ErrUnavailable},
			"not JSON":       {200, `hunter2`, kms.ErrUnavailable},
			"no data":        {200, `{}`, kms.ErrUnavailable},
			"short key":      {200, `{"Plaintext":"aHVudGVyMg==","CiphertextBlob":"aHVudGVyMg=="}`, kms.ErrUnavailable},
		},
		"Google": {
			"bad ciphertext": {400, `{"error":{"status":"INVALID_ARGUMENT","message":"hunter2"}}`, kms.ErrCorrupt},
			"destroyed":      {400, `{"error":{"status":"FAILED_PRECONDITION"}}`, kms.ErrUnavailable},
			"denied":         {403, `{"error":{"status":"PERMISSION_DENIED","message":"hunter2"}}`, kms.ErrUnavailable},
			"no key":         {404, `{"error":{"status":"NOT_FOUND"}}`, kms.ErrUnavailable},
			"too many":       {429, `{"error":{"status":"RESOURCE_EXHAUSTED"}}`, kms.ErrUnavailable},
			"400 from proxy": {400, `<html>hunter2`, kms.ErrUnavailable},
			"odd status":     {400, `{"error":{"status":"hunter2 hunter2"}}`, kms.ErrUnavailable},
			"not JSON":       {200, `hunter2`, kms.ErrUnavailable},
			"no data":        {200, `{}`, kms.ErrUnavailable},
			"garbled":        {200, `{"plaintext":"aHVudGVyMg==","plaintextCrc32c":"1","ciphertext":"aHVudGVyMg==","ciphertextCrc32c":"1"}`, kms.ErrUnavailable},
			"redirect":       {302, ``, kms.ErrUnavailable},
		},
	}
	for name, c := range clouds() {
		for what, f := range faults[name] {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				server := c.start(t)
				w := c.open(t, server, 0)
				wrapped, err := w.Wrap(t.Context(), secret.New("key"), []byte("aad"))
				must.OK(t, err)
				server.Answer(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(f.status)
					_, _ = w.Write([]byte(f.body))
				})
				key, unwrap := w.Unwrap(t.Context(), wrapped, []byte("aad"))
				if !errors.Is(unwrap, f.want) || !key.Empty() {
					t.Errorf("unwrap: %v", unwrap)
				}
				_, wrap := w.Wrap(t.Context(), secret.New("key"), []byte("aad"))
				_, check := w.Check(t.Context())
				if !errors.Is(wrap, kms.ErrUnavailable) || !errors.Is(check, kms.ErrUnavailable) || errors.Is(check, kms.ErrCorrupt) {
					t.Errorf("wrap: %v; check: %v", wrap, check)
				}
				for _, err := range []error{unwrap, wrap, check} {
					if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "aHVudGVyMg") {
						t.Errorf("the error contains a secret or a response: %v", err)
					}
				}
				server.Answer(nil)
				if _, err := w.Unwrap(t.Context(), wrapped, []byte("aad")); err != nil {
					t.Errorf("after the fault: %v", err)
				}
			})
		}
	}
}

// Open accepts the four forms of a key. Errors about other forms do not contain them.
func TestOpenAcceptsTheFormsOfKeys(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	tokens := filepath.Join(folder, "token")
	must.OK(t, os.WriteFile(tokens, []byte("hvs.token"), 0o600))
	arn, name := kmstest.NewAWS(t).Key, kmstest.NewGCP(t).Key
	for want, s := range map[string]kms.Settings{
		kms.LocalID:                   {Key: "local:" + filepath.Join(folder, "keyset.json"), Create: true},
		"transit:transit/stagedoor":   {Key: "transit:https://vault.internal:8200/transit/stagedoor", TokenFile: tokens},
		"transit:teams/a/keys/us-1":   {Key: "transit:https://vault.internal/teams/a/keys/us-1", Token: secret.New("hvs.token"), Namespace: "ns"},
		"transit:transit/without-one": {Key: "transit:http://127.0.0.1:8200/without-one", Token: secret.New("hvs.token")},
		"aws:" + arn:                  {Key: "aws:" + arn, Endpoint: "https://vpce.internal"},
		"gcp:" + name:                 {Key: "gcp:" + name},
	} {
		w, err := kms.Open(t.Context(), s)
		if err != nil {
			t.Errorf("%s: %v", want, err)
		} else if w.ID() != want {
			t.Errorf("%s was opened as %s", want, w.ID())
		}
	}
	for _, bad := range []kms.Settings{
		{}, {Key: "local:"}, {Key: "local"}, {Key: "vault:x"}, {Key: "local:" + filepath.Join(folder, "missing")},
		{Key: "transit:https://user:hunter2@vault.internal/transit/key", TokenFile: tokens}, {Key: "transit:https://[hunter2/transit/key", TokenFile: tokens},
		{Key: "transit:https://vault.internal:8200/transit/stagedoor"}, {Key: "transit:http://vault.internal:8200/transit/stagedoor", TokenFile: tokens},
		{Key: "aws:alias/stagedoor"}, {Key: "aws:" + arn, Endpoint: "http://vpce.internal"}, {Key: "aws:" + strings.Replace(arn, "key/", "alias/", 1)},
		{Key: "gcp:" + name + "/cryptoKeyVersions/1"}, {Key: "gcp:projects/x"}, {Key: "gcp:" + name, Endpoint: "ftp://x"},
	} {
		if _, err := kms.Open(t.Context(), bad); err == nil {
			t.Errorf("%q was accepted", bad.Key)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error contains a secret: %v", err)
		}
	}
}
