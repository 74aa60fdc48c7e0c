// Package statuspage serves /status: whether the service works, now and on each of the last 30 days, for everyone and
// without a key. It says nothing about customers or nodes. Start reading at Before.
package statuspage

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/operate/pulse"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/server/accesslog"
	"github.com/stagedoor/stagedoor/internal/server/webapp"
)

//go:embed page.html
var pageText string

// Deps are the dependencies.
type Deps struct {
	Pulse interface {
		Facts(ctx context.Context, span time.Duration) (pulse.Facts, error)
		Days(ctx context.Context, days int) ([]pulse.Day, error)
	}
	// Banner returns the message of the operators; nil if there is none.
	Banner func() *switches.Banner
	Log    *slog.Logger
	Now    func() time.Time
}

// Page serves the status page.
type Page struct {
	deps Deps
	page *template.Template

	mu   sync.Mutex
	last Status
	read time.Time
}

// New returns the page. It reads nothing.
func New(d Deps) *Page {
	return &Page{deps: d, page: template.Must(template.New("status").Funcs(template.FuncMap{"clock": clockText}).Parse(pageText))}
}

// State is how something works.
type State string

// The states, the best one first.
const (
	Normal   State = "normal"
	Degraded State = "degraded"
	Down     State = "down"
)

// worse returns the worse one of two states.
func worse(a, b State) State {
	order := []State{Normal, Degraded, Down}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// Status is what the page shows. Programs get it as JSON.
type Status struct {
	Status     State       `json:"status"`
	Message    string      `json:"message"`
	CheckedAt  stamp.Time  `json:"checkedAt"`
	Components []Component `json:"components"`
	Banner     *Banner     `json:"banner"`
}

// Component is a part of the service that customers know.
type Component struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Status State  `json:"status"`
	// Detail says what is wrong; empty if nothing is.
	Detail string      `json:"detail,omitempty"`
	Since  *stamp.Time `json:"since,omitempty"`
	// Days has how well the component worked on each of the last 30 days, oldest first; it is empty for a component that is
	// not measured.
	Days []Day `json:"days,omitempty"`
}

// Day is how well a component worked on a day.
type Day struct {
	Day string `json:"day"`
	// Share is the share of what went well; null without traffic.
	Share *float64 `json:"share"`
	// State is normal if the share is at least the objective.
	State State `json:"status,omitempty"`
}

// Banner is the message of the operators.
type Banner struct {
	Level string `json:"level"`
	Text  string `json:"text"`
	URL   string `json:"url,omitempty"`
}

const (
	path = "/status"
	// keep is how long an answer is reused, so that a crowd of readers costs one query.
	keep = 15 * time.Second
	// readTimeout bounds the time to read the facts.
	readTimeout = 3 * time.Second
	// span covers the minutes from which troubles are derived.
	span     = time.Hour
	lastDays = 30
)

// Before returns a handler that serves the page and passes everything else to next.
func (p *Page) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if (r.URL.Path == path || r.URL.Path == path+".json") && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			p.serve(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (p *Page) serve(w http.ResponseWriter, r *http.Request) {
	request, started, rec := id.New[id.Request](), p.deps.Now(), &accesslog.Recorder{ResponseWriter: w}
	h := rec.Header()
	nonce := webapp.Nonce()
	webapp.Secure(h, "style-src 'nonce-"+nonce+"'")
	h.Set("X-Request-Id", string(request))
	h.Set("Cache-Control", "public, max-age=15")
	h.Set("Access-Control-Allow-Origin", "*")
	h.Add("Vary", "Accept")
	now := p.status(postgres.WithAllOrgs(r.Context()))
	if strings.HasSuffix(r.URL.Path, ".json") || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		h.Set("Content-Type", "application/json")
		_ = json.NewEncoder(rec).Encode(now) // The reader may have disconnected.
	} else {
		h.Set("Cache-Control", "no-store") // The nonce must not be reused.
		h.Set("Content-Type", "text/html; charset=utf-8")
		_ = p.page.Execute(rec, struct {
			Status
			Nonce string
		}{now, nonce})
	}
	accesslog.Line{Request: request, Page: "status", Took: p.deps.Now().Sub(started)}.Write(p.deps.Log, r, rec)
}

// status returns the status, read at most keep ago. Concurrent readers wait for one query.
func (p *Page) status(ctx context.Context) Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.deps.Now()
	if age := now.Sub(p.read); age >= 0 && age < keep {
		return p.last
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	facts, err := p.deps.Pulse.Facts(ctx, span)
	var days []pulse.Day
	if err == nil {
		days, err = p.deps.Pulse.Days(ctx, lastDays)
	}
	if err != nil {
		p.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot read the status", slog.Any(logkey.Error, err))
		// The days of the last answer stay.
		p.last.Status, p.last.Message, p.last.CheckedAt = Down, "The service cannot reach its database", stamp.Time(now)
		if len(p.last.Components) == 0 {
			p.last.Components = []Component{}
		}
	} else {
		p.last = statusOf(facts, days)
	}
	p.last.Banner = nil
	if b := p.deps.Banner(); b != nil {
		p.last.Banner = &Banner{b.Level, b.Text, b.URL}
	}
	p.read = now
	return p.last
}

// components are the parts of the service, with the troubles that they have: those named after the point impair them, a
// missing role ends them.
var components = []struct {
	name, title, objective, role string
	troubles                     []string
}{
	{"api", "API", pulse.Availability, "api", []string{pulse.Availability, "postgres", "writes", pulse.Shed}},
	{"speed", "Speed of calls", pulse.Overhead, "", []string{pulse.Overhead}},
	{"connect", "Connecting accounts", "", "worker", []string{"kms", "off:connects"}},
	{"events", "Events", pulse.Arrival, "listener", []string{pulse.Arrival, "event_lag", "nats", "eventlog", pulse.LogLost, pulse.EventGaps}},
	{"webhooks", "Webhooks", pulse.Delivery, "worker", []string{pulse.Delivery, "off:webhooks"}},
	{"jobs", "Jobs", "", "worker", []string{"objects"}},
}

// statusOf derives the status from what is known. Details of troubles name nodes, so the page has its own words.
func statusOf(f pulse.Facts, days []pulse.Day) Status {
	s := Status{Status: Normal, CheckedAt: stamp.Time(f.Now), Components: []Component{}}
	found := pulse.Diagnose(f)
	for _, part := range components {
		c := Component{Name: part.name, Title: part.title, Status: Normal}
		for _, t := range found {
			switch {
			case t.Name == pulse.RoleMissing && part.role != "" && t.Where == part.role:
				c.impair(Down, t)
				c.Detail = strings.TrimSuffix(t.Detail, ".")
			case slices.Contains(part.troubles, t.Name) || t.Name == pulse.Paused && slices.Contains(part.troubles, "off:"+t.Where):
				c.impair(Degraded, t)
			}
		}
		if part.objective != "" {
			c.Days = daysOf(part.objective, f.Now, days)
		}
		s.add(c)
	}
	regions := f.Regions()
	for _, name := range pulse.Names(regions) {
		c := Component{Name: "region_" + name, Title: "Region " + name, Status: Normal}
		for _, t := range found {
			if t.Name == pulse.Region && t.Where == name && t.Harm == pulse.Critical || t.Name == pulse.Paused && t.Where == string(switches.Region(name)) {
				c.impair(Down, t)
			}
		}
		s.add(c)
	}
	s.Message = map[State]string{
		Normal: "Everything works", Degraded: "Parts of the service have trouble", Down: "Parts of the service are down",
	}[s.Status]
	return s
}

func (s *Status) add(c Component) {
	s.Status = worse(s.Status, c.Status)
	s.Components = append(s.Components, c)
}

// impair makes a component as bad as a trouble makes it.
func (c *Component) impair(to State, t pulse.Trouble) {
	if c.Status = worse(c.Status, to); c.Detail == "" {
		c.Detail = t.Title
		if !t.Since.IsZero() {
			since := stamp.Time(t.Since)
			c.Since = &since
		}
	}
}

// daysOf returns the last days of an objective.
func daysOf(objective string, now time.Time, days []pulse.Day) []Day {
	byDay := map[string]pulse.Ratio{}
	for _, d := range days {
		if d.Objective == objective {
			byDay[d.Day.Format(time.DateOnly)] = d.Ratio
		}
	}
	at := slices.IndexFunc(pulse.Objectives(), func(o pulse.Objective) bool { return o.Name == objective })
	target := pulse.Objectives()[at].Target
	list := make([]Day, lastDays)
	for i := range list {
		list[i].Day = now.AddDate(0, 0, i+1-lastDays).Format(time.DateOnly)
		r := byDay[list[i].Day]
		if r.Total == 0 {
			continue
		}
		share := float64(r.Good) / float64(r.Total)
		list[i].Share, list[i].State = &share, Normal
		switch {
		case share < 1-10*(1-target): // ten times the objective's failures
			list[i].State = Down
		case share < target:
			list[i].State = Degraded
		}
	}
	return list
}

// Average returns the share of the days with traffic as a text; empty if there is none.
func (c Component) Average() string {
	sum, n := 0.0, 0
	for _, d := range c.Days {
		if d.Share != nil {
			sum, n = sum+*d.Share, n+1
		}
	}
	if n == 0 {
		return ""
	}
	return percent(sum / float64(n))
}

// Word returns the state as the page shows it.
func (s State) Word() string {
	return map[State]string{Normal: "Works", Degraded: "Impaired", Down: "Down", "": "No traffic"}[s]
}

// X returns where the bar of a day begins.
func (d Day) X(i int) int { return 10 * i }

// Label describes the day for people who cannot see its colour.
func (d Day) Label() string {
	if d.Share == nil {
		return d.Day + ": no traffic"
	}
	return d.Day + ": " + percent(*d.Share)
}

// clockText writes a time for people.
func clockText(t stamp.Time) string { return time.Time(t).UTC().Format("15:04 UTC on 2 January") }

// percent rounds down, so that only what never failed is 100 %.
func percent(share float64) string {
	text := fmt.Sprintf("%.2f", float64(int(share*10000))/100)
	return strings.TrimSuffix(strings.TrimSuffix(text, "0"), ".0") + " %"
}
