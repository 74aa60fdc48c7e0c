package connectpages

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/qrcode"
)

// live is what the script needs to follow the attempt.
type live struct {
	Base string
	Now  change
}

// change is a message to the script of a page. If Key differs, the script reloads the page; it applies the rest in
// place.
type change struct {
	Version int64  `json:"version"`
	Key     string `json:"key"`
	Step    int    `json:"step"`
	Seen    bool   `json:"seen"`
	QR      string `json:"qr,omitempty"`
	// Link changes with the platform's address, for pages that link to it.
	Link string `json:"link,omitempty"`
}

// Limits of a stream. It ends before proxies time out; browsers reconnect automatically.
const (
	heartbeatEvery = 10 * time.Second
	streamLife     = 20 * time.Minute
	streamWrite    = 10 * time.Second
	maxStreams     = 5000
)

// liveOf returns nil for an attempt that has ended.
func (v *visit) liveOf(a View) *live {
	if a.State.Final() {
		return nil
	}
	return &live{Base: "/a/" + url.PathEscape(a.Token), Now: v.changeOf(a)}
}

func (v *visit) changeOf(a View) change {
	return change{Version: a.Version, Key: keyOf(a), Step: stepOf(a.Progress), Seen: a.Progress == attempt.Scanned, QR: v.qrOf(a), Link: fingerprint(a.PlatformURL.Reveal())}
}

// fingerprint is a short hash by which the script notices a change of a text.
func fingerprint(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

// keyOf is equal for two views that have the same page. A message that was sent again and a renewed QR code do not
// change it: a reload would discard what the creator is typing.
func keyOf(a View) string {
	return fingerprint(strings.Join(append([]string{
		string(a.State), a.Channel, a.EmailMask, a.PhoneMask, a.Failure, strconv.Itoa(a.SubmissionsLeft),
	}, a.Actions...), "\x00"))
}

// qrOf returns the address of the QR code, which changes with its content; empty if there is nothing to scan.
func (v *visit) qrOf(a View) string {
	if a.PhoneURL == "" || a.State != attempt.AwaitingMobile && a.State != attempt.NeedsFace {
		return ""
	}
	return "/a/" + url.PathEscape(a.Token) + "/qr.svg?v=" + fingerprint(a.PhoneURL)
}

// largestQR is the maximum width of a QR code on the page, in pixels.
const largestQR = 256

func (v *visit) getQR() {
	a, ok := v.findAttempt()
	if !ok {
		return
	}
	if v.qrOf(a) == "" {
		v.notFound()
		return
	}
	code, err := qrcode.New(a.PhoneURL)
	if err != nil {
		v.fail(err)
		return
	}
	v.w.Header().Set("Content-Type", "image/svg+xml")
	_, _ = v.w.Write(code.SVG(largestQR))
}

// pollAttempt returns the state of the attempt, for browsers that cannot open a stream.
func (v *visit) pollAttempt() {
	a, ok := v.findAttempt()
	if !ok {
		return
	}
	v.w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(v.w).Encode(v.changeOf(a))
}

// streamAttempt sends every change until the attempt ends.
func (v *visit) streamAttempt() {
	a, ok := v.findAttempt()
	if !ok {
		return
	}
	defer v.streams.Add(-1)
	if v.streams.Add(1) > maxStreams {
		v.showTooMany()
		return
	}
	control := http.NewResponseController(v.w)
	// The server's read deadline would end the stream.
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		v.fail(err)
		return
	}
	v.w.Header().Set("Content-Type", "text/event-stream")
	v.w.Header().Set("X-Accel-Buffering", "no")
	send := func(text string) bool {
		_ = control.SetWriteDeadline(clock.Now().Add(streamWrite))
		_, err := v.w.Write([]byte(text))
		return err == nil && control.Flush() == nil
	}
	if !send("retry: 2000\n\n" + v.event(a)) {
		return
	}
	for ends := v.deps.Now().Add(streamLife); !a.State.Final() && v.deps.Now().Before(ends) && !v.deps.Draining(); {
		next, err := v.deps.Attempts.Wait(v.r.Context(), a.Token, a.Version, heartbeatEvery)
		text := ": alive\n\n"
		switch {
		case err != nil, next.Org.Suspended:
			return // The browser reconnects and gets the page that explains the error.
		case next.Version != a.Version:
			text = v.event(next)
		}
		a = next
		if !send(text) {
			return
		}
	}
}

// event formats one change for the stream.
func (v *visit) event(a View) string {
	data, err := json.Marshal(v.changeOf(a))
	if err != nil {
		panic(err) // It has only strings and numbers.
	}
	return fmt.Sprintf("event: change\ndata: %s\n\n", data)
}
