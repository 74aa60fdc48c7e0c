package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// Writable is writable, for tests.
type Writable struct{ writable }

const MaxUnwritable = maxUnwritable

func (w *Writable) Record(err error) { w.record(err) }

func (w *Writable) Check(ctx context.Context) error { return w.check(ctx) }

// Registry returns the registry of all metrics.
func (n *Node) Registry() *prometheus.Registry { return n.registry }
