package pulse_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/operate/fleet"
	"github.com/stagedoor/stagedoor/internal/operate/pulse"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

var noon = time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC)

// running are two nodes with all roles.
var running = []fleet.Node{
	{Name: "a", Roles: []string{"api", "worker"}}, {Name: "b", Roles: []string{"api", "listener"}},
}

// good is a minute without trouble.
func good() pulse.Counts {
	return pulse.Counts{
		Met: map[string]pulse.Ratio{
			pulse.Availability: {Good: 1000, Total: 1000}, pulse.Overhead: {Good: 1000, Total: 1000},
			pulse.Arrival: {Good: 100, Total: 100}, pulse.Delivery: {Good: 100, Total: 100},
		},
		Regions: map[string]pulse.Proxies{"us": {Healthy: 2, All: 2}},
	}
}

// hour returns the facts of an hour in which both nodes counted every minute. change changes the last minutes of b, by
// their age.
func hour(change func(age int, c *pulse.Counts)) pulse.Facts {
	f := pulse.Facts{Now: noon.Add(20 * time.Second), Live: running}
	for age := 60; age >= 0; age-- {
		for _, node := range []string{"a", "b"} {
			c := good()
			if node == "b" && change != nil {
				change(age, &c)
			}
			f.Minutes = append(f.Minutes, pulse.Minute{At: noon.Add(-time.Duration(age) * time.Minute), Node: node, Counts: c})
		}
	}
	return f
}

// Each trouble is found with its harm, place, beginning and runbook, and only it.
func TestDiagnose(t *testing.T) {
	t.Parallel()
	met := func(objective string, good int64, since int) func(int, *pulse.Counts) {
		return func(age int, c *pulse.Counts) {
			if age < since {
				c.Met[objective] = pulse.Ratio{Good: good, Total: c.Met[objective].Total}
			}
		}
	}
	at := func(age int) time.Time { return noon.Add(-time.Duration(age) * time.Minute) }
	for name, c := range map[string]struct {
		facts pulse.Facts
		want  []pulse.Trouble
	}{
		"nothing":               {facts: hour(nil)},
		"some requests fail":    {hour(met(pulse.Availability, 990, 20)), []pulse.Trouble{{Name: pulse.Availability, Harm: pulse.Warning, Since: at(19), Runbook: "error-budget#availability"}}},
		"many requests fail":    {hour(met(pulse.Availability, 900, 9)), []pulse.Trouble{{Name: pulse.Availability, Harm: pulse.Critical, Since: at(8), Runbook: "error-budget#availability"}}},
		"few requests fail":     {facts: hour(met(pulse.Availability, 999, 20))},
		"failures are over":     {facts: hour(func(age int, c *pulse.Counts) { met(pulse.Availability, 0, 20)(60-age, c) })},
		"calls are slow":        {hour(met(pulse.Overhead, 500, 5)), []pulse.Trouble{{Name: pulse.Overhead, Harm: pulse.Critical, Since: at(4), Runbook: "error-budget#overhead"}}},
		"events arrive late":    {hour(met(pulse.Arrival, 90, 61)), []pulse.Trouble{{Name: pulse.Arrival, Harm: pulse.Warning, Since: at(60), Runbook: "error-budget#arrival"}}},
		"webhooks are late":     {hour(met(pulse.Delivery, 0, 6)), []pulse.Trouble{{Name: pulse.Delivery, Harm: pulse.Critical, Since: at(5), Runbook: "error-budget#delivery"}}},
		"too few to say":        {facts: pulse.Facts{Now: noon, Live: running, Minutes: []pulse.Minute{{At: noon, Node: "a", Counts: pulse.Counts{Met: map[string]pulse.Ratio{pulse.Availability: {Good: 0, Total: 19}}}}}}},
		"the store lags":        {hour(func(age int, c *pulse.Counts) { c.Lag = map[bool]float64{true: 40}[age < 3] }), []pulse.Trouble{{Name: "event_lag", Harm: pulse.Critical, Since: at(2), Runbook: "error-budget#storing"}}},
		"the store lags little": {facts: hour(func(_ int, c *pulse.Counts) { c.Lag = 15 })},
		"Redis is down": {
			hour(func(age int, c *pulse.Counts) { c.Down = map[bool]map[string]string{true: {"redis": "x"}}[age < 2] }),
			[]pulse.Trouble{{Name: "redis", Harm: pulse.Warning, Where: "b", Since: at(1), Runbook: "redis-down"}},
		},
		"an unknown check fails": {
			hour(func(_ int, c *pulse.Counts) { c.Down = map[string]string{"new": "x"} }),
			[]pulse.Trouble{{Name: "new", Harm: pulse.Warning, Where: "b", Since: at(60), Runbook: "node-down"}},
		},
		"Redis was down": {facts: hour(func(age int, c *pulse.Counts) { c.Down = map[bool]map[string]string{true: {"redis": "x"}}[age > 5] })},
		"a region is short": {hour(func(age int, c *pulse.Counts) {
			c.Regions["us"] = pulse.Proxies{Healthy: int64(min(age, 1) + 1), All: 2}
		}), []pulse.Trouble{{Name: pulse.Region, Harm: pulse.Warning, Where: "us", Since: at(0), Runbook: "platform-fails"}}},
		"a region is down": {hour(func(_ int, c *pulse.Counts) { c.Regions["us"] = pulse.Proxies{All: 2} }), []pulse.Trouble{{Name: pulse.Region, Harm: pulse.Critical, Where: "us", Since: at(60), Runbook: "platform-fails"}}},
		"a node died": {
			with(func(f *pulse.Facts) { f.Dead = []fleet.Node{{Name: "c", SeenAt: at(10)}} }),
			[]pulse.Trouble{{Name: "node_died", Harm: pulse.Warning, Where: "c", Since: at(10), Runbook: "node-down"}},
		},
		"a node died and is back": {facts: with(func(f *pulse.Facts) { f.Dead = []fleet.Node{{Name: "a", SeenAt: at(10)}} })},
		"a node died long ago":    {facts: with(func(f *pulse.Facts) { f.Dead = []fleet.Node{{Name: "c", SeenAt: at(61)}} })},
		"no listener":             {with(func(f *pulse.Facts) { f.Live = running[:1] }), []pulse.Trouble{{Name: pulse.RoleMissing, Harm: pulse.Critical, Where: "listener", Runbook: "node-down"}}},
		"no heartbeat yet":        {facts: pulse.Facts{Now: noon}},
		"what a dead node said": {facts: with(func(f *pulse.Facts) {
			f.Minutes = append(f.Minutes, pulse.Minute{At: noon, Node: "c", Counts: pulse.Counts{Down: map[string]string{"nats": "x"}}})
		})},
		"what a node said earlier": {facts: with(func(f *pulse.Facts) {
			f.Now = f.Now.Add(10 * time.Minute)
			f.Minutes[len(f.Minutes)-1].Down = map[string]string{"nats": "x"}
		})},
		"dead letters": {
			hour(func(age int, c *pulse.Counts) {
				c.Incidents = map[bool]map[string]int64{true: {pulse.DeadLetters: 2}}[age == 30 || age == 20]
			}),
			[]pulse.Trouble{{Name: pulse.DeadLetters, Harm: pulse.Warning, Since: at(30), Runbook: "events-late"}},
		},
		"paused": {
			with(func(f *pulse.Facts) {
				f.Off = map[switches.Switch]switches.Decision{switches.Region("us"): {Reason: "r", By: "ana", At: at(3)}}
			}),
			[]pulse.Trouble{{Name: pulse.Paused, Harm: pulse.Notice, Where: "region/us", Since: at(3)}},
		},
		"the worst is first": {
			with(func(f *pulse.Facts) {
				f.Off = map[switches.Switch]switches.Decision{switches.Writes: {At: at(50)}}
				f.Dead = []fleet.Node{{Name: "c", SeenAt: at(40)}, {Name: "d", SeenAt: at(45)}}
				f.Minutes[len(f.Minutes)-1].Down = map[string]string{"nats": "x"}
			}),
			[]pulse.Trouble{
				{Name: "nats", Harm: pulse.Critical, Where: "b", Since: at(0), Runbook: "nats-down"},
				{Name: "node_died", Harm: pulse.Warning, Where: "d", Since: at(45), Runbook: "node-down"},
				{Name: "node_died", Harm: pulse.Warning, Where: "c", Since: at(40), Runbook: "node-down"},
				{Name: pulse.Paused, Harm: pulse.Notice, Where: "writes", Since: at(50)},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := pulse.Diagnose(c.facts)
			for i := range got {
				if got[i].Title == "" || got[i].Detail == "" {
					t.Errorf("%s says nothing", got[i].Name)
				}
				got[i].Title, got[i].Detail = "", ""
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// with returns the facts of a good hour with a change.
func with(change func(*pulse.Facts)) pulse.Facts {
	f := hour(nil)
	change(&f)
	return f
}

// The runbooks exist, with the headings that troubles name, and the objectives are those of the alert rules.
func TestObjectivesAndRunbooksAreThoseOfTheAlerts(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	rules, err := os.ReadFile(filepath.Join(root, "deploy", "chart", "rules", "stagedoor.yaml"))
	must.OK(t, err)
	for _, o := range pulse.Objectives() {
		budget := regexp.MustCompile(`(?s)burn_rate:5m\n\s+labels: \{slo: ` + o.Name + `\}.*?\n\s+\) / ([0-9.]+)\n`).FindSubmatch(rules)
		if budget == nil {
			t.Errorf("the rules have no objective %s", o.Name)
			continue
		}
		if allowed, err := strconv.ParseFloat(string(budget[1]), 64); err != nil || allowed-(1-o.Target) > 1e-9 || allowed-(1-o.Target) < -1e-9 {
			t.Errorf("%s: the rules allow %s, the console %f", o.Name, budget[1], 1-o.Target)
		}
	}
	source, err := os.ReadFile("diagnose.go")
	must.OK(t, err)
	names := regexp.MustCompile(`Runbook: +"([^"]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(names) < 10 {
		t.Fatalf("%d runbooks found", len(names))
	}
	for _, o := range pulse.Objectives() {
		names = append(names, []string{"", "error-budget#" + o.Name})
	}
	for _, name := range names {
		page, heading, _ := strings.Cut(name[1], "#")
		if page == "error-budget" && heading == "" {
			continue // the name of an objective follows
		}
		text, err := os.ReadFile(filepath.Join(root, "docs", "runbooks", page+".md"))
		must.OK(t, err)
		if heading != "" && !strings.Contains(string(text), "\n## "+heading+"\n") {
			t.Errorf("the runbook %s has no heading %s", page, heading)
		}
	}
}
