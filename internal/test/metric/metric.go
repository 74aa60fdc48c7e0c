// Package metric reads metrics in tests.
package metric

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Value returns the sum of a metric's samples that have labels, given as names and values in turn. A histogram counts with
// the number of its observations. Without labels, the metric must have a sample.
func Value(t testing.TB, from prometheus.Gatherer, name string, labels ...string) (sum float64) {
	t.Helper()
	families, err := from.Gather()
	must.OK(t, err)
	found := false
	for _, f := range families {
		found = found || f.GetName() == name
		for _, m := range f.GetMetric() {
			if f.GetName() == name && has(m, labels) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	if !found && len(labels) == 0 {
		t.Fatalf("there is no metric %s", name)
	}
	return sum
}

func has(m *dto.Metric, labels []string) bool {
	found := map[string]string{}
	for _, l := range m.GetLabel() {
		found[l.GetName()] = l.GetValue()
	}
	for i := 0; i < len(labels); i += 2 {
		if found[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}
