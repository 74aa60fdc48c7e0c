package events_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/command/cli/events"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/sign"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

func cursor(n int) string { return fmt.Sprintf("%012x.evt_%026d", n, n) }

// TestCheckpoint checks that a checkpoint survives its process, only moves forward, and belongs to one
// process at a time.
func TestCheckpoint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := events.OpenCheckpoint(dir, "org_1", "message")
	if err != nil || first.Cursor() != "" {
		t.Fatalf("new checkpoint: %q, %v", first.Cursor(), err)
	}
	for n := range 100 {
		must.OK(t, first.Advance(cursor(n)))
	}
	must.OK(t, first.Advance(cursor(5)))
	second, err := events.OpenCheckpoint(dir, "org_1", "message")
	if !errors.Is(err, events.ErrTaken) || second.Cursor() != cursor(99) {
		t.Errorf("while another process holds it: %q, %v", second.Cursor(), err)
	}
	if err := second.Advance(cursor(200)); err != nil {
		t.Error(err)
	}
	first.Close()
	for _, other := range []struct{ org, event string }{{"org_2", "message"}, {"org_1", "tips"}} {
		m, err := events.OpenCheckpoint(dir, other.org, other.event)
		if err != nil || m.Cursor() != "" {
			t.Errorf("checkpoint of %v: %q, %v", other, m.Cursor(), err)
		}
		m.Close()
	}
	third, err := events.OpenCheckpoint(dir, "org_1", "message")
	if err != nil || third.Cursor() != cursor(99) {
		t.Errorf("after the first process: %q, %v", third.Cursor(), err)
	}
	if err := third.Set(cursor(7)); err != nil { // as after the service was restored from a backup
		t.Error(err)
	}
	third.Close()
	if m, err := events.OpenCheckpoint(dir, "org_1", "message"); err != nil || m.Cursor() != cursor(7) {
		t.Errorf("after it was set back: %q, %v", m.Cursor(), err)
	}
}

// TestTornCheckpointFallsBackToPrevious simulates a loss of power during a write.
func TestTornCheckpointFallsBackToPrevious(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m, err := events.OpenCheckpoint(dir, "org_1")
	must.OK(t, err)
	for _, n := range []int{1, 2} {
		must.OK(t, m.Advance(cursor(n)))
	}
	m.Close()
	files, err := filepath.Glob(filepath.Join(dir, "listen", "*.mark"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	must.OK(t, err)
	torn := strings.Replace(string(text), "2 000000000002.evt", "2 000000000009.evt", 1)
	if torn == string(text) {
		t.Fatalf("unexpected file: %q", text)
	}
	must.OK(t, os.WriteFile(files[0], []byte(torn), 0o600))
	if m, err := events.OpenCheckpoint(dir, "org_1"); err != nil || m.Cursor() != cursor(1) {
		t.Errorf("got %q, %v", m.Cursor(), err)
	}
}

// TestSigningSecretIsStable also checks that each organisation has its own secret, and that it is
// valid for Standard Webhooks.
func TestSigningSecretIsStable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	read := func(org string, rotate bool) string {
		s, err := events.SigningSecret(dir, org, rotate)
		must.OK(t, err)
		return s.Reveal()
	}
	first := read("org_1", false)
	if read("org_1", false) != first || read("org_2", false) == first {
		t.Error("the secret changed, or two organisations share it")
	}
	if rotated := read("org_1", true); rotated == first || read("org_1", false) != rotated {
		t.Error("the secret was not rotated permanently")
	}
	encoded, ok := strings.CutPrefix(first, sign.Prefix+"cli/")
	if raw, err := base64.StdEncoding.DecodeString("cli/" + encoded); !ok || err != nil || len(raw) < 24 {
		t.Errorf("%s is not a Standard Webhooks secret: %v", first, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "listen", "org_1.secret")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("other users can read the secret: %v, %v", info.Mode(), err)
	}
}

func TestReceiverURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"3000": "http://localhost:3000", ":3000/hooks": "http://localhost:3000/hooks", "localhost:3000/hooks": "http://localhost:3000/hooks",
		"https://example.test/x?y=1": "https://example.test/x?y=1", "ftp://example.test": "", "": "", "http://": "",
	} {
		got, err := events.ReceiverURL(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestParseRate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"": 0, "10/s": 100 * time.Millisecond, "5": 200 * time.Millisecond, "120/m": 500 * time.Millisecond, "1/h": time.Hour} {
		if got, err := events.ParseRate(text); got != want || err != nil {
			t.Errorf("%q: got %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"0/s", "-1", "fast", "10/y", "1e9/s"} {
		if got, err := events.ParseRate(text); err == nil {
			t.Errorf("%q: got %s, want an error", text, got)
		}
	}
}

func TestParseFields(t *testing.T) {
	t.Parallel()
	got, err := events.ParseFields([]string{"text=a=b", "data.amountCents=500", "userId=12", "count:=3"})
	text, _ := json.Marshal(got)
	if err != nil || string(text) != `{"amountCents":500,"count":3,"text":"a=b","userId":"12"}` {
		t.Errorf("got %s, %v", text, err)
	}
	for _, set := range []string{"text", "txt=1", "amountCents=much"} {
		if got, err := events.ParseFields([]string{set}); err == nil {
			t.Errorf("%s: got %v, want an error", set, got)
		}
	}
}

// TestDigest also checks that control characters do not reach the terminal.
func TestDigest(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{"message":{"text":"Hi\nthere\u001b[2J"},"fromUser":{"name":"Jo"}}`: "Jo · Hi there[2J",
		`{"user":{"username":"jo"},"amountCents":2550}`:                      "jo · $25.50",
		`{"state":"completed_failed","label":"Maya"}`:                        "Maya · completed_failed",
		`{}`: "", `[]`: "",
	} {
		if got := events.Digest(json.RawMessage(data)); got != want {
			t.Errorf("%s: got %q, want %q", data, got, want)
		}
	}
}

func TestDescribePosition(t *testing.T) {
	t.Parallel()
	for cursor, want := range map[string]string{
		"0": "at the beginning of the log", "000000000000.": "at the beginning of the log",
		"0000000010c0.": "at the last position", "0000000010c0.evt_1": "after evt_1",
	} {
		if got := events.DescribePosition(cursor); got != want {
			t.Errorf("%s: got %q, want %q", cursor, got, want)
		}
	}
}
