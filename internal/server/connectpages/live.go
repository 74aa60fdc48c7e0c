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
	"github.com/stagedoor/stagedoor/internal/base/qrcode"
)

// live is how a page follows its attempt.
type live struct {
	Base string
	Now  change
}

// change is what the script of a page is told. With another key there is another page to show; the rest it changes in place.
type change struct {
	Version int64  `json:"version"`
	Key     string `json:"key"`
	Step    int    `json:"step"`
	Seen    bool   `json:"seen"`
	QR      string `json:"qr,omitempty"`
	// Link changes with the platform's own address, for the pages that lead there.
	Link string `json:"link,omitempty"`
}

// Times of a stream. It ends before proxies grow suspicious of it; browsers come back by themselves.
const (
	beat        = 10 * time.Second
	streamLife  = 20 * time.Minute
	streamWrite = 10 * time.Second
	maxStreams  = 5000
)

// liveOf is nil for an attempt that has ended.
func (v *visit) liveOf(a View) *live {
	if a.State.Final() {
		return nil
	}
	return &live{Base: "/a/" + url.PathEscape(a.Token), Now: v.changeOf(a)}
}

func (v *visit) changeOf(a View) change {
	return change{Version: a.Version, Key: keyOf(a), Step: stepOf(a.Progress), Seen: a.Progress == attempt.Scanned, QR: v.qrOf(a), Link: short(a.PlatformURL.Reveal())}
}

// short stands for a text that may change.
func short(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

// keyOf is equal for two views that have the same page. A message sent anew and a QR that turned over are not another page: they must
// not take away what the creator is typing or reading.
func keyOf(a View) string {
	return short(strings.Join(append([]string{
		string(a.State), a.Channel, a.EmailMask, a.PhoneMask, a.Failure, strconv.Itoa(a.SubmissionsLeft),
	}, a.Actions...), "\x00"))
}

// qrOf is the address of the picture, which changes with what it shows; empty if nothing is to be scanned.
func (v *visit) qrOf(a View) string {
	if a.PhoneURL == "" || a.State != attempt.AwaitingMobile && a.State != attempt.NeedsFace {
		return ""
	}
	return "/a/" + url.PathEscape(a.Token) + "/qr.svg?v=" + short(a.PhoneURL)
}

// largestQR is how wide a code may be on the page, in pixels.
const largestQR = 256

func (v *visit) getQR() {
	a, ok := v.findAttempt()
	if !ok {
		return
	}
	if v.qrOf(a) == "" {
		v.gone()
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

// pollAttempt tells how the attempt stands, for browsers whose stream does not get through.
func (v *visit) pollAttempt() {
	a, ok := v.findAttempt()
	if !ok {
		return
	}
	v.w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(v.w).Encode(v.changeOf(a))
}

// streamAttempt tells every change as it happens, until the attempt ends.
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
	// A deadline for reading the request would end the stream with it.
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		v.fail(err)
		return
	}
	v.w.Header().Set("Content-Type", "text/event-stream")
	v.w.Header().Set("X-Accel-Buffering", "no")
	send := func(text string) bool {
		_ = control.SetWriteDeadline(v.Now().Add(streamWrite))
		_, err := v.w.Write([]byte(text))
		return err == nil && control.Flush() == nil
	}
	if !send("retry: 2000\n\n" + v.event(a)) {
		return
	}
	for ends := v.Now().Add(streamLife); !a.State.Final() && v.Now().Before(ends) && !v.Draining(); {
		next, err := v.Attempts.Wait(v.r.Context(), a.Token, a.Version, beat)
		text := ": alive\n\n"
		switch {
		case err != nil, next.Org.Suspended:
			return // the browser asks again, and gets the page that says what is wrong
		case next.Version != a.Version:
			text = v.event(next)
		}
		a = next
		if !send(text) {
			return
		}
	}
}

// event is one change as the stream has it.
func (v *visit) event(a View) string {
	data, err := json.Marshal(v.changeOf(a))
	if err != nil {
		panic(err) // it holds texts and numbers only
	}
	return fmt.Sprintf("event: change\ndata: %s\n\n", data)
}
