package events_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/must"
)

// ask serves a request without a network.
func (r *fixture) ask(t *testing.T, target string, headers ...string) (status int, body string) {
	t.Helper()
	method := http.MethodHead // A HEAD of a stream ends immediately.
	if slices.Contains(headers, "application/json") {
		method = http.MethodGet
	}
	req := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	req.Header.Set("Authorization", "Bearer mine")
	for i := 0; i < len(headers); i += 2 {
		req.Header[headers[i]] = []string{headers[i+1]}
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

// Any cursor, on the stream of an account or an org or on a page, is accepted or refused. Nothing fails, and events of
// another org are never shown.
func FuzzCursors(f *testing.F) {
	r := newFixture(f, nil)
	theirs := r.Add(r.org("theirs"), string(r.theirs), true, "message", "tips", "message")
	mine := r.Add(r.org("mine"), string(r.mine), true, "message", "tips", "message")
	for _, seed := range []string{
		"", "0", "1", "00000000000001", "99999999999999", "-1", "1e3", " 1", "٣", "0x1", string(theirs[0].ID), r.Cursor(theirs[0].Position(), true), r.Cursor(mine[1].Position(), true),
		"000000000001.", "000000000001." + string(mine[0].ID) + "0", "ffffffffffff.", "000000000000.evt_", "1' OR '1'='1", "\x00", strings.Repeat("9", 100), "abcdef-000000000001.", "abcdef-00000000000001",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		escaped := url.QueryEscape(cursor)
		check := func(status int, body string) {
			t.Helper()
			if status != http.StatusOK && status != http.StatusBadRequest {
				t.Fatalf("%q: %d %s", cursor, status, body)
			}
			for _, e := range theirs {
				if strings.Contains(body, string(e.ID)) {
					t.Fatalf("%q shows an event of another org: %s", cursor, body)
				}
			}
		}
		for _, target := range []string{path(r.mine), "/v1/events"} {
			check(r.ask(t, target+"?after="+escaped, "Accept", "application/json"))
			check(r.ask(t, target+"?last_event_id="+escaped))
			check(r.ask(t, target, "Last-Event-Id", cursor))
		}
	})
}

// Any filter is refused, or selects what its names say.
func FuzzFilters(f *testing.F) {
	r := newFixture(f, nil)
	kinds := []string{"message", "messageSent", "tips", "account.paused", "account.resumed", "listener.gap"}
	r.Add(r.org("mine"), string(r.mine), true, kinds...)
	for _, seed := range []string{"", "message", "message*", "*", "!message", "!*", "account.*,!account.paused", "message,tips", " message , tips ", ",", "**", "!!message", "m*e", "cows", "MESSAGE", "!", "message\x00", "é*"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, filter string) {
		status, body := r.ask(t, path(r.mine)+"?limit=100&events="+url.QueryEscape(filter), "Accept", "application/json")
		switch status {
		case http.StatusUnprocessableEntity, http.StatusBadRequest:
			return
		case http.StatusOK:
		default:
			t.Fatalf("%q: %d %s", filter, status, body)
		}
		var page struct{ Events []struct{ Event string } }
		must.OK(t, json.Unmarshal([]byte(body), &page))
		var got []string
		for _, e := range page.Events {
			got = append(got, e.Event)
		}
		if want := chosen(filter, kinds); !slices.Equal(got, want) {
			t.Fatalf("%q selected %v, not %v", filter, got, want)
		}
	})
}

// chosen is a simple implementation of filters.
func chosen(filter string, kinds []string) (list []string) {
	var in, out []string
	for name := range strings.SplitSeq(filter, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if rest, not := strings.CutPrefix(name, "!"); not {
			out = append(out, rest)
		} else {
			in = append(in, name)
		}
	}
	means := func(pattern, kind string) bool {
		return pattern == kind || strings.HasSuffix(pattern, "*") && strings.HasPrefix(kind, pattern[:len(pattern)-1])
	}
	for _, kind := range kinds {
		any := func(p string) bool { return means(p, kind) }
		if (len(in) == 0 || slices.ContainsFunc(in, any)) && !slices.ContainsFunc(out, any) {
			list = append(list, kind)
		}
	}
	return list
}
