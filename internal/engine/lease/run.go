package lease

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// holding is a slot that somebody works on here, until hold has returned.
type holding struct {
	Held
	stop context.CancelCauseFunc
	// stopping is set once stop was called.
	stopping bool
}

// run is one call of Run. Its loop alone talks to the database.
type run struct {
	*Leases
	hold     func(ctx context.Context, h Held)
	returned chan *holding
	// owed are slots that were given up and that the database does not know of yet.
	owed               []Held
	prepared, joined   bool
	failing, isLeaving bool

	// mu guards what follows, for the timer that stops everything.
	mu   sync.Mutex
	held map[int]*holding
	// term counts the beats; a timer of an earlier one is void.
	term  int
	timer *time.Timer
}

// loop beats until the context has ended and every hold has returned.
func (r *run) loop(ctx context.Context, pokes <-chan struct{}) {
	stopped := ctx.Done()
	// Beats go on while holds come to their end.
	work := context.WithoutCancel(ctx)
	for {
		wait := r.round(ctx, work)
		next := time.NewTimer(wait)
	waiting:
		for {
			if r.isLeaving && r.count() == 0 {
				next.Stop()
				r.end(work)
				return
			}
			select {
			case <-stopped:
				stopped, r.isLeaving = nil, true
				break waiting
			case h := <-r.returned:
				r.collect(h)
				r.settle(work)
			case <-pokes:
				break waiting
			case <-next.C:
				break waiting
			}
		}
		next.Stop()
	}
}

// retries is how many tries a beat has while the database is away.
const retries = 4

// round does all that is done at a beat, and says when the next one is due. The holds it starts end with ctx.
func (r *run) round(ctx, work context.Context) (wait time.Duration) {
	err := r.try(ctx, work)
	if err == nil {
		if r.failing {
			r.failing = false
			r.Log.LogAttrs(work, slog.LevelInfo, "leases are renewed again", slog.String("kind", r.Kind))
		}
		return r.Config.Beat
	}
	if !r.failing {
		r.failing = true
		r.Log.LogAttrs(work, slog.LevelWarn, "leases cannot be renewed", slog.String("kind", r.Kind), slog.Any("error", err))
	}
	return r.Config.Beat / retries
}

func (r *run) try(ctx, work context.Context) error {
	work, cancel := context.WithTimeout(work, r.Config.Beat)
	defer cancel()
	if !r.prepared {
		if err := r.prepareSlots(work); err != nil {
			return err
		}
		r.prepared = true
	}
	if err := r.release(work); err != nil {
		return err
	}
	s, err := r.renewed(work)
	if err != nil {
		return err
	}
	r.drop(s)
	if !r.joined || r.isLeaving {
		r.joined = true
		r.poke(work)
	}
	return r.take(ctx, work, s)
}

// renewed beats, and sets the time at which everything stops unless there is another beat. That time counts from before the question:
// the database's counts from when it got it.
func (r *run) renewed(ctx context.Context) (seen, error) {
	r.mu.Lock()
	term := r.term + 1
	r.mu.Unlock()
	timer := time.AfterFunc(r.Config.TTL-r.Config.TTL/margins, func() { r.lapse(ctx, term) })
	s, err := r.renew(ctx, r.isLeaving)
	if err != nil {
		timer.Stop()
		return s, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
	}
	r.term, r.timer = term, timer
	r.beat.Set(float64(r.Now().Unix()))
	return s, nil
}

// lapse stops everything: the others may soon take over.
func (r *run) lapse(ctx context.Context, term int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.term != term || len(r.held) == 0 {
		return
	}
	r.lapses.Inc()
	r.Log.LogAttrs(ctx, slog.LevelError, "leases have run out", slog.String("kind", r.Kind), slog.Int("slots", len(r.held)))
	for _, h := range r.held {
		h.giveUp(ErrLapsed)
	}
}

func (h *holding) giveUp(why error) {
	h.stopping = true
	h.stop(why)
}

// drop gives up what belongs to others.
func (r *run) drop(s seen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for slot, h := range r.held {
		epoch, mine := s.mine[slot]
		switch {
		case h.stopping:
		case !mine || epoch != h.Epoch:
			h.giveUp(ErrLapsed)
		case !r.isLeaving && r.place(slot, s) != r.Node:
			h.giveUp(ErrMoved)
		}
	}
}

func (r *run) place(slot int, s seen) string { return place(r.Kind, slot, s.nodes) }

// take takes what should be this node's and is not. What is this node's without its knowledge, because the answer to an earlier
// question was lost, is taken anew or released.
func (r *run) take(ctx, work context.Context, s seen) error {
	var wanted []int32
	r.mu.Lock()
	for slot := range r.Slots {
		epoch, mine := s.mine[slot]
		switch {
		case r.held[slot] != nil:
		case !r.isLeaving && r.place(slot, s) == r.Node:
			wanted = append(wanted, int32(slot))
		case mine:
			r.owed = append(r.owed, Held{slot, epoch})
		}
	}
	r.mu.Unlock()
	if err := r.release(work); err != nil || len(wanted) == 0 {
		return err
	}
	taken, err := r.takeSlots(work, wanted)
	if err != nil {
		return err
	}
	for _, h := range taken {
		r.start(ctx, h)
	}
	if len(taken) > 0 {
		r.Log.LogAttrs(work, slog.LevelInfo, "slots taken", slog.String("kind", r.Kind), slog.Int("slots", len(taken)), slog.Int("held", r.count()))
	}
	return nil
}

// start has the slot worked on.
func (r *run) start(ctx context.Context, held Held) {
	ctx, stop := context.WithCancelCause(ctx)
	h := &holding{Held: held, stop: stop, stopping: false}
	r.mu.Lock()
	r.held[h.Slot] = h
	r.Leases.held.Set(float64(len(r.held)))
	r.mu.Unlock()
	go func() {
		r.hold(ctx, held)
		stop(nil)
		r.returned <- h // the loop ends after this
	}()
}

// collect takes note that holds have returned: of the first, and of others that have by now.
func (r *run) collect(h *holding) {
	for {
		r.mu.Lock()
		delete(r.held, h.Slot)
		r.Leases.held.Set(float64(len(r.held)))
		r.mu.Unlock()
		r.owed = append(r.owed, h.Held)
		select {
		case h = <-r.returned:
		default:
			return
		}
	}
}

// settle releases at once; if that fails it is done with the next beat.
func (r *run) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.Config.Beat)
	defer cancel()
	if err := r.release(ctx); err != nil && !r.failing {
		r.Log.LogAttrs(ctx, slog.LevelWarn, "slots not released yet", slog.String("kind", r.Kind), slog.Any("error", err))
	}
}

// release lets others have what was given up here.
func (r *run) release(ctx context.Context) error {
	if len(r.owed) == 0 {
		return nil
	}
	if err := r.releaseSlots(ctx, r.owed); err != nil {
		return err
	}
	r.Log.LogAttrs(ctx, slog.LevelInfo, "slots given up", slog.String("kind", r.Kind), slog.Int("slots", len(r.owed)), slog.Int("held", r.count()))
	r.owed = nil
	r.poke(ctx)
	return nil
}

func (r *run) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.held)
}

// end takes this node's row away. If the database is away, the row ends by itself.
func (r *run) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.Config.Beat)
	defer cancel()
	r.mu.Lock()
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	err := r.release(ctx)
	if err == nil {
		err = r.leave(ctx)
	}
	if err != nil {
		r.Log.LogAttrs(ctx, slog.LevelWarn, "leases end by themselves", slog.String("kind", r.Kind), slog.Any("error", err))
		return
	}
	r.poke(ctx)
}
