package statuspage_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/operate/fleet"
	"github.com/stagedoor/stagedoor/internal/operate/pulse"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/server/statuspage"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

var now = time.Date(2026, 11, 19, 12, 0, 30, 0, time.UTC)

// reading is what a page reads.
type reading struct {
	facts  pulse.Facts
	days   []pulse.Day
	err    error
	banner *switches.Banner
	at     time.Time
	reads  int
}

func (r *reading) Facts(context.Context, time.Duration) (pulse.Facts, error) {
	r.reads++
	return r.facts, r.err
}

func (r *reading) Days(context.Context, int) ([]pulse.Day, error) { return r.days, r.err }

func newReading() *reading {
	return &reading{at: now, facts: pulse.Facts{
		Now: now, Live: []fleet.Node{{Name: "node-7", Roles: []string{"api", "worker", "listener"}}},
		Minutes: []pulse.Minute{{At: now.Truncate(time.Minute), Node: "node-7", Counts: pulse.Counts{
			Met:     map[string]pulse.Ratio{pulse.Availability: {Good: 1000, Total: 1000}},
			Regions: map[string]pulse.Proxies{"eu": {Healthy: 2, All: 2}},
		}}},
	}}
}

func (r *reading) handler() http.Handler {
	page := statuspage.New(statuspage.Deps{
		Pulse: r, Banner: func() *switches.Banner { return r.banner }, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return r.at },
	})
	return page.Before(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
}

func get(t *testing.T, h http.Handler, path, accept string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func decode(t *testing.T, w *httptest.ResponseRecorder) (s statuspage.Status, states map[string]statuspage.State) {
	t.Helper()
	must.OK(t, json.Unmarshal(w.Body.Bytes(), &s))
	states = map[string]statuspage.State{}
	for _, c := range s.Components {
		states[c.Name] = c.Status
	}
	return s, states
}

// Each trouble makes the components that customers know as bad as it is.
func TestComponentsShowTroubles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*reading)
		want   statuspage.State
		states map[string]statuspage.State
	}{
		"none": {func(*reading) {}, statuspage.Normal, nil},
		"requests fail": {
			func(r *reading) { r.facts.Minutes[0].Met[pulse.Availability] = pulse.Ratio{Good: 900, Total: 1000} },
			statuspage.Degraded, map[string]statuspage.State{"api": statuspage.Degraded},
		},
		"no listener": {
			func(r *reading) { r.facts.Live[0].Roles = []string{"api", "worker"} },
			statuspage.Down, map[string]statuspage.State{"events": statuspage.Down},
		},
		"a region has no proxy": {
			func(r *reading) { r.facts.Minutes[0].Regions["eu"] = pulse.Proxies{All: 2} },
			statuspage.Down, map[string]statuspage.State{"region_eu": statuspage.Down},
		},
		"a region has one proxy less": {
			func(r *reading) { r.facts.Minutes[0].Regions["eu"] = pulse.Proxies{Healthy: 1, All: 2} }, statuspage.Normal, nil,
		},
		"Redis is down": { // calls work
			func(r *reading) { r.facts.Minutes[0].Down = map[string]string{"redis": "10.0.0.1 refused"} }, statuspage.Normal, nil,
		},
		"NATS is down": {
			func(r *reading) { r.facts.Minutes[0].Down = map[string]string{"nats": "10.0.0.1 refused"} },
			statuspage.Degraded, map[string]statuspage.State{"events": statuspage.Degraded},
		},
		"webhooks are paused": {
			func(r *reading) {
				r.facts.Off = map[switches.Switch]switches.Decision{switches.Webhooks: {By: "ana", Reason: "ticket 4711"}}
			},
			statuspage.Degraded, map[string]statuspage.State{"webhooks": statuspage.Degraded},
		},
		"a region is off": {
			func(r *reading) {
				r.facts.Off = map[switches.Switch]switches.Decision{switches.Region("eu"): {By: "ana"}}
			},
			statuspage.Down, map[string]statuspage.State{"region_eu": statuspage.Down},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReading()
			c.change(r)
			h := r.handler()
			s, states := decode(t, get(t, h, "/status", "*/*"))
			if s.Status != c.want || s.Message == "" {
				t.Errorf("%s: %s", s.Status, s.Message)
			}
			for part, state := range states {
				want := c.states[part]
				if want == "" {
					want = statuspage.Normal
				}
				if state != want {
					t.Errorf("%s is %s, want %s", part, state, want)
				}
			}
			if len(states) != 7 {
				t.Errorf("the components are %v", states)
			}
			html := get(t, h, "/status", "text/html").Body.String()
			for _, inside := range []string{"node-7", "10.0.0.1", "ana", "4711"} {
				if strings.Contains(html, inside) || strings.Contains(get(t, h, "/status.json", "").Body.String(), inside) {
					t.Errorf("the page shows %q", inside)
				}
			}
			if !strings.Contains(html, s.Message) || !strings.HasSuffix(html, "</html>\n") {
				t.Errorf("the page is %s", html)
			}
		})
	}
}

// A day shows its share and whether the objective was met.
func TestDays(t *testing.T) {
	t.Parallel()
	r := newReading()
	today := now.Truncate(24 * time.Hour)
	for age, good := range []int64{100_000, 99_950, 99_000, 98_900} {
		r.days = append(r.days, pulse.Day{Day: today.AddDate(0, 0, -age), Objective: pulse.Availability, Ratio: pulse.Ratio{Good: good, Total: 100_000}})
	}
	s, _ := decode(t, get(t, r.handler(), "/status.json", ""))
	days := s.Components[0].Days
	if len(days) != 30 || days[29].Day != "2026-11-19" || days[0].Day != "2026-10-21" || days[0].Share != nil {
		t.Fatalf("the days are %+v", days)
	}
	for i, want := range []statuspage.State{statuspage.Down, statuspage.Degraded, statuspage.Normal, statuspage.Normal} {
		if days[26+i].State != want {
			t.Errorf("%s is %s, want %s", days[26+i].Label(), days[26+i].State, want)
		}
	}
	if days[28].Label() != "2026-11-18: 99.95 %" || days[29].Label() != "2026-11-19: 100 %" || days[0].Label() != "2026-10-21: no traffic" {
		t.Errorf("the labels are %q, %q, %q", days[28].Label(), days[29].Label(), days[0].Label())
	}
}

// Readers share an answer for 15 seconds. Without the database, the page says so and still shows the last days.
func TestReadersShareAnAnswerWhichOutlivesTheDatabase(t *testing.T) {
	t.Parallel()
	r := newReading()
	h := r.handler()
	for range 10 {
		get(t, h, "/status", "text/html")
	}
	if r.reads != 1 {
		t.Errorf("read %d times", r.reads)
	}
	r.err, r.at = errors.New("connection refused"), r.at.Add(15*time.Second)
	r.banner = &switches.Banner{Text: "We are <b>on it</b>.", Level: "critical", URL: "https://example.com/1"}
	s, states := decode(t, get(t, h, "/status.json", ""))
	if s.Status != statuspage.Down || s.Message != "The service cannot reach its database" || len(states) != 7 || s.Banner == nil || r.reads != 2 {
		t.Errorf("without the database: %+v after %d reads", s, r.reads)
	}
	if html := get(t, h, "/status", "text/html").Body.String(); !strings.Contains(html, "We are &lt;b&gt;on it&lt;/b&gt;.") {
		t.Errorf("the page is %s", html)
	}
	r.err, r.at = nil, r.at.Add(15*time.Second)
	if s, _ := decode(t, get(t, h, "/status.json", "")); s.Status != statuspage.Normal {
		t.Errorf("with the database again: %s", s.Status)
	}
	fresh := newReading()
	fresh.err = errors.New("connection refused")
	if w := get(t, fresh.handler(), "/status.json", ""); !strings.Contains(w.Body.String(), `"components":[]`) {
		t.Errorf("a new node without the database: %s", w.Body)
	}
}

// A node serves the page without a key, and only this page.
func TestANodeServesThePage(t *testing.T) {
	t.Parallel()
	node := testnode.Nodes(t, 1, testnode.Setup{})[0]
	if r := node.Call(t, http.MethodGet, "/status", "", nil); r.Status != http.StatusOK || r.JSON()["status"] != "normal" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	if r := node.Call(t, http.MethodPost, "/status", "", nil); r.Status == http.StatusOK {
		t.Errorf("POST: %d", r.Status)
	}
	if r := node.Call(t, http.MethodGet, "/status/x", "", nil); r.Status != http.StatusNotFound {
		t.Errorf("below it: %d", r.Status)
	}
}
