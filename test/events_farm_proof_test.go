package test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

const proofSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

// delivery returns a delivery like those of the service. spoil may change its headers.
func delivery(t *testing.T, url, body string, spoil func(http.Header)) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte(body)))
	must.OK(t, err)
	mac := hmac.New(sha256.New, []byte(proofSecret))
	mac.Write([]byte(body))
	r.Header.Set("X-Webhook-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	mac = hmac.New(sha256.New, []byte("0123456789abcdef0123456789abcdef"))
	fmt.Fprintf(mac, "evt_1.1700000000.%s", body)
	r.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	r.Header.Set("Webhook-Id", "evt_1")
	r.Header.Set("Webhook-Timestamp", "1700000000")
	r.Header.Set("X-Webhook-Id", "evt_1")
	r.Header.Set("X-Webhook-Event", "message")
	r.Header.Set("X-Webhook-Sequence", "7")
	if spoil != nil {
		spoil(r.Header)
	}
	return r
}

const (
	ownCanary   = "00112233aabbccdd"
	otherCanary = "ffeeddcc99887766"
)

func proofBody(canary string) string {
	return `{"id":"evt_1","event":"message","accountId":"acct_1","data":{"text":"` + canaryMark + canary + ` hello"},"meta":{"seq":7,"upstreamAt":"2026-01-01T00:00:00.000Z"}}`
}

// The receivers of the chaos tests record wrong signatures and foreign events.
func TestReceiversVerifyDeliveries(t *testing.T) {
	f := newFarm(t)
	for _, c := range []struct {
		name            string
		body            string
		spoil           func(http.Header)
		signed, foreign bool
	}{
		{"good", proofBody(ownCanary), nil, true, false},
		{"another org's", proofBody(otherCanary), nil, true, true},
		{"not JSON", "hello", nil, false, true},
		{"another signature", proofBody(ownCanary), func(h http.Header) { h.Set("X-Webhook-Signature", "sha256=00") }, false, false},
		{"no standard signature", proofBody(ownCanary), func(h http.Header) { h.Del("Webhook-Signature") }, false, false},
		{"another time", proofBody(ownCanary), func(h http.Header) { h.Set("Webhook-Timestamp", "1700000001") }, false, false},
		{"another id", proofBody(ownCanary), func(h http.Header) { h.Set("X-Webhook-Id", "evt_2") }, false, false},
		{"another kind", proofBody(ownCanary), func(h http.Header) { h.Set("X-Webhook-Event", "tips") }, false, false},
		{"another sequence", proofBody(ownCanary), func(h http.Header) { h.Set("X-Webhook-Sequence", "8") }, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := f.inbox(honest, proofSecret, ownCanary)
			res, err := http.DefaultClient.Do(delivery(t, b.url, c.body, c.spoil))
			must.OK(t, err)
			defer res.Body.Close()
			list := b.received()
			if res.StatusCode != http.StatusOK || len(list) != 1 {
				t.Fatalf("%d, %d arrivals", res.StatusCode, len(list))
			}
			if a := list[0]; a.signed != c.signed || a.foreign != c.foreign || c.name == "good" && (a.seq != 7 || a.account != "acct_1" || a.late <= 0) {
				t.Errorf("recorded %+v", a)
			}
		})
	}
}

// The bad receivers of the chaos tests hang, redirect, reset and refuse as intended.
func TestBadReceiversMisbehave(t *testing.T) {
	f := newFarm(t)
	client := &http.Client{
		Timeout: 2 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{},
	}
	for m, want := range map[manner]string{
		hanging: "timeout", slowloris: "timeout", redirector: "302", resetter: "error", refuser: "500", badTLS: "error", big: "200 67108864", honest: "200 0",
	} {
		b := f.inbox(m, proofSecret, ownCanary)
		var got string
		res, err := client.Do(delivery(t, b.url, proofBody(ownCanary), nil))
		var timeout interface{ Timeout() bool }
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
			got = "timeout"
		case err != nil:
			got = "error"
		default:
			size, err := io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			if got = fmt.Sprint(res.StatusCode); err == nil && res.StatusCode == http.StatusOK {
				got += fmt.Sprint(" ", size)
			}
		}
		if got != want {
			t.Errorf("%s: got %s, want %s (%v)", m, got, want, err)
		}
	}
	b := f.inbox(flaky, proofSecret, ownCanary)
	refused := 0
	for range 30 {
		res, err := client.Do(delivery(t, b.url, proofBody(ownCanary), nil))
		must.OK(t, err)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			refused++
		}
	}
	if refused != 1 || len(b.received()) != 29 {
		t.Errorf("a flaky receiver refused %d times and accepted %d, want 1 and 29", refused, len(b.received()))
	}
}

// The ledger that the chaos tests compare with has exactly the frames that a socket delivers.
func TestLedgerHasEveryDurableFrame(t *testing.T) {
	known, err := catalog.Sandbox()
	must.OK(t, err)
	s := &eventsFixture{t: t, scale: scale{perSecond: 500}, catalog: known, platform: sandboxtest.New(t, nil), actions: sandbox.Happenings()}
	for n := range 3 {
		s.creators = append(s.creators, &creator{login: fmt.Sprintf("ok+ledger%d@sandbox.test", n), org: &tenant{canary: ownCanary}})
	}
	var heard [3]map[digest]int
	for n, c := range s.creators {
		heard[n] = map[digest]int{}
		s.markFrame(c)
		socket, err := s.platform.World.Listen(c.login, "proof")
		must.OK(t, err)
		defer socket.Close()
		defer func() {
			for _, frame := range socket.Take() {
				e, err := known.Decode(frame)
				must.OK(t, err)
				if e.Class == catalog.Durable {
					heard[n][content(e.Kind, e.At.Truncate(time.Millisecond), e.Data)]++
				}
			}
			total := 0
			for _, frame := range s.readLedger(c) {
				total++
				if heard[n][frame]--; heard[n][frame] < 0 {
					t.Error("the ledger has a frame that no socket delivered")
				}
			}
			for _, left := range heard[n] {
				if left > 0 {
					t.Error("a socket delivered a frame that is not in the ledger")
				}
			}
			if total < 50 {
				t.Errorf("%d frames, want at least 50", total)
			}
		}()
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	s.generate(ctx, 300).Wait()
}
