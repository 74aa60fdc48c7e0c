package webhook

import (
	"context"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// Tell makes every node read an account's webhook again.
func (w *Webhooks) Tell(ctx context.Context, org id.Org, account id.Account) {
	w.tell(ctx, org, account)
}

// Holding says whether a bucket is delivered here.
func (w *Webhooks) Holding(bucket int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held[bucket] != nil
}

// Settle writes deliveries that are in memory.
func (w *Webhooks) Settle(ctx context.Context) { w.settleLog(ctx) }

// Running are errands under way.
type Running = running

// NewRunning makes an empty list.
func NewRunning() *Running {
	r := &running{ids: map[string]bool{}}
	r.ask()
	return r
}

// Ask, Begin and End are what a node does with an errand.
func (r *running) Ask() { r.ask() }

// Begin begins one.
func (r *running) Begin(id string) bool { return r.begin(id, 10) }

// End ends one.
func (r *running) End(id string) { r.end(id) }
