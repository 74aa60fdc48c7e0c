package egress

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/stagedoor/stagedoor/internal/base/tracing"
)

// metrics are the metrics of traffic to platforms.
type metrics struct {
	dials   *prometheus.CounterVec
	checks  *prometheus.CounterVec
	excused *prometheus.CounterVec
	took    *prometheus.HistogramVec
}

func newMetrics(registry prometheus.Registerer) metrics {
	register := promauto.With(registry)
	return metrics{
		dials: register.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_egress_dials_total",
			Help: "Dials to platforms through proxies of a region, by outcome: ok or the reason of the failure.",
		}, []string{"region", "outcome"}),
		checks: register.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_egress_checks_total",
			Help: "Health checks of proxies, by outcome: ok or the reason of the failure.",
		}, []string{"region", "outcome"}),
		excused: register.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_egress_timeouts_excused_total",
			Help: "Time-outs of proxies that did not count, because this node was too slow itself.",
		}, []string{"region"}),
		took: register.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "stagedoor_platform_request_seconds",
			Help:    "Time of requests to platforms, with the dial if there was one, by region and by the class of the response's status, or failed.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20},
		}, []string{"region", "outcome"}),
	}
}

// outcomes are the labels of status classes.
var outcomes = [...]string{"failed", "1xx", "2xx", "3xx", "4xx", "5xx"}

// observeRequest measures a request to a platform. status is 0 if there was no response. A request to a region that does
// not exist is not counted.
func (c *Client) observeRequest(ctx context.Context, status int, began time.Time) {
	e := c.egress
	if e.region(c.who.Region) == nil {
		return
	}
	outcome := outcomes[0]
	if class := status / 100; class < len(outcomes) {
		outcome = outcomes[class]
	}
	tracing.Observe(ctx, e.metrics.took.WithLabelValues(c.who.Region, outcome), e.deps.Now().Sub(began).Seconds())
}

// proxyCounts counts the proxies of the current regions.
type proxyCounts struct{ egress *Egress }

var (
	healthyDesc = prometheus.NewDesc("stagedoor_egress_proxies_healthy",
		"Proxies of a region that this node uses. At 0 the region's accounts get 503 egress-unavailable.", []string{"region"}, nil)
	proxiesDesc = prometheus.NewDesc("stagedoor_egress_proxies", "Proxies of a region in the settings.", []string{"region"}, nil)
)

// Describe implements prometheus.Collector.
func (proxyCounts) Describe(to chan<- *prometheus.Desc) {
	to <- healthyDesc
	to <- proxiesDesc
}

// Collect implements prometheus.Collector.
func (c proxyCounts) Collect(to chan<- prometheus.Metric) {
	for name, r := range c.egress.routes.Load().regions {
		to <- prometheus.MustNewConstMetric(healthyDesc, prometheus.GaugeValue, float64(r.healthy()), name)
		to <- prometheus.MustNewConstMetric(proxiesDesc, prometheus.GaugeValue, float64(len(r.list())), name)
	}
}
