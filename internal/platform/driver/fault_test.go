package driver_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/driver/drivertest"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// injectFault makes the sandbox fail for one login. A count of 0 means always.
func (r *fixture) injectFault(login, kind string, value, count int) {
	r.t.Helper()
	r.control("POST", "faults", map[string]any{"scope": login, "kind": kind, "value": value, "count": count})
}

func TestPlatformFaultsMapToProblems(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for name, test := range map[string]struct {
		kind    string
		value   int
		refused catalog.RefusalKind
		problem problem.Kind
	}{
		"rate limit":        {"rate_limit", 7, catalog.RefusedRateLimited, problem.UpstreamRateLimited},
		"error 500":         {"error", 500, catalog.RefusedError, problem.UpstreamError},
		"error 503":         {"error", 503, catalog.RefusedUnavailable, problem.UpstreamUnavailable},
		"broken JSON":       {"garbage", 0, "", problem.UpstreamInvalidResponse},
		"HTML":              {"garbage", 1, "", problem.UpstreamInvalidResponse},
		"an endless answer": {"garbage", 2, "", problem.UpstreamInvalidResponse},
		"a deep answer":     {"garbage", 3, "", problem.UpstreamInvalidResponse},
		"a bomb":            {"garbage", 4, "", problem.UpstreamInvalidResponse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := r.forTest(t)
			login := r.login("ok")
			s := r.session(login)
			r.injectFault(login, test.kind, test.value, 1)
			_, err := r.call(s, "me.get", "{}")
			if test.refused != "" {
				wantRefusal(t, err, test.refused)
				refused, _ := errors.AsType[*driver.Refused](err)
				err = refused.Problem(drivertest.Method(t, r.catalog, "me.get"))
				if test.kind == "rate_limit" && (refused.RetryAfter != 7*time.Second || problem.Of(err).RetryAfter != 7) {
					t.Errorf("retry after %s", refused.RetryAfter)
				}
			}
			if got := problem.Of(err); got.Kind.Code != test.problem.Code {
				t.Fatalf("want %s, got %v", test.problem.Code, err)
			}
			if _, err := r.call(s, "me.get", "{}"); err != nil {
				t.Fatalf("after the fault: %v", err)
			}
		})
	}
}

// callBriefly calls a method with a timeout of one second.
func (r *fixture) callBriefly(s driver.Session, name, args string) error {
	r.t.Helper()
	m := *drivertest.Method(r.t, r.catalog, name)
	m.Timeout = time.Second
	parsed, err := m.FromObject([]byte(args), false)
	must.OK(r.t, err)
	_, err = r.driver.Call(r.t.Context(), via("us"), s, &m, parsed)
	return err
}

func TestHangingPlatformTimesOutAndWritesHaveUnknownOutcome(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	login := r.login("ok")
	s := r.session(login)
	for name, test := range map[string]struct {
		args      string
		outcome   bool
		retryable bool
	}{
		"me.get":       {"{}", false, true},
		"lists.create": {`{"name":"Maybe"}`, true, false},
		"lists.rename": {`{"listId":"1","name":"Maybe"}`, true, false}, // although it is idempotent
	} {
		r.injectFault(login, "hang", 0, 1)
		err := r.callBriefly(s, name, test.args)
		got := problem.Of(err)
		document, failed := got.Document(problem.Place{})
		if failed != nil || got.Kind.Code != problem.UpstreamTimeout.Code {
			t.Fatalf("%s: %v", name, err)
		}
		if has := contains(document, `"outcome":"unknown"`); has != test.outcome {
			t.Errorf("%s: %s", name, document)
		}
		if has := contains(document, `"retryable":true`); has != test.retryable {
			t.Errorf("%s: %s", name, document)
		}
	}
}

func TestLatencyIsMeasured(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	login := r.login("ok")
	s := r.session(login)
	r.injectFault(login, "latency", 150, 0)
	a, err := r.call(s, "me.get", "{}")
	if err != nil || a.Took < 150*time.Millisecond {
		t.Fatalf("took %s, %v", a.Took, err)
	}
}

func (r *fixture) listen(s driver.Session) *driver.Socket {
	r.t.Helper()
	socket, err := r.driver.Listen(r.t.Context(), via("us"), s)
	must.OK(r.t, err)
	r.t.Cleanup(socket.Close)
	return socket
}

func TestDuplicateAndReorderedFramesAreRecognisable(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for kind, check := range map[string]func(ids []string) bool{
		"duplicate": func(ids []string) bool { return ids[0] == ids[1] },
		"reorder":   func(ids []string) bool { return ids[0] > ids[1] },
	} {
		login := r.login("ok")
		s := r.session(login)
		socket := r.listen(s)
		r.injectFault(login, kind, 0, 1)
		for range 2 {
			if _, err := r.call(s, "lists.create", `{"name":"Frames"}`); err != nil {
				t.Fatal(err)
			}
		}
		ids := []string{drivertest.Await(t, socket, "listUpdated").UpstreamID, drivertest.Await(t, socket, "listUpdated").UpstreamID}
		if !check(ids) {
			t.Errorf("%s: frames %v", kind, ids)
		}
	}
}

func TestReorderedFrameArrivesWithoutASuccessor(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	login := r.login("ok")
	s := r.session(login)
	socket := r.listen(s)
	r.injectFault(login, "reorder", 0, 1)
	if _, err := r.call(s, "lists.create", `{"name":"Frames"}`); err != nil {
		t.Fatal(err)
	}
	drivertest.Await(t, socket, "listUpdated")
}

func TestDroppedSocketClosesAndMissedEventsAreListed(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	login := r.login("ok")
	s := r.session(login)
	socket := r.listen(s)
	if _, err := r.call(s, "lists.create", `{"name":"One"}`); err != nil {
		t.Fatal(err)
	}
	last := drivertest.Await(t, socket, "listUpdated").UpstreamID
	r.injectFault(login, "drop_socket", 0, 1)
	awaitClosed(t, socket)
	if _, err := r.call(s, "lists.create", `{"name":"Two"}`); err != nil {
		t.Fatal(err)
	}
	missed, err := r.driver.Since(t.Context(), via("us"), s, last)
	if err != nil || len(missed.Events) != 1 || missed.Events[0].Kind != "listUpdated" {
		t.Fatalf("missed: %+v, %v", missed.Events, err)
	}
}

// awaitClosed reads a socket until it is closed.
func awaitClosed(t *testing.T, socket *driver.Socket) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		_, err := socket.Next(ctx)
		if _, ok := errors.AsType[*driver.Closed](err); ok {
			return
		} else if err != nil {
			t.Fatalf("the socket failed: %v", err)
		}
	}
}

func contains(document []byte, text string) bool {
	for i := range document {
		if len(document)-i >= len(text) && string(document[i:i+len(text)]) == text {
			return true
		}
	}
	return false
}
