package webhook

import (
	"context"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// PublishChange makes every node read an account's webhook again.
func (w *Webhooks) PublishChange(ctx context.Context, org id.Org, account id.Account) {
	w.publishChange(ctx, org, account)
}

func (w *Webhooks) Holding(bucket int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held[bucket] != nil
}

// FlushLog writes the deliveries that are in memory.
func (w *Webhooks) FlushLog(ctx context.Context) { w.flushLog(ctx) }

// Running tracks side deliveries that are running.
type Running = running

// NewRunning returns one without side deliveries.
func NewRunning() *Running {
	r := &running{ids: map[string]bool{}}
	r.startListing()
	return r
}

// StartListing is called before the list of due side deliveries is read.
func (r *running) StartListing() { r.startListing() }

// Start reports whether a side delivery may start.
func (r *running) Start(id string) bool { return r.start(id, 10) }

// Finish ends a side delivery.
func (r *running) Finish(id string) { r.finish(id) }
