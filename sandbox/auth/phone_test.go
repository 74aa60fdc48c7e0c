package auth_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/auth"
	"github.com/stagedoor/stagedoor/sandbox/gate"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
	"github.com/stagedoor/stagedoor/sandbox/store"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

func newAuth(t *testing.T) *auth.Auth {
	t.Helper()
	kept, err := store.Open(filepath.Join(t.TempDir(), "auth.db"))
	sandboxtest.OK(t, err)
	t.Cleanup(func() { _ = kept.Close() })
	log := slog.New(slog.DiscardHandler)
	w, err := world.New(world.Deps{Store: kept, Log: log, Now: time.Now, Origin: "http://sandbox.test", Tick: nil, Loaded: 10})
	sandboxtest.OK(t, err)
	return &auth.Auth{World: w, Gate: gate.New(gate.Deps{World: w, Log: log, Regions: nil, PerMinute: 0, Now: time.Now})}
}

// token opens a QR sign-in and returns the token of its URL.
func token(t *testing.T, a *auth.Auth) string {
	t.Helper()
	mux := http.NewServeMux()
	a.Mount(mux, "")
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/auth/qr", nil)
	r.Header.Set("X-Device", "device")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	var answer struct {
		QR struct {
			URL string `json:"url"`
		} `json:"qr"`
	}
	sandboxtest.OK(t, json.Unmarshal(w.Body.Bytes(), &answer))
	return strings.TrimPrefix(answer.QR.URL, "http://sandbox.test/qr/")
}

func TestAnAddressIsGoodForThisTurnAndTheNext(t *testing.T) {
	t.Parallel()
	a := newAuth(t)
	first := token(t, a)
	id, ending, _ := strings.Cut(first, ".")
	at := func(turn int) string { return fmt.Sprintf("%s.%d%s", id, turn, ending[1:]) }
	for _, minute := range []struct {
		now   int
		stale map[int]bool // by turn
	}{
		{0, map[int]bool{0: false, 1: true}},
		{1, map[int]bool{0: false, 1: false, 2: true}},
		{2, map[int]bool{0: true, 1: false, 2: false}},
	} {
		for turn, stale := range minute.stale {
			asked, err := a.Asked(at(turn))
			if err != nil || asked.Stale != stale || asked.Status != "pending" {
				t.Errorf("minute %d, turn %d: stale %v, %s, %v", minute.now, turn, asked.Stale, asked.Status, err)
			}
		}
		sandboxtest.OK(t, a.World.Advance(time.Minute))
	}
}

func TestTheScannedAddressStaysGood(t *testing.T) {
	t.Parallel()
	a := newAuth(t)
	mine := token(t, a)
	if asked, err := a.Scan(mine); err != nil || asked.Status != "scanned" {
		t.Fatal(asked.Status, err)
	}
	sandboxtest.OK(t, a.World.Advance(4*time.Minute))
	if asked, err := a.Asked(mine); err != nil || asked.Stale {
		t.Fatal("the URL that was scanned has become stale: ", err)
	}
	other := strings.Replace(mine, ".0", ".1", 1)
	if asked, err := a.Scan(other); err != nil || !asked.Stale {
		t.Fatal("an old URL that was not scanned is still valid: ", err)
	}
}

func TestAnApprovalWithoutALoginIsTheProposedOne(t *testing.T) {
	t.Parallel()
	a := newAuth(t)
	asked, err := a.Asked(token(t, a))
	sandboxtest.OK(t, err)
	answered, err := a.AnswerQR(asked.ID, "approve", "")
	if err != nil || answered.Login != asked.Proposed() || answered.Login != strings.ToLower(answered.Login) {
		t.Fatal(answered.Login, err)
	}
	if asked, err = a.Asked(asked.URL[strings.LastIndex(asked.URL, "/")+1:]); err != nil || asked.Waits() {
		t.Fatal("the answered sign-in can still be answered: ", err)
	}
}

func TestOnlyASelfieIsFoundAsOne(t *testing.T) {
	t.Parallel()
	a := newAuth(t)
	if _, err := a.FindSelfie("none"); err == nil {
		t.Error("found a selfie check that does not exist")
	}
}
