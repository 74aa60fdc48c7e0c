package pulse

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"

	dto "github.com/prometheus/client_model/go"
)

// Counts are what a node counted in a minute. The first group are sums over the minute; the second is how things were at
// its end.
type Counts struct {
	// Met has how often each objective was met, by its name.
	Met map[string]Ratio `json:"met,omitempty"`
	// Overhead counts calls by the time that this service added: at most the key, in seconds. The key +Inf has all.
	Overhead map[string]int64 `json:"overhead,omitempty"`
	// Incidents count what must not happen even once, by name.
	Incidents map[string]int64 `json:"incidents,omitempty"`

	// Lag is the age of the oldest entry of the event log that is not stored yet, in seconds.
	Lag float64 `json:"lag,omitempty"`
	// Backlog is the number of accounts with events that wait for a delivery of this node.
	Backlog int64 `json:"backlog,omitempty"`
	// Down has what does not work on this node, and why.
	Down map[string]string `json:"down,omitempty"`
	// Regions has the proxies of each egress region.
	Regions map[string]Proxies `json:"regions,omitempty"`
}

// Ratio is how often something went well.
type Ratio struct {
	Good  int64 `json:"good"`
	Total int64 `json:"total"`
}

// Plus returns the sum of two ratios.
func (r Ratio) Plus(other Ratio) Ratio { return Ratio{r.Good + other.Good, r.Total + other.Total} }

// bad returns the share of what went badly; 0 if nothing happened.
func (r Ratio) bad() float64 {
	if r.Total == 0 {
		return 0
	}
	return float64(r.Total-r.Good) / float64(r.Total)
}

// Proxies are the proxies of a region, as a node sees them.
type Proxies struct {
	Healthy int64 `json:"healthy"`
	All     int64 `json:"all"`
}

// Incidents: what must not happen even once.
const (
	DeadLetters = "dead_letters"
	EventGaps   = "event_gaps"
	LogLost     = "log_lost"
	Corrupt     = "sealed_text_corrupt"
	Shed        = "shed"
)

// incidents has the metric of each incident.
var incidents = map[string]string{
	DeadLetters: "stagedoor_ingest_dead_letters_total",
	EventGaps:   "stagedoor_listener_gaps_total",
	LogLost:     "stagedoor_ingest_log_lost_total",
	Corrupt:     "stagedoor_seal_corrupt_total",
	Shed:        "stagedoor_http_shed_total",
}

// excused are the codes of problems that are not failures of this service.
var excused = regexp.MustCompile(`^(upstream/.+|account-reauthenticating|platform-unavailable|jobs-unavailable)$`)

const overheadMetric = "stagedoor_http_overhead_seconds"

// readMetrics returns what the metrics of a node say since it started, and how things are now.
func readMetrics(families []*dto.MetricFamily) Counts {
	named := make(map[string][]*dto.Metric, len(families))
	for _, f := range families {
		named[f.GetName()] = f.GetMetric()
	}
	c := Counts{Met: map[string]Ratio{}, Incidents: map[string]int64{}, Regions: map[string]Proxies{}}
	requests := sum(named["stagedoor_http_requests_total"], isPublic)
	failed := sum(named["stagedoor_http_failures_total"], func(m *dto.Metric) bool { return isPublic(m) && !excused.MatchString(label(m, "code")) })
	c.Met[Availability] = Ratio{Good: requests - failed, Total: requests}
	c.Overhead = buckets(named[overheadMetric], isPublic)
	c.Met[Overhead] = within(c.Overhead, "0.1")
	c.Met[Arrival] = within(buckets(named["stagedoor_listener_event_seconds"], all), "15")
	c.Met[Delivery] = within(buckets(named["stagedoor_webhook_wait_seconds"], all), "15")
	for name, metric := range incidents {
		c.Incidents[name] = sum(named[metric], all)
	}
	for _, m := range named["stagedoor_ingest_lag_seconds"] {
		c.Lag = max(c.Lag, m.GetGauge().GetValue())
	}
	c.Backlog = sum(named["stagedoor_webhook_backlog"], all)
	for _, m := range named["stagedoor_egress_proxies"] {
		c.Regions[label(m, "region")] = Proxies{All: int64(m.GetGauge().GetValue())}
	}
	for _, m := range named["stagedoor_egress_proxies_healthy"] {
		region := label(m, "region")
		c.Regions[region] = Proxies{int64(m.GetGauge().GetValue()), c.Regions[region].All}
	}
	return c
}

func all(*dto.Metric) bool { return true }

func isPublic(m *dto.Metric) bool { return label(m, "face") == "public" }

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// sum adds up counters and gauges.
func sum(metrics []*dto.Metric, counts func(*dto.Metric) bool) (total int64) {
	for _, m := range metrics {
		if counts(m) {
			total += int64(m.GetCounter().GetValue() + m.GetGauge().GetValue())
		}
	}
	return total
}

// buckets adds up the cumulative buckets of histograms.
func buckets(metrics []*dto.Metric, counts func(*dto.Metric) bool) map[string]int64 {
	upTo := map[string]int64{}
	for _, m := range metrics {
		if !counts(m) {
			continue
		}
		for _, b := range m.GetHistogram().GetBucket() {
			if !math.IsInf(b.GetUpperBound(), 1) {
				upTo[strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64)] += int64(b.GetCumulativeCount())
			}
		}
		upTo[infinity] += int64(m.GetHistogram().GetSampleCount())
	}
	return upTo
}

const infinity = "+Inf"

func within(upTo map[string]int64, limit string) Ratio { return Ratio{upTo[limit], upTo[infinity]} }

// since returns what was counted after an earlier reading of the same node.
func (c Counts) since(earlier Counts) Counts {
	diff := c
	diff.Met, diff.Overhead, diff.Incidents = map[string]Ratio{}, map[string]int64{}, map[string]int64{}
	for name, r := range c.Met {
		before := earlier.Met[name]
		if r = (Ratio{r.Good - before.Good, r.Total - before.Total}); r.Total > 0 {
			// A request may be counted between the readings of two metrics.
			diff.Met[name] = Ratio{min(max(r.Good, 0), r.Total), r.Total}
		}
	}
	for limit, n := range c.Overhead {
		if n -= earlier.Overhead[limit]; n > 0 {
			diff.Overhead[limit] = n
		}
	}
	for name, n := range c.Incidents {
		if n -= earlier.Incidents[name]; n > 0 {
			diff.Incidents[name] = n
		}
	}
	return diff
}

// percentile returns the time within which a share of the calls was, in seconds: the upper bound of the bucket. It
// returns 0 if there was no call, and the largest bound if the call took longer.
func percentile(upTo map[string]int64, share float64) float64 {
	limits := make([]float64, 0, len(upTo))
	byLimit := make(map[float64]int64, len(upTo))
	for text, n := range upTo {
		if limit, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(limit, 1) {
			limits, byLimit[limit] = append(limits, limit), n
		}
	}
	slices.Sort(limits)
	want := share * float64(upTo[infinity])
	if want == 0 || len(limits) == 0 {
		return 0
	}
	for _, limit := range limits {
		if float64(byLimit[limit]) >= want {
			return limit
		}
	}
	return limits[len(limits)-1]
}

// merge adds up what several nodes counted in the same time. It does not say how engines and regions are.
func merge(list []Counts) Counts {
	total := Counts{Met: map[string]Ratio{}, Overhead: map[string]int64{}, Incidents: map[string]int64{}}
	for _, c := range list {
		for name, r := range c.Met {
			total.Met[name] = total.Met[name].Plus(r)
		}
		for limit, n := range c.Overhead {
			total.Overhead[limit] += n
		}
		for name, n := range c.Incidents {
			total.Incidents[name] += n
		}
		total.Lag, total.Backlog = max(total.Lag, c.Lag), total.Backlog+c.Backlog
	}
	return total
}

// Names returns the keys of a map in order.
func Names[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
