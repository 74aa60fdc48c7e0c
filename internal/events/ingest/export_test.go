package ingest

import "context"

// NewTrimmer returns the trimmer of a node that holds no buckets.
func NewTrimmer(d Deps) *trimmer { return &trimmer{g: New(d)} }

// Trim is trim, for tests.
func (t *trimmer) Trim(ctx context.Context) error { return t.trim(ctx) }

// Lag is lag, for tests.
func (t *trimmer) Lag() any { return t.lag() }
