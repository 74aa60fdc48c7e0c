package pulse

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/operate/fleet"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
)

// The objectives. The budgets are those of the alert rules in deploy/chart/rules.
const (
	Availability = "availability"
	Overhead     = "overhead"
	Arrival      = "arrival"
	Delivery     = "delivery"
)

// Objective is what customers may expect.
type Objective struct {
	Name, Title string
	// Target is the share that must go well over 30 days.
	Target float64
}

// Objectives returns the objectives, the most important one first.
func Objectives() []Objective {
	return []Objective{
		{Availability, "Requests are answered without a failure of this service", 0.999},
		{Overhead, "Calls take at most 100 ms longer than the platform does", 0.99},
		{Arrival, "Events arrive within 15 seconds", 0.99},
		{Delivery, "Webhooks are sent within 15 seconds", 0.99},
	}
}

// Burn returns how fast an error budget is used up: 1 uses up exactly the budget of 30 days in 30 days.
func (o Objective) Burn(r Ratio) float64 { return r.bad() / (1 - o.Target) }

// Harm is how bad a trouble is.
type Harm string

// The harms, the worst one first.
const (
	// Critical means that customers notice now.
	Critical Harm = "critical"
	// Warning means that they will if nothing is done, or that a reserve is gone.
	Warning Harm = "warning"
	// Notice means that something is as an operator wants it to be, which customers notice nevertheless.
	Notice Harm = "notice"
)

// Trouble is something that is wrong.
type Trouble struct {
	// Name identifies the kind of trouble.
	Name  string
	Harm  Harm
	Title string
	// Detail says what it means for customers.
	Detail string
	// Where names the nodes, the region, the role or the switch; empty for the whole service.
	Where string
	// Since is zero if it is not known.
	Since time.Time
	// Runbook is the name of the page that says what to do.
	Runbook string
}

// Names of troubles that are about what Where names. The others are objectives, incidents and checks of nodes.
const (
	RoleMissing = "role_missing"
	Region      = "region"
	Paused      = "paused"
)

// Facts are what is known about the service.
type Facts struct {
	// Now is the database's time.
	Now time.Time
	// Minutes are those of the last hours, oldest first.
	Minutes []Minute
	// Live are the nodes that run, Dead those that ended without leaving.
	Live, Dead []fleet.Node
	// Off has the switches that operators turned off.
	Off map[switches.Switch]switches.Decision
}

const (
	// window is the time over which a burn rate is measured, and recent the time after which an incident is over.
	window = 5 * time.Minute
	recent = time.Hour
	// fresh is the age up to which the last minute of a node says how things are now.
	fresh = 3 * time.Minute
	// fastBurn and slowBurn are burn rates that are critical and worth a warning. At fastBurn, two percent of the budget
	// of 30 days are gone after an hour.
	fastBurn, slowBurn = 14.4, 3
	// fewest is the number of requests or events below which a burn rate says nothing.
	fewest = 20
	// lateLag is the lag of the event store that customers notice.
	lateLag = 15
)

// Diagnose returns what is wrong, the worst first, and the oldest first among equals.
func Diagnose(f Facts) []Trouble {
	list := slices.Concat(f.burns(), f.lag(), f.engines(), f.regions(), f.nodes(), f.incidents(), f.paused())
	rank := map[Harm]int{Critical: 0, Warning: 1, Notice: 2}
	slices.SortStableFunc(list, func(a, b Trouble) int {
		return cmp.Or(rank[a.Harm]-rank[b.Harm], a.Since.Compare(b.Since))
	})
	return list
}

// burns returns the objectives that are missed now.
func (f Facts) burns() (list []Trouble) {
	titles := map[string][2]string{
		Availability: {"Requests fail", "Customers get errors that are this service's own."},
		Overhead:     {"Calls are slow", "Calls take more than 100 ms longer than the platform does."},
		Arrival:      {"Events arrive late", "Events of platforms reach the service after more than 15 seconds."},
		Delivery:     {"Webhooks are late", "Receivers that keep up get their events after more than 15 seconds."},
	}
	for _, o := range Objectives() {
		now := f.Met(o.Name, f.Now.Add(-window))
		burn := o.Burn(now)
		if now.Total < fewest || burn < slowBurn {
			continue
		}
		t := Trouble{
			Name: o.Name, Harm: Warning, Title: titles[o.Name][0], Runbook: "error-budget#" + o.Name,
			Detail: fmt.Sprintf("%s %.1f percent in the last five minutes; the objective allows %.1f.", titles[o.Name][1], 100*now.bad(), 100*(1-o.Target)),
		}
		if burn >= fastBurn {
			t.Harm = Critical
		}
		t.Since = f.firstOf(func(m []Counts) bool { return o.Burn(merge(m).Met[o.Name]) >= slowBurn })
		list = append(list, t)
	}
	return list
}

// Met returns how often an objective was met after a time.
func (f Facts) Met(objective string, after time.Time) (r Ratio) {
	for _, m := range f.Minutes {
		if m.At.After(after) {
			r = r.Plus(m.Met[objective])
		}
	}
	return r
}

// firstOf returns the first of the latest minutes in a row for which something is so.
func (f Facts) firstOf(is func(all []Counts) bool) (first time.Time) {
	for _, same := range slices.Backward(byTime(f.Minutes)) {
		if !is(counts(same)) {
			break
		}
		first = same[0].At
	}
	return first
}

// lag returns a trouble if events wait too long to be stored.
func (f Facts) lag() []Trouble {
	var lag float64
	for _, m := range f.Latest() {
		lag = max(lag, m.Lag)
	}
	if lag <= lateLag {
		return nil
	}
	return []Trouble{{
		Name: "event_lag", Harm: Critical, Title: "Events wait to be stored", Runbook: "error-budget#storing",
		Detail: fmt.Sprintf("The event store is %.0f seconds late. No event is lost; streams and webhooks get them late.", lag),
		Since:  f.firstOf(func(m []Counts) bool { return merge(m).Lag > lateLag }),
	}}
}

// Latest returns the last minute of each node that runs, by the names of the nodes.
func (f Facts) Latest() map[string]Minute {
	last := map[string]Minute{}
	for _, m := range f.Minutes {
		alive := slices.ContainsFunc(f.Live, func(n fleet.Node) bool { return n.Name == m.Node })
		if alive && f.Now.Sub(m.At) <= fresh {
			last[m.Node] = m
		}
	}
	return last
}

// checks has what the checks of a node may find down. The others are named as they are.
var checks = map[string]Trouble{
	"postgres": {Title: "PostgreSQL is not responding", Detail: "Calls that need it get 503 service-unavailable.", Harm: Critical, Runbook: "postgres-down"},
	"writes":   {Title: "PostgreSQL accepts no writes", Detail: "Calls that change something fail.", Harm: Critical, Runbook: "postgres-down"},
	"redis":    {Title: "Redis is not responding", Detail: "Nodes enforce their share of the limits on their own. Calls work.", Harm: Warning, Runbook: "redis-down"},
	"nats":     {Title: "NATS is not responding", Detail: "Events wait at the platforms, and changes reach other nodes later.", Harm: Critical, Runbook: "nats-down"},
	"eventlog": {Title: "The event log accepts no writes", Detail: "Events wait at the platforms.", Harm: Critical, Runbook: "nats-down"},
	"kms":      {Title: "The key management service is not responding", Detail: "Recently used accounts work for a while. New ones cannot be connected.", Harm: Critical, Runbook: "keys-unavailable"},
	"objects":  {Title: "The object store is not responding", Detail: "Jobs wait, and their results cannot be read.", Harm: Warning, Runbook: "node-down"},
	"clock":    {Title: "The clock of a node is wrong", Detail: "Certificates and signatures are checked with it.", Harm: Warning, Runbook: "node-down"},
	"schema":   {Title: "The schema is outdated", Detail: "Run stagedoord migrate. The node gets no traffic.", Harm: Critical, Runbook: "node-down"},
}

// engines returns the checks that fail on nodes that run. A check that fails on several nodes is one trouble.
func (f Facts) engines() (list []Trouble) {
	last := f.Latest()
	failing := map[string][]string{}
	for _, node := range Names(last) {
		for check := range last[node].Down {
			failing[check] = append(failing[check], node)
		}
	}
	for _, check := range Names(failing) {
		t, ok := checks[check]
		if !ok {
			t = Trouble{Title: "A check of a node fails: " + check, Detail: last[failing[check][0]].Down[check], Harm: Warning, Runbook: "node-down"}
		}
		t.Name, t.Where = check, strings.Join(failing[check], ", ")
		t.Since = f.firstOf(func(m []Counts) bool {
			return slices.ContainsFunc(m, func(c Counts) bool { _, down := c.Down[check]; return down })
		})
		list = append(list, t)
	}
	return list
}

// regions returns the regions that lack proxies, as the node sees them that has the fewest.
func (f Facts) regions() (list []Trouble) {
	worst := f.Regions()
	for _, region := range Names(worst) {
		p := worst[region]
		if p.Healthy >= p.All || p.All == 0 {
			continue
		}
		t := Trouble{
			Name: Region, Harm: Warning, Title: "Some proxies of a region do not work", Where: region, Runbook: "platform-fails",
			Detail: fmt.Sprintf("%d of %d work. Accounts of the region use the others.", p.Healthy, p.All),
		}
		if p.Healthy == 0 {
			t.Harm, t.Title, t.Detail = Critical, "A region is down", "Calls of its accounts get 503 egress-unavailable, and their events wait."
		}
		t.Since = f.firstOf(func(m []Counts) bool {
			return slices.ContainsFunc(m, func(c Counts) bool { return c.Regions[region].Healthy < c.Regions[region].All })
		})
		list = append(list, t)
	}
	return list
}

// Regions returns the proxies of each region, as the node sees them that has the fewest.
func (f Facts) Regions() map[string]Proxies {
	worst := map[string]Proxies{}
	for _, m := range f.Latest() {
		for region, p := range m.Regions {
			if known, ok := worst[region]; !ok || p.Healthy < known.Healthy {
				worst[region] = p
			}
		}
	}
	return worst
}

// nodes returns nodes that died and roles that no node has.
func (f Facts) nodes() (list []Trouble) {
	for _, n := range f.Dead {
		back := slices.ContainsFunc(f.Live, func(l fleet.Node) bool { return l.Name == n.Name })
		if back || f.Now.Sub(n.SeenAt) > recent {
			continue
		}
		list = append(list, Trouble{
			Name: "node_died", Harm: Warning, Title: "A node is gone", Where: n.Name, Since: n.SeenAt, Runbook: "node-down",
			Detail: "It ended without leaving, and has not come back. Other nodes have its work.",
		})
	}
	if len(f.Live) == 0 {
		return list // The node that asks runs, but its first heartbeat is not written yet, or cannot be.
	}
	for _, role := range []struct{ name, harm string }{
		{"api", "No call is answered."}, {"worker", "No account can be connected, and no event is stored or delivered."},
		{"listener", "No event is received; they wait at the platforms."},
	} {
		if !slices.ContainsFunc(f.Live, func(n fleet.Node) bool { return slices.Contains(n.Roles, role.name) }) {
			list = append(list, Trouble{
				Name: RoleMissing, Harm: Critical, Where: role.name, Title: "No node has the role " + role.name, Detail: role.harm, Runbook: "node-down",
			})
		}
	}
	return list
}

// incidents returns what must not happen even once and happened in the last hour.
func (f Facts) incidents() (list []Trouble) {
	about := []Trouble{
		{Name: Corrupt, Harm: Critical, Title: "Sealed texts do not open", Detail: "This is a bug, or someone changed the database.", Runbook: "audit-finding"},
		{Name: LogLost, Harm: Critical, Title: "The event log was lost", Detail: "Events that were not stored yet are fetched from the platforms again, as far as these keep them.", Runbook: "nats-down"},
		{Name: EventGaps, Harm: Warning, Title: "Events may be missing", Detail: "A platform could not list what happened while no node listened. The accounts got the event listener.gap.", Runbook: "events-late"},
		{Name: DeadLetters, Harm: Warning, Title: "Events could not be stored", Detail: "They are dead letters. Requeue them once the cause is gone.", Runbook: "events-late"},
		{Name: Shed, Harm: Warning, Title: "Requests were refused", Detail: "Nodes were overloaded and refused calls of the busiest organisations.", Runbook: "overload"},
	}
	for _, t := range about {
		var n int64
		for _, m := range f.Minutes {
			if count := m.Incidents[t.Name]; count > 0 && f.Now.Sub(m.At) <= recent {
				n += count
				if t.Since.IsZero() {
					t.Since = m.At
				}
			}
		}
		if n > 0 {
			t.Detail = fmt.Sprintf("%d in the last hour. %s", n, t.Detail)
			list = append(list, t)
		}
	}
	return list
}

// paused returns what operators turned off.
func (f Facts) paused() (list []Trouble) {
	titles := map[switches.Switch]string{
		switches.Signups: "Sign-ups are closed", switches.Connects: "New connections are paused",
		switches.Writes: "Writes are paused", switches.Webhooks: "Webhooks are paused",
	}
	for _, s := range Names(f.Off) {
		title := titles[s]
		if region := s.Region(); region != "" {
			title = "The region " + region + " is switched off"
		}
		d := f.Off[s]
		list = append(list, Trouble{Name: Paused, Harm: Notice, Where: string(s), Title: title, Detail: "By " + d.By + ": " + d.Reason, Since: d.At})
	}
	return list
}
