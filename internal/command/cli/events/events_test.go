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
)

func place(n int) string { return fmt.Sprintf("%012x.evt_%026d", n, n) }

// A place survives its process, moves on only, and belongs to one process at a time.
func TestAPlaceIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := events.OpenMark(dir, "org_1", "message")
	if err != nil || first.Cursor() != "" {
		t.Fatalf("a new place is %q, %v", first.Cursor(), err)
	}
	for n := range 100 {
		if err := first.Save(place(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Save(place(5)); err != nil {
		t.Fatal(err)
	}
	second, err := events.OpenMark(dir, "org_1", "message")
	if !errors.Is(err, events.ErrTaken) || second.Cursor() != place(99) {
		t.Errorf("while it is taken: %q, %v", second.Cursor(), err)
	}
	if err := second.Save(place(200)); err != nil {
		t.Error(err)
	}
	first.Close()
	for _, other := range []struct{ org, event string }{{"org_2", "message"}, {"org_1", "tips"}} {
		m, err := events.OpenMark(dir, other.org, other.event)
		if err != nil || m.Cursor() != "" {
			t.Errorf("the place of %v is %q, %v", other, m.Cursor(), err)
		}
		m.Close()
	}
	third, err := events.OpenMark(dir, "org_1", "message")
	if err != nil || third.Cursor() != place(99) {
		t.Errorf("after its process: %q, %v", third.Cursor(), err)
	}
	if err := third.Set(place(7)); err != nil { // a service that was restored from a backup says so
		t.Error(err)
	}
	third.Close()
	if m, err := events.OpenMark(dir, "org_1", "message"); err != nil || m.Cursor() != place(7) {
		t.Errorf("set back it is %q, %v", m.Cursor(), err)
	}
}

// A machine that lost power in the middle of a write has the place before.
func TestATornPlaceIsNotBelieved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m, err := events.OpenMark(dir, "org_1")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 2} {
		if err := m.Save(place(n)); err != nil {
			t.Fatal(err)
		}
	}
	m.Close()
	files, err := filepath.Glob(filepath.Join(dir, "listen", "*.mark"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	torn := strings.Replace(string(text), "2 000000000002.evt", "2 000000000009.evt", 1)
	if torn == string(text) {
		t.Fatalf("the file is %q", text)
	}
	if err := os.WriteFile(files[0], []byte(torn), 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := events.OpenMark(dir, "org_1"); err != nil || m.Cursor() != place(1) {
		t.Errorf("it is %q, %v", m.Cursor(), err)
	}
}

// The secret of a machine stays the same, is of one organisation, and is one that every library for Standard Webhooks takes.
func TestTheSecretIsStable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	read := func(org string, rotate bool) string {
		s, err := events.SigningSecret(dir, org, rotate)
		if err != nil {
			t.Fatal(err)
		}
		return s.Reveal()
	}
	first := read("org_1", false)
	if read("org_1", false) != first || read("org_2", false) == first {
		t.Error("it is not the same, or that of another organisation")
	}
	if rotated := read("org_1", true); rotated == first || read("org_1", false) != rotated {
		t.Error("it was not rotated for good")
	}
	encoded, ok := strings.CutPrefix(first, sign.Prefix+"cli/")
	if raw, err := base64.StdEncoding.DecodeString("cli/" + encoded); !ok || err != nil || len(raw) < 24 {
		t.Errorf("%s is no secret of Standard Webhooks: %v", first, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "listen", "org_1.secret")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others can read it: %v, %v", info.Mode(), err)
	}
}

func TestReceiversAreCompleted(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"3000": "http://localhost:3000", ":3000/hooks": "http://localhost:3000/hooks", "localhost:3000/hooks": "http://localhost:3000/hooks",
		"https://example.test/x?y=1": "https://example.test/x?y=1", "ftp://example.test": "", "": "", "http://": "",
	} {
		got, err := events.Receiver(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestRatesAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"": 0, "10/s": 100 * time.Millisecond, "5": 200 * time.Millisecond, "120/m": 500 * time.Millisecond, "1/h": time.Hour} {
		if got, err := events.Pace(text); got != want || err != nil {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"0/s", "-1", "fast", "10/y", "1e9/s"} {
		if got, err := events.Pace(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

func TestFieldsAreRead(t *testing.T) {
	t.Parallel()
	got, err := events.Fields([]string{"text=a=b", "data.amountCents=500", "userId=12", "count:=3"})
	text, _ := json.Marshal(got)
	if err != nil || string(text) != `{"amountCents":500,"count":3,"text":"a=b","userId":"12"}` {
		t.Errorf("%s, %v", text, err)
	}
	for _, set := range []string{"text", "txt=1", "amountCents=much"} {
		if got, err := events.Fields([]string{set}); err == nil {
			t.Errorf("%s is %v", set, got)
		}
	}
}

// A digest tells who, how much and what, and never steers the terminal.
func TestDigests(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{"message":{"text":"Hi\nthere\u001b[2J"},"fromUser":{"name":"Jo"}}`: "Jo · Hi there[2J",
		`{"user":{"username":"jo"},"amountCents":2550}`:                      "jo · $25.50",
		`{"state":"completed_failed","label":"Maya"}`:                        "Maya · completed_failed",
		`{}`: "", `[]`: "",
	} {
		if got := events.Digest(json.RawMessage(data)); got != want {
			t.Errorf("%s is %q, want %q", data, got, want)
		}
	}
}

func TestPlacesAreTold(t *testing.T) {
	t.Parallel()
	for cursor, want := range map[string]string{"0": "at the beginning of the log", "000000000000.": "at the beginning of the log", "0000000010c0.": "where it ended", "0000000010c0.evt_1": "after evt_1"} {
		if got := events.After(cursor); got != want {
			t.Errorf("%s is %q, want %q", cursor, got, want)
		}
	}
}
