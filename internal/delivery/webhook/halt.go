package webhook

import "github.com/stagedoor/stagedoor/internal/base/id"

// Halt holds all deliveries of this node back, or lets them go on. Events gather in the store meanwhile, and a lane is no more than a row.
func (w *Webhooks) Halt(halt bool) {
	w.mu.Lock()
	now := w.Now()
	if halt && !w.ended {
		w.machine.Halt()
	} else {
		w.machine.Go(now)
	}
	job := w.advance(now)
	w.mu.Unlock()
	w.spawn(job)
	if !halt {
		signal(w.wake)
	}
}

// Suspend holds the deliveries of these orgs back, and of no others. Events gather in the store meanwhile.
func (w *Webhooks) Suspend(orgs map[id.Org]struct{}) {
	w.mu.Lock()
	now := w.Now()
	w.machine.Suspend(orgs, now)
	job := w.advance(now)
	w.mu.Unlock()
	w.spawn(job)
	signal(w.wake)
}

// end lets those go who still wait for a slot: the buckets are given up, so that nothing is sent, and nobody must be waited for in vain.
func (w *Webhooks) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.Halt(false)
}
