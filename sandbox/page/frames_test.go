package page_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

const watched = "ok@sandbox.test"

// event is one server-sent event.
type event struct{ name, id, data string }

// watch opens the stream of frames. The stream is open when watch returns.
func (s *site) watch(last string) func() event {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), "GET", s.url+"/page/frames?login="+watched, nil)
	sandboxtest.OK(s, err)
	r.Header.Set("Last-Event-ID", last)
	res, err := http.DefaultClient.Do(r)
	sandboxtest.OK(s, err)
	s.Cleanup(func() { _ = res.Body.Close() })
	if got := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || got != "text/event-stream" {
		s.Fatalf("%d %s", res.StatusCode, got)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	return func() event {
		s.Helper()
		var e event
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch {
			case lines.Text() == "" && e.name != "":
				return e
			case name == "event":
				e.name = value
			case name == "id":
				e.id = value
			case name == "data":
				e.data = value
			}
		}
		s.Fatalf("the stream ended: %v", lines.Err())
		return e
	}
}

type batch struct {
	Frames []struct {
		ID, Type, Text string
		At             float64
	}
	Skipped int
}

func (s *site) batch(e event) batch {
	s.Helper()
	var b batch
	if e.name != "frames" || json.Unmarshal([]byte(e.data), &b) != nil {
		s.Fatalf("%s: %s", e.name, e.data)
	}
	return b
}

func (s *site) emit(n int, body any) {
	s.Helper()
	err := s.world.Do(watched, func(c *world.Creator) error {
		for range n {
			c.Emit("chat.message", body)
		}
		return nil
	})
	sandboxtest.OK(s, err)
}

func TestFramesComeWithEveryDigitOfTheirIDs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	next := s.watch("")
	s.emit(1, map[string]any{"user": map[string]any{"id": int64(3438267820000000001), "name": "<b>Sam</b>"}})
	e := next()
	b := s.batch(e)
	if len(b.Frames) != 1 || b.Frames[0].Type != "chat.message" || b.Frames[0].ID != e.id || b.Frames[0].At == 0 {
		t.Fatalf("%+v", b)
	}
	if text := b.Frames[0].Text; !strings.Contains(text, "\n  \"body\": {") || !strings.Contains(text, `"id": 3438267820000000001,`) {
		t.Fatal(text)
	}
}

func TestAPageThatComesBackGetsWhatItMissed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	next := s.watch("")
	s.emit(1, "seen")
	last := next().id
	s.emit(3, "missed")
	if b := s.batch(s.watch(last)()); len(b.Frames) != 3 || !strings.Contains(b.Frames[0].Text, "missed") {
		t.Fatalf("%+v", b)
	}
}

func TestABrowserIsSparedAFlood(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	next := s.watch("")
	s.emit(1000, "much")
	first := s.batch(next())
	if len(first.Frames) != 20 || first.Skipped != 980 {
		t.Fatalf("%d frames, %d skipped", len(first.Frames), first.Skipped)
	}
	s.emit(1, "later")
	after := s.batch(next())
	was, _ := strconv.ParseInt(first.Frames[19].ID, 10, 64)
	is, _ := strconv.ParseInt(after.Frames[0].ID, 10, 64)
	if is <= was || after.Skipped != 0 {
		t.Fatalf("%d after %d, %d skipped", is, was, after.Skipped)
	}
}

func TestAStreamSaysWhyItEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	next := s.watch("")
	sandboxtest.OK(t, s.world.Reset())
	if e := next(); e.name != "dropped" || e.data != `"reset"` {
		t.Fatalf("%+v", e)
	}
}

func TestFramesAreForThisMachineOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, one := range []struct {
		from, site, login string
		status            int
	}{
		{"203.0.113.7:4000", "", watched, http.StatusForbidden},
		{"nonsense", "", watched, http.StatusForbidden},
		{"127.0.0.1:4000", "cross-site", watched, http.StatusForbidden},
		{"127.0.0.1:4000", "same-site", watched, http.StatusForbidden},
		{"[::1]:4000", "same-origin", "nobody@example.com", http.StatusUnprocessableEntity},
		{"127.0.0.1:4000", "", "", http.StatusUnprocessableEntity},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/page/frames?login="+one.login, nil)
		r.RemoteAddr = one.from
		r.Host = "127.0.0.1:18200"
		r.Header.Set("Sec-Fetch-Site", one.site)
		w := httptest.NewRecorder()
		s.platform.ServeHTTP(w, r)
		if w.Code != one.status {
			t.Errorf("%+v: %d", one, w.Code)
		}
	}
}
