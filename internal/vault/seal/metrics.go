package seal

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	loads, corrupt, rewrapped prometheus.Counter
	kmsUp, rotating           prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) metrics {
	register := promauto.With(registry)
	return metrics{
		loads: register.NewCounter(prometheus.CounterOpts{
			Name: "stagedoor_seal_loads_total", Help: "Reads of a holder's data keys that were not in memory.",
		}),
		corrupt: register.NewCounter(prometheus.CounterOpts{
			Name: "stagedoor_seal_corrupt_total", Help: "Sealed texts that did not open. Anything above 0 is a bug or tampering.",
		}),
		rewrapped: register.NewCounter(prometheus.CounterOpts{
			Name: "stagedoor_seal_rewrapped_total", Help: "Keys of orgs and data keys that this node has re-wrapped.",
		}),
		kmsUp: register.NewGauge(prometheus.GaugeOpts{
			Name: "stagedoor_seal_kms_up", Help: "1 if the key management service passed its last check, 0 if not.",
		}),
		rotating: register.NewGauge(prometheus.GaugeOpts{
			Name: "stagedoor_seal_orgs_rotating", Help: "Orgs that still have an older key because data keys are wrapped by it.",
		}),
	}
}
