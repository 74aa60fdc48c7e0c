package connectpages_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/server/connectpages"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

type change struct {
	Version int64
	Key     string
	Step    int
	Seen    bool
	QR      string
	Link    string
}

// follow opens the stream of an attempt. The returned function reads the next change; ok is false at the end.
func (s *fixture) follow(token string) func() (change, bool) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.url+"/a/"+token+"/events", nil)
	must.OK(s, err)
	res, err := http.DefaultClient.Do(r)
	must.OK(s, err)
	s.Cleanup(func() { _ = res.Body.Close() })
	if got := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || got != "text/event-stream" {
		s.Fatalf("%d %s", res.StatusCode, got)
	}
	scanner := bufio.NewScanner(res.Body)
	return func() (change, bool) {
		s.Helper()
		var c change
		for scanner.Scan() {
			if data, ok := strings.CutPrefix(scanner.Text(), "data: "); ok {
				must.OK(s, json.Unmarshal([]byte(data), &c))
				return c, true
			}
		}
		return c, false
	}
}

func TestAStreamSendsEveryChangeUntilTheEnd(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	path, token := s.startSession("sms@sandbox.test")
	view := s.do(token, func(*fakeAttempt) {})
	page := s.get(path)
	next := s.follow(view.Token)
	first, _ := next()
	if first.Version != view.Version || first.Step != 1 || !strings.Contains(page.body, `data-key="`+first.Key+`"`) {
		t.Fatalf("%+v", first)
	}
	s.do(token, func(st *fakeAttempt) { s.set(st, func(v *connectpages.View) { v.Progress = attempt.SigningIn }) })
	if moved, _ := next(); moved.Key != first.Key || moved.Step != 2 {
		t.Errorf("progress reloads the page: %+v", moved)
	}
	s.do(token, s.next)
	asked, _ := next()
	if asked.Key == first.Key {
		t.Errorf("a challenge does not reload the page: %+v", asked)
	}
	s.post(path, "do", "switch", "channel", "email")
	sms, _ := next()
	s.post(path, "do", "email")
	sent, _ := next()
	if sms.Key == asked.Key || sent.Key == sms.Key {
		t.Errorf("%+v, %+v", sms, sent)
	}
	s.do(token, func(st *fakeAttempt) { s.set(st, func(v *connectpages.View) { v.ResendAt = s.clock.now() }) })
	if resent, _ := next(); resent.Key != sent.Key {
		t.Errorf("resending a message reloads the page: %+v", resent)
	}
	s.do(token, s.succeed)
	if done, ok := next(); !ok || done.Key == sent.Key {
		t.Errorf("%+v", done)
	}
	if more, ok := next(); ok {
		t.Errorf("after the end: %+v", more)
	}
	if strings.Contains(s.get(path).body, "data-live") {
		t.Error("the last page still follows the attempt")
	}
}

func TestTheStateCanBePolled(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	_, token := s.startSession("ok@sandbox.test")
	view := s.do(token, func(st *fakeAttempt) { s.scan(st) })
	response := s.get("/a/" + view.Token + "/state")
	var got change
	if err := json.Unmarshal([]byte(response.body), &got); err != nil || got.Version != view.Version || !strings.HasPrefix(got.QR, "/a/"+view.Token+"/qr.svg?v=") {
		t.Errorf("%s, %v", response.body, err)
	}
	for _, hidden := range []string{"platform.example", "sandbox.test", "Northlight"} {
		if strings.Contains(response.body, hidden) {
			t.Errorf("%s contains %s", response.body, hidden)
		}
	}
}

func TestARenewedQRCodeDoesNotReloadThePage(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	_, token := s.startSession("ok@sandbox.test")
	view := s.do(token, func(st *fakeAttempt) { s.scan(st) })
	next := s.follow(view.Token)
	before, _ := next()
	s.do(token, func(st *fakeAttempt) {
		s.set(st, func(v *connectpages.View) {
			v.PhoneURL, v.PlatformURL = v.PhoneURL+"2", secret.New("https://platform.example/qr/2")
		})
	})
	after, _ := next()
	if after.Key != before.Key || after.QR == before.QR || after.Link == before.Link {
		t.Errorf("%+v, then %+v", before, after)
	}
}

func TestManyScreensFollowOneAttempt(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	_, token := s.startSession("ok@sandbox.test")
	view := s.do(token, func(*fakeAttempt) {})
	screens := make([]func() (change, bool), 10)
	for i := range screens {
		screens[i] = s.follow(view.Token)
		screens[i]()
	}
	s.do(token, s.succeed)
	for i, next := range screens {
		if _, ok := next(); !ok {
			t.Errorf("screen %d got no change", i)
		}
	}
}
