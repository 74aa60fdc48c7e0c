package app

import "github.com/prometheus/client_golang/prometheus"

// Registry has every metric that the node can show.
func (n *Node) Registry() *prometheus.Registry { return n.registry }
