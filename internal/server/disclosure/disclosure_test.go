package disclosure_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/server/disclosure"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// security.txt has the contacts and an expiry within a year, and does not exist without a contact.
func TestSecurityText(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, testnode.Setup{Configure: func(c *config.Config) {
		c.SecurityContact, c.SecurityPolicy = []string{"mailto:security@example.com", "https://example.com/report"}, "https://example.com/policy"
	}})[0]
	r := node.Call(t, http.MethodGet, "/.well-known/security.txt", "", nil)
	fields := map[string][]string{}
	for line := range strings.Lines(string(r.Body)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		fields[name] = append(fields[name], value)
	}
	if r.Status != http.StatusOK || r.Header.Get("Content-Type") != "text/plain; charset=utf-8" || len(fields["Contact"]) != 2 ||
		fields["Contact"][0] != "mailto:security@example.com" || fields["Policy"][0] != "https://example.com/policy" ||
		fields["Canonical"][0] != "http://stagedoor.test/.well-known/security.txt" || len(fields["Expires"]) != 1 {
		t.Fatalf("%d %v\n%s", r.Status, r.Header, r.Body)
	}
	expires, err := time.Parse(time.RFC3339, fields["Expires"][0])
	must.OK(t, err)
	if left := time.Until(expires); left < 80*24*time.Hour || left > 365*24*time.Hour {
		t.Errorf("it expires in %s", left)
	}
	none := testnode.Nodes(t, 1, testnode.Setup{})[0]
	if r := none.Call(t, http.MethodGet, "/.well-known/security.txt", "", nil); r.Code() != "route-not-found" {
		t.Errorf("without a contact: %d %s", r.Status, r.Body)
	}
	if r := none.Call(t, http.MethodPost, "/secret-scanning/github", "", []byte("[]")); r.Code() != "route-not-found" {
		t.Errorf("without keys of a scanner: %d %s", r.Status, r.Body)
	}
}

// scanner is a secret scanner with one key.
type scanner struct {
	id  string
	key *ecdsa.PrivateKey
}

func newScanner(t *testing.T, id string) *scanner {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	return &scanner{id, key}
}

// list returns the public keys of scanners, as GitHub publishes them.
func list(t *testing.T, all ...*scanner) []byte {
	t.Helper()
	var keys []map[string]any
	for _, s := range all {
		der, err := x509.MarshalPKIXPublicKey(&s.key.PublicKey)
		must.OK(t, err)
		keys = append(keys, map[string]any{
			"key_identifier": s.id, "is_current": true, "key": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		})
	}
	text, err := json.Marshal(map[string]any{"public_keys": keys})
	must.OK(t, err)
	return text
}

// report sends a signed body. change may change the request; it may be nil.
func (s *scanner) report(t *testing.T, n *testnode.Node, body []byte, change func(*http.Request)) testnode.Reply {
	t.Helper()
	sum := sha256.Sum256(body)
	signature, err := ecdsa.SignASN1(rand.Reader, s.key, sum[:])
	must.OK(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.URL+"/secret-scanning/github", bytes.NewReader(body))
	must.OK(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Github-Public-Key-Identifier", s.id)
	req.Header.Set("Github-Public-Key-Signature", base64.StdEncoding.EncodeToString(signature))
	if change != nil {
		change(req)
	}
	r, err := testnode.Send(req)
	must.OK(t, err)
	return r
}

func leaks(t *testing.T, tokens ...string) []byte {
	t.Helper()
	var all []map[string]any
	for _, token := range tokens {
		all = append(all, map[string]any{"token": token, "type": "stagedoor_api_key", "url": "https://github.com/acme/app/blob/1/.env", "source": "content"})
	}
	text, err := json.Marshal(all)
	must.OK(t, err)
	return text
}

// labels returns the labels of an answer by token.
func labels(t *testing.T, r testnode.Reply, tokens ...string) map[string]string {
	t.Helper()
	var answer []map[string]string
	if err := json.Unmarshal(r.Body, &answer); err != nil || r.Status != http.StatusOK || len(answer) != len(tokens) {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	found := map[string]string{}
	for i, token := range tokens {
		sum := sha256.Sum256([]byte(token))
		if answer[i]["token_hash"] != base64.StdEncoding.EncodeToString(sum[:]) || answer[i]["token_type"] != "stagedoor_api_key" {
			t.Errorf("%v", answer[i])
		}
		found[token] = answer[i]["label"]
	}
	return found
}

// newKey creates an organisation and returns its key.
func newKey(t *testing.T, n *testnode.Node, environment string) testnode.Org {
	t.Helper()
	r := n.Operate(t, http.MethodPost, "/admin/v1/orgs", map[string]any{
		"name": "Test", "plan": "scale", "environment": environment, "contactEmail": "ops@example.com",
	})
	var made struct {
		Org struct{ ID string }
		Key struct{ ID, Key string }
	}
	if err := json.Unmarshal(r.Body, &made); err != nil || r.Status != http.StatusCreated {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	return testnode.Org{ID: made.Org.ID, Key: made.Key.Key, KeyID: made.Key.ID}
}

// log is a log that nodes write while a test reads it.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A published key of a live organisation is revoked on all nodes, and the organisation gets an audit entry and events.
// A key of the sandbox stays valid, a revoked one stays revoked, and other texts are nothing. No token is logged.
func TestPublishedKeysAreRevoked(t *testing.T) {
	t.Parallel()
	github := newScanner(t, "current")
	file := filepath.Join(t.TempDir(), "keys.json")
	must.OK(t, os.WriteFile(file, list(t, github), 0o600))
	var lines log
	nodes := testnode.Nodes(t, 2, testnode.Setup{Log: &lines, Configure: func(c *config.Config) { c.ScannerKeys = file }})
	n := nodes[0]
	live, sandbox := newKey(t, n, "live"), newKey(t, n, "sandbox")
	spare, revoked := n.Mint(t, live.Key), n.Mint(t, live.Key)
	if r := n.Call(t, http.MethodDelete, "/v1/me/keys/"+revoked.KeyID, live.Key, nil); r.Status != http.StatusOK {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	unknown := "sd_live_" + strings.Repeat("a", 49)
	tokens := []string{live.Key, sandbox.Key, revoked.Key, unknown, "canary-text"}
	for range 2 { // GitHub reports a key once for each place.
		for token, want := range map[string]string{
			live.Key: "true_positive", sandbox.Key: "true_positive", revoked.Key: "true_positive", unknown: "false_positive", "canary-text": "false_positive",
		} {
			if got := labels(t, github.report(t, n, leaks(t, tokens...), nil), tokens...)[token]; got != want {
				t.Errorf("the label of %.12s is %s", token, got)
			}
		}
	}
	for _, node := range nodes {
		for key, want := range map[string]string{live.Key: "key-revoked", revoked.Key: "key-revoked", sandbox.Key: "", spare.Key: ""} {
			if r := node.Call(t, http.MethodGet, "/v1/me", key, nil); r.Code() != want {
				t.Errorf("%.12s: %d %s", key, r.Status, r.Body)
			}
		}
	}
	testenv.Await(t, "the events", func() bool {
		events := string(n.LatestEvents(t, spare.Key, "").Body)
		return strings.Count(events, `"key.leaked"`) == 1 && strings.Count(events, `"key.revoked"`) == 2 && strings.Contains(events, "acme/app/blob")
	})
	audit := string(n.Call(t, http.MethodGet, "/v1/me/audit", spare.Key, nil).Body)
	if strings.Count(audit, "secret-scanning") != 1 || !strings.Contains(audit, live.KeyID) {
		t.Errorf("the audit log: %s", audit)
	}
	for _, token := range tokens {
		if strings.Contains(lines.String(), token) {
			t.Errorf("%.12s is in the log", token)
		}
	}
	if !strings.Contains(lines.String(), `"operation":"secretScanning"`) {
		t.Error("the log has no line for the report")
	}
}

// Only a report that a listed key has signed is read.
func TestForgedReportsAreRefused(t *testing.T) {
	t.Parallel()
	github, stranger, rotated := newScanner(t, "current"), newScanner(t, "current"), newScanner(t, "next")
	var (
		reads   atomic.Int32
		listed  atomic.Pointer[[]byte]
		publish = func(text []byte) { listed.Store(&text) }
	)
	publish(list(t, github))
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reads.Add(1)
		_, _ = w.Write(*listed.Load())
	}))
	t.Cleanup(source.Close)
	n := testnode.Nodes(t, 1, testnode.Setup{Configure: func(c *config.Config) { c.ScannerKeys = source.URL }})[0]
	live := newKey(t, n, "live")
	body := leaks(t, live.Key)
	other := leaks(t, "canary-text")
	for name, c := range map[string]struct {
		by     *scanner
		change func(*http.Request)
	}{
		"another key":  {stranger, nil},
		"unknown key":  {rotated, nil},
		"no key":       {github, func(r *http.Request) { r.Header.Del("Github-Public-Key-Identifier") }},
		"no signature": {github, func(r *http.Request) { r.Header.Del("Github-Public-Key-Signature") }},
		"no base64":    {github, func(r *http.Request) { r.Header.Set("Github-Public-Key-Signature", "%%%") }},
		"no DER":       {github, func(r *http.Request) { r.Header.Set("Github-Public-Key-Signature", "AAAA") }},
		"another body": {github, func(r *http.Request) { r.Body, r.ContentLength = http.NoBody, 0 }},
	} {
		if r := c.by.report(t, n, body, c.change); r.Status != http.StatusUnauthorized || bytes.Contains(r.Body, []byte(live.Key)) {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
	if r := n.Call(t, http.MethodGet, "/v1/me", live.Key, nil); r.Status != http.StatusOK {
		t.Fatalf("a forged report revoked a key: %d %s", r.Status, r.Body)
	}
	if reads.Load() != 1 {
		t.Errorf("the keys were read %d times", reads.Load())
	}
	for text, want := range map[string]string{`{"token":"` + live.Key + `"}`: "malformed-json", `[`: "malformed-json", `[{"token":1}]`: "malformed-json"} {
		if r := github.report(t, n, []byte(text), nil); r.Code() != want || bytes.Contains(r.Body, []byte(live.Key)) {
			t.Errorf("%s: %d %s", text, r.Status, r.Body)
		}
	}
	if r := github.report(t, n, bytes.Repeat([]byte(" "), 1<<20+1), nil); r.Code() != "payload-too-large" {
		t.Errorf("a large body: %d %s", r.Status, r.Body)
	}
	if got := labels(t, github.report(t, n, other, nil), "canary-text")["canary-text"]; got != "false_positive" {
		t.Errorf("a signed report: %s", got)
	}
}

// noKeys knows no key of the service.
type noKeys struct{}

func (noKeys) ReportLeak(context.Context, secret.String, apikey.Leak) (bool, error) {
	return false, nil
}

// While the list of keys cannot be read, the keys of the last one stay valid, and reports cause one try a minute.
func TestReportsAreReadWhileTheKeyListIsUnreachable(t *testing.T) {
	t.Parallel()
	github, next := newScanner(t, "current"), newScanner(t, "next")
	var (
		reads   atomic.Int32
		answer  atomic.Pointer[http.HandlerFunc]
		publish = func(f http.HandlerFunc) { answer.Store(&f) }
		broken  = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
		clock   = testenv.NewClock(time.Now())
	)
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads.Add(1)
		(*answer.Load())(w, r)
	}))
	t.Cleanup(source.Close)
	handler := disclosure.New(disclosure.Deps{
		Config: disclosure.Config{ScannerKeys: source.URL}, Keys: noKeys{}, Client: source.Client(), Source: func(*http.Request) string { return "" },
		Log: slog.New(slog.DiscardHandler), Now: clock.Now,
	}).Before(http.NotFoundHandler())
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	expect := func(what string, by *scanner, status int, tries int32) {
		t.Helper()
		if r := by.report(t, &testnode.Node{URL: server.URL}, leaks(t, "x"), nil); r.Status != status || reads.Load() != tries {
			t.Errorf("%s: %d after %d reads, want %d after %d", what, r.Status, reads.Load(), status, tries)
		}
	}

	publish(broken)
	expect("no list", github, http.StatusServiceUnavailable, 1)
	expect("no list, again", github, http.StatusServiceUnavailable, 1)
	clock.Advance(time.Minute)
	publish(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(list(t, github)) })
	expect("a list", github, http.StatusOK, 2)
	expect("a key that is not listed", next, http.StatusUnauthorized, 2)
	clock.Advance(2 * time.Hour)
	publish(broken)
	expect("an old list", github, http.StatusOK, 3)
	expect("an old list, again", github, http.StatusOK, 3)
	expect("a key that may be listed now", next, http.StatusServiceUnavailable, 3)
	clock.Advance(time.Minute)
	expect("an old list, a minute later", github, http.StatusOK, 4)

	// A caller who leaves does not wait for a list that hangs.
	clock.Advance(time.Minute)
	ctx, leave := context.WithCancel(t.Context())
	publish(func(_ http.ResponseWriter, r *http.Request) {
		leave()
		<-r.Context().Done()
	})
	sum := sha256.Sum256(leaks(t, "x"))
	signature, err := ecdsa.SignASN1(rand.Reader, next.key, sum[:])
	must.OK(t, err)
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/secret-scanning/github", bytes.NewReader(leaks(t, "x")))
	r.Header.Set("Github-Public-Key-Identifier", next.id)
	r.Header.Set("Github-Public-Key-Signature", base64.StdEncoding.EncodeToString(signature))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("a caller who left: %d", w.Code)
	}
	source.CloseClientConnections() // ends the try that hangs
	testenv.Await(t, "the end of the try", func() bool {
		publish(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(list(t, next)) })
		clock.Advance(time.Minute)
		return next.report(t, &testnode.Node{URL: server.URL}, leaks(t, "x"), nil).Status == http.StatusOK
	})
	if r := github.report(t, &testnode.Node{URL: server.URL}, leaks(t, "x"), nil); r.Status != http.StatusUnauthorized {
		t.Errorf("a key that is no longer listed: %d %s", r.Status, r.Body)
	}
}
