package webhook

import "github.com/stagedoor/stagedoor/internal/base/id"

// Halt stops all deliveries of this node, or resumes them. Events wait in the store during a halt; a lane costs one row
// and no memory.
func (w *Webhooks) Halt(halt bool) {
	w.mu.Lock()
	now := w.deps.Now()
	if halt && !w.ended {
		w.machine.Halt()
	} else {
		w.machine.Resume(now)
	}
	job := w.startWork(now)
	w.mu.Unlock()
	w.spawn(job)
	if !halt {
		signal(w.sideDue)
	}
}

// Suspend stops the deliveries of exactly these organisations and resumes all others. Events wait in the store during a
// suspension.
func (w *Webhooks) Suspend(orgs map[id.Org]struct{}) {
	w.mu.Lock()
	now := w.deps.Now()
	w.machine.Suspend(orgs, now)
	job := w.startWork(now)
	w.mu.Unlock()
	w.spawn(job)
	signal(w.sideDue)
}

// end lifts a halt for good when Run ends, so that goroutines that wait for a permit get it and end. They send nothing,
// because the contexts of their buckets have ended.
func (w *Webhooks) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.Halt(false)
}
