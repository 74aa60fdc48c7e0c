package app

import "github.com/prometheus/client_golang/prometheus"

// Registry returns the registry of all metrics.
func (n *Node) Registry() *prometheus.Registry { return n.registry }
