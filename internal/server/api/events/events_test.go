package events_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/stream"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// A stream starts with ready, then sends events in the bytes of the store. With a last event id it continues after that
// event.
func TestStreamsOfAnAccount(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	r.Add(r.org("mine"), string(r.mine), true, "message", "tips")
	s, ready := r.open(t, path(r.mine), "mine")
	want := fmt.Sprintf(`{"accountId":"%s","cursor":"00000000000002","resumed":false,"gap":false,"oldest":"00000000000001"}`, r.mine)
	if ready != (seen{"", "ready", want}) {
		t.Errorf("%+v", ready)
	}
	if h := s.Header; h.Get("Content-Type") != "text/event-stream" || h.Get("X-Accel-Buffering") != "no" || h.Get("Cache-Control") != "no-store" || h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%v", h)
	}
	made := r.Add(r.org("mine"), string(r.mine), true, "message")
	if got := s.next(t); got != (seen{"00000000000003", "message", string(made[0].Body)}) {
		t.Errorf("%+v", got)
	}
	r.Tell(event.Stored{Org: r.org("mine"), Source: string(r.mine), Kind: "typing", ID: id.New[id.Event](), Body: []byte(`{"a":1}`)})
	if got := s.next(t); got != (seen{"", "typing", `{"a":1}`}) {
		t.Errorf("%+v", got)
	}
	s.close()
	// The header takes precedence: an EventSource keeps the address of its first connection.
	s, ready = r.open(t, path(r.mine)+"?last_event_id=1", "mine", "Last-Event-ID", "00000000000002")
	if got := s.next(t); !strings.Contains(ready.data, `"cursor":"00000000000002","resumed":true`) || got.id != "00000000000003" {
		t.Errorf("%+v %+v", ready, got)
	}
	s, _ = r.open(t, path(r.mine)+"?last_event_id=0&events=message,account.*&events=!account.paused", "mine")
	r.Add(r.org("mine"), string(r.mine), true, "tips", "account.paused", "account.resumed")
	if got := s.names(t, 3); !same(got, "message", "message", "account.resumed") {
		t.Error(got)
	}
}

// The stream of an org has the events of all its accounts and its own, never those of another org. A limited key sees
// only its accounts.
func TestStreamsOfAnOrg(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	all, ready := r.open(t, "/v1/events", "mine")
	if strings.Contains(ready.data, "accountId") || strings.Contains(ready.data, "oldest") {
		t.Errorf("%+v", ready)
	}
	limited, _ := r.open(t, "/v1/events", "limited")
	r.Add(r.org("theirs"), string(r.theirs), true, "message")
	r.Add(r.org("mine"), string(r.org("mine")), true, "key.created")
	r.Add(r.org("mine"), string(id.New[id.Account]()), true, "tips")
	r.Add(r.org("mine"), string(r.mine), true, "message")
	var last string
	for _, want := range []string{"key.created", "tips", "message"} {
		got := all.next(t)
		if got.name != want || got.id == "" {
			t.Errorf("%+v", got)
		}
		if want == "key.created" {
			last = got.id
		}
	}
	if got := limited.next(t); got.name != "message" {
		t.Errorf("%+v", got)
	}
	resumed, ready := r.open(t, "/v1/events", "mine", "Last-Event-ID", last)
	if got := resumed.names(t, 2); !same(got, "tips", "message") || !strings.Contains(ready.data, `"resumed":true,"gap":false`) {
		t.Error(got, ready)
	}
	if page := r.pull(t, "/v1/events", "limited"); len(page.Events) != 1 || page.Events[0].Event != "message" {
		t.Errorf("%+v", page)
	}
}

// The disconnection of an account is the last event of its stream.
func TestStreamsEndWithTheirAccount(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	s, _ := r.open(t, path(r.mine)+"?events=message", "mine")
	whole, _ := r.open(t, path(r.mine), "mine")
	r.Add(r.org("mine"), string(r.mine), true, "message", "account.disconnected")
	if got := s.names(t, 3); !same(got, "message", "problem", "") {
		t.Error(got)
	}
	if got := whole.names(t, 2); !same(got, "message", "account.disconnected") {
		t.Error(got)
	}
	if got := whole.next(t); got.name != "problem" || !strings.Contains(got.data, `"code":"account-not-found"`) {
		t.Errorf("%+v", got)
	}
}

// The streams of a key are limited per account and per org. Closing one makes room for another.
func TestStreamsAreLimited(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	for target, reason := range map[string]string{path(r.mine): "account_streams", "/v1/events": "org_streams"} {
		var open []*source
		for range 3 {
			s, _ := r.open(t, target, "mine")
			open = append(open, s)
		}
		got := r.call(t, http.MethodGet, target, "mine")
		if got.status != http.StatusTooManyRequests || !strings.Contains(got.body, `"reason":"`+reason+`"`) || got.header.Get("Retry-After") == "" {
			t.Errorf("%+v", got)
		}
		r.open(t, target, "limited") // Another key has its own limit.
		open[0].close()
		for deadline := time.Now().Add(time.Minute); ; {
			res, leave := r.send(t, http.MethodGet, target, "mine")
			_ = res.Body.Close()
			if leave(); res.StatusCode == http.StatusOK {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the closed stream still counts")
			}
		}
	}
}

// Pages are oldest first, continue after their cursor, and wait if there is no event.
func TestPulls(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	made := r.Add(r.org("mine"), string(r.mine), true, "message", "tips", "message", "tips", "message")
	page := r.pull(t, path(r.mine)+"?limit=2", "mine")
	if len(page.Events) != 2 || page.Events[0].ID != string(made[0].ID) || page.NextCursor != "00000000000002" || page.Gap {
		t.Errorf("%+v", page)
	}
	page = r.pull(t, path(r.mine)+"?events=message&after="+page.NextCursor, "mine")
	if len(page.Events) != 2 || page.Events[1].ID != string(made[4].ID) || page.NextCursor != "00000000000005" {
		t.Errorf("%+v", page)
	}
	if page = r.pull(t, path(r.mine)+"?after="+page.NextCursor, "mine"); page.Events == nil || len(page.Events) != 0 || page.NextCursor != "00000000000005" {
		t.Errorf("%+v", page)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if page := r.pull(t, path(r.mine)+"?wait=25&events=message&after=5", "mine"); len(page.Events) != 1 || page.NextCursor != "00000000000007" {
			t.Errorf("%+v", page)
		}
	}()
	r.Add(r.org("mine"), string(r.mine), true, "tips")
	r.Add(r.org("mine"), string(r.mine), true, "message")
	<-done
	if page := r.pull(t, path(r.mine)+"?wait=1&after=7", "mine"); len(page.Events) != 0 {
		t.Errorf("%+v", page)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streamed != 5 {
		t.Errorf("%d events were counted", r.streamed)
	}
}

// An event is found by its id, if the caller may see the account.
func TestSingleEvents(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	made := r.Add(r.org("mine"), string(r.mine), true, "message")
	got := r.call(t, http.MethodGet, path(r.mine)+"/"+string(made[0].ID), "mine")
	if want := `{"event":` + string(made[0].Body) + "}\n"; got.status != http.StatusOK || got.body != want {
		t.Errorf("%+v", got)
	}
	for target, code := range map[string]string{
		path(r.mine) + "/" + string(id.New[id.Event]()): "event-not-found", path(r.mine) + "/x": "event-not-found",
		path(r.theirs) + "/" + string(made[0].ID): "account-not-found",
	} {
		if got := r.call(t, http.MethodGet, target, "mine"); got.status != http.StatusNotFound || !strings.Contains(got.body, `"code":"`+code+`"`) {
			t.Errorf("%s: %+v", target, got)
		}
	}
	r.Lock()
	r.Events[0].At = time.Now().AddDate(0, 0, -8)
	r.Unlock()
	if got := r.call(t, http.MethodGet, path(r.mine)+"/"+string(made[0].ID), "mine"); got.status != http.StatusNotFound {
		t.Errorf("%+v", got)
	}
}

// The problem of an invalid request points at the invalid part.
func TestInvalidRequestsPointAtTheError(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	for target, want := range map[string]string{
		path(r.theirs):                                             "404 account-not-found",
		"/v1/accounts/x/events":                                    "404 account-not-found",
		path(r.mine) + "?last_event_id=x":                          "400 invalid-request query/last_event_id",
		path(r.mine) + "?last_event_id=" + "000000000005.":         "400 invalid-request query/last_event_id",
		"/v1/events?last_event_id=00000000000002":                  "400 invalid-request query/last_event_id",
		path(r.mine) + "?events=cows":                              "422 unknown-event query/events/0",
		path(r.mine) + "?events=message,!cow":                      "422 unknown-event query/events/1",
		path(r.mine) + "?events=" + strings.Repeat("message,", 65): "400 invalid-request query/events",
		path(r.mine) + "?limit=101":                                "400 invalid-request query/limit",
		path(r.mine) + "?wait=26":                                  "400 invalid-request query/wait",
		path(r.mine) + "?kinds=x":                                  "400 invalid-request query/kinds",
	} {
		got := r.call(t, http.MethodGet, target, "mine")
		var p struct {
			Code   string
			Errors []struct{ Pointer string }
		}
		if err := json.Unmarshal([]byte(got.body), &p); err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		found := fmt.Sprint(got.status, " ", p.Code)
		if len(p.Errors) > 0 {
			found += " " + p.Errors[0].Pointer
		}
		if found != want {
			t.Errorf("%s: %s", target, got.body)
		}
	}
	got := r.call(t, http.MethodGet, path(r.mine)+"?after=x", "mine", "Accept", "application/json")
	if got.status != http.StatusBadRequest || !strings.Contains(got.body, "query/after") {
		t.Errorf("%+v", got)
	}
}

// A token opens one stream from any page, with the rights of the key that created it and only for its account.
func TestBrowsersOpenStreamsWithTokens(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	r := newFixture(t, func(_ *fixture, d *stream.Deps) { d.DB = db })
	for _, key := range []string{"mine", "theirs"} {
		_, err := db.Pool().Exec(t.Context(), `INSERT INTO org (id, name, plan, environment, contact_email, created_at, updated_at) VALUES ($1, 'T', 'scale', 'sandbox', 'a@b.c', now(), now())`, r.org(key))
		must.OK(t, err)
	}
	mint := func() string {
		t.Helper()
		got := r.call(t, http.MethodPost, path(r.mine)+"/token", "mine")
		var made struct {
			Token     string
			ExpiresAt time.Time
		}
		if err := json.Unmarshal([]byte(got.body), &made); err != nil || got.status != http.StatusCreated || time.Until(made.ExpiresAt) > time.Minute {
			t.Fatalf("%+v", got)
		}
		return made.Token
	}
	token := mint()
	s, ready := r.open(t, path(r.mine)+"?token="+token, "")
	if ready.name != "ready" || s.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%+v %v", ready, s.Header)
	}
	r.Add(r.org("mine"), string(r.mine), true, "message")
	if got := s.next(t); got.name != "message" {
		t.Errorf("%+v", got)
	}
	for _, target := range []string{path(r.mine) + "?token=" + token, path(r.theirs) + "?token=" + mint(), path(r.mine) + "?token=x"} {
		got := r.call(t, http.MethodGet, target, "")
		if got.status != http.StatusUnauthorized || !strings.Contains(got.body, `"code":"key-invalid"`) || got.header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %+v", target, got)
		}
	}
	// Nothing else takes a token.
	for _, target := range []string{"/v1/events?token=" + mint(), path(r.mine) + "/" + string(id.New[id.Event]()) + "?token=" + mint()} {
		if got := r.call(t, http.MethodGet, target, ""); got.status != http.StatusUnauthorized || got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %+v", target, got)
		}
	}
	// A token works for a pull too, and the page that sent it can read the response.
	got := r.call(t, http.MethodGet, path(r.mine)+"?token="+mint(), "", "Accept", "application/json")
	if got.status != http.StatusOK || !strings.Contains(got.body, `"events":[{`) {
		t.Errorf("%+v", got)
	}
	// Tokens of a revoked key do not work.
	token = mint()
	delete(r.keys, "mine")
	if got := r.call(t, http.MethodGet, path(r.mine)+"?token="+token, ""); got.status != http.StatusUnauthorized || !strings.Contains(got.body, "key-revoked") {
		t.Errorf("%+v", got)
	}
}

// A preflight says what a browser may send with a token, and allows nothing without one.
func TestPreflights(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	with := r.call(t, http.MethodOptions, path(r.mine)+"?token=x", "", "Origin", "https://a.test", "Access-Control-Request-Method", "GET")
	if with.status != http.StatusNoContent || with.header.Get("Access-Control-Allow-Origin") != "*" || !slices.Contains(strings.Split(with.header.Get("Access-Control-Allow-Headers"), ", "), "Last-Event-ID") {
		t.Errorf("%+v", with)
	}
	without := r.call(t, http.MethodOptions, path(r.mine), "", "Origin", "https://a.test")
	if without.status != http.StatusNoContent || without.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%+v", without)
	}
}
