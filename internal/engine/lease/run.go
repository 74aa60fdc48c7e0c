package lease

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/lease/internal/db"
)

// heldSlot is a slot whose hold is running. It exists until hold has returned, even after the slot was lost.
type heldSlot struct {
	Held
	cancel context.CancelCauseFunc
	// stopping is set when cancel was called; hold may still be running.
	stopping  bool
	stoppedAt time.Time
	// abandoned means that the slot was released before hold returned.
	abandoned bool
}

// run is the state of one call of Run. Only the goroutine of loop queries the database and changes the fields above mu.
type run struct {
	*Leases
	hold     func(ctx context.Context, h Held)
	returned chan *heldSlot
	// unreleased are slots that this node no longer works on but that are still assigned to it in the database.
	unreleased []Held
	// prepared: the rows of the slots exist. joined: other nodes were woken after the first renewal.
	prepared, joined bool
	// renewedAt is when the last renewal began. lenience is how old the leases of other nodes may be, until lenientUntil:
	// after an outage, they expired for the same reason as this node's.
	renewedAt, lenientUntil time.Time
	lenience                time.Duration
	// failing: the last beat failed. isLeaving: the context of Run has ended.
	failing, isLeaving bool

	// mu guards the fields below, which the timer's function and the loop share.
	mu   sync.Mutex
	held map[int]*heldSlot
	// term numbers the successful renewals, so that a timer of an earlier one has no effect.
	term  int
	timer *time.Timer
}

// loop beats until ctx has ended and every hold has returned.
func (r *run) loop(ctx context.Context, wakeUps <-chan struct{}) {
	stopped := ctx.Done()
	// The leases must be renewed until the last hold has returned, which is after ctx has ended.
	work := context.WithoutCancel(ctx)
	for {
		wait := r.beatAndLog(ctx, work)
		next := time.NewTimer(wait)
	waiting:
		for {
			if r.isLeaving && r.heldCount() == 0 {
				next.Stop()
				r.leave(work)
				return
			}
			select {
			case <-stopped:
				stopped, r.isLeaving = nil, true // a nil channel is never ready: this case runs once
				break waiting
			case h := <-r.returned:
				r.collectReturned(h)
				r.releaseNow(work)
			case <-wakeUps:
				break waiting
			case <-next.C:
				break waiting
			}
		}
		next.Stop()
	}
}

// retries is how often a failed beat is retried within the time of one beat.
const retries = 4

// beatAndLog does one beat and returns the time until the next one. It logs only when beats start to fail and when
// they succeed again. The holds that it starts end with ctx; its queries run under work.
func (r *run) beatAndLog(ctx, work context.Context) (wait time.Duration) {
	err := r.runBeat(ctx, work)
	if err == nil {
		if r.failing {
			r.failing = false
			r.deps.Log.LogAttrs(work, slog.LevelInfo, "leases are renewed again", slog.String(logkey.Kind, r.deps.Kind))
		}
		return r.deps.Config.Beat
	}
	if !r.failing {
		r.failing = true
		r.deps.Log.LogAttrs(work, slog.LevelWarn, "cannot renew leases", slog.String(logkey.Kind, r.deps.Kind), slog.Any(logkey.Error, err))
	}
	return r.deps.Config.Beat / retries
}

// runBeat releases what is no longer worked on, renews this node's row, and then adjusts the held slots to the live
// nodes that the renewal returned.
func (r *run) runBeat(ctx, work context.Context) error {
	work, cancel := context.WithTimeout(work, r.deps.Config.Beat)
	defer cancel()
	if !r.prepared {
		// Nothing deletes the rows of the slots.
		if err := r.queries().Prepare(work, db.PrepareParams{Kind: r.deps.Kind, Last: int32(r.deps.Slots - 1)}); err != nil {
			return err
		}
		r.prepared = true
	}
	if err := r.releaseUnreleased(work); err != nil {
		return err
	}
	s, err := r.renewWithTimer(work)
	if err != nil {
		return err
	}
	r.stopLostSlots(s)
	r.abandonStuckSlots(work)
	// The set of nodes has changed: others must release slots to this node, or can prepare to take its slots.
	if !r.joined || r.isLeaving {
		r.joined = true
		r.wakeOthers(work)
	}
	return r.claimSlots(ctx, work, s)
}

// renewWithTimer renews this node's row and starts the timer that stops all holds unless another renewal succeeds.
// The timer starts before the query is sent, and the database counts the TTL from when it gets the query. So the timer
// is never late, whatever the query takes.
func (r *run) renewWithTimer(ctx context.Context) (snapshot, error) {
	r.mu.Lock()
	term := r.term + 1
	r.mu.Unlock()
	c := r.deps.Config
	timer := time.AfterFunc(c.TTL-c.TTL/marginDivisor+c.Grace, func() { r.stopAll(ctx, term) })
	now := r.deps.Now()
	if away := now.Sub(r.renewedAt); !r.renewedAt.IsZero() && away > c.TTL {
		r.lenience, r.lenientUntil = away, now.Add(c.TTL)
	}
	lenience := time.Duration(0)
	if now.Before(r.lenientUntil) {
		lenience = r.lenience + c.TTL
	}
	s, err := r.renew(ctx, lenience, r.isLeaving)
	if err != nil {
		timer.Stop() // the timer of the last successful renewal keeps running
		return s, err
	}
	r.renewedAt = now
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
	}
	r.term, r.timer = term, timer
	r.beat.Set(float64(r.deps.Now().Unix()))
	return s, nil
}

// stopAll stops all holds because other nodes may soon take over their slots. The timer of a renewal calls it, in its
// own goroutine; it does nothing if there was a later renewal.
func (r *run) stopAll(ctx context.Context, term int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.term != term || len(r.held) == 0 {
		return
	}
	r.lapses.Inc()
	r.deps.Log.LogAttrs(ctx, slog.LevelError, "leases expired, stopping all slots", slog.String(logkey.Kind, r.deps.Kind), slog.Int(logkey.Slots, len(r.held)))
	for _, h := range r.held {
		h.stop(ErrLapsed, r.deps.Now())
	}
}

// stop cancels the hold. The caller must hold run.mu.
func (h *heldSlot) stop(why error, now time.Time) {
	if !h.stopping {
		h.stopping, h.stoppedAt = true, now
	}
	h.cancel(why)
}

// stopLostSlots stops the holds of slots that are no longer this node's in the database, that it took before the
// database was restored or failed over, or that should be another node's. A leaving node does not look at the latter:
// all of its holds are ending anyway.
func (r *run) stopLostSlots(s snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for slot, h := range r.held {
		epoch, mine := s.mine[slot]
		switch {
		case h.stopping:
		case !mine || epoch != h.Epoch || epoch < s.firstEpoch:
			h.stop(ErrLapsed, r.deps.Now())
		case !r.isLeaving && r.ownerOf(slot, s) != r.deps.Node:
			h.stop(ErrMoved, r.deps.Now())
		}
	}
}

// abandonStuckSlots releases the slots of holds that were stopped and do not return.
func (r *run) abandonStuckSlots(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.held {
		if !h.stopping || h.abandoned || r.deps.Now().Sub(h.stoppedAt) < r.deps.Config.Patience {
			continue
		}
		h.abandoned = true
		r.stuck.Inc()
		r.unreleased = append(r.unreleased, h.Held)
		r.deps.Log.LogAttrs(ctx, slog.LevelError, "work on a slot does not end, giving the slot away", slog.String(logkey.Kind, r.deps.Kind), slog.Int(logkey.Slot, h.Slot))
	}
}

func (r *run) ownerOf(slot int, s snapshot) string { return preferredNode(r.deps.Kind, slot, s.nodes) }

// claimSlots takes the free slots that should be this node's, and starts their holds. The database may assign slots to
// this node that it does not work on, because the response to an earlier query was lost. These are taken again with a
// new epoch, or released.
func (r *run) claimSlots(ctx, work context.Context, s snapshot) error {
	var wanted []int32
	r.mu.Lock()
	for slot := range r.deps.Slots {
		epoch, mine := s.mine[slot]
		switch {
		case r.held[slot] != nil:
		case !r.isLeaving && r.ownerOf(slot, s) == r.deps.Node:
			wanted = append(wanted, int32(slot))
		case mine:
			r.unreleased = append(r.unreleased, Held{slot, epoch})
		}
	}
	r.mu.Unlock()
	if err := r.releaseUnreleased(work); err != nil || len(wanted) == 0 {
		return err
	}
	taken, err := r.takeSlots(work, wanted)
	if err != nil {
		return err
	}
	for _, h := range taken {
		r.startHold(ctx, h)
	}
	if len(taken) > 0 {
		r.deps.Log.LogAttrs(work, slog.LevelInfo, "slots taken", slog.String(logkey.Kind, r.deps.Kind), slog.Int(logkey.Slots, len(taken)), slog.Int(logkey.Held, r.heldCount()))
	}
	return nil
}

func (r *run) startHold(ctx context.Context, held Held) {
	ctx, cancel := context.WithCancelCause(ctx)
	h := &heldSlot{Held: held, cancel: cancel, stopping: false}
	r.mu.Lock()
	r.held[h.Slot] = h
	r.Leases.held.Set(float64(len(r.held)))
	r.mu.Unlock()
	go func() {
		r.hold(ctx, held)
		cancel(nil)
		r.returned <- h // loop receives it: it does not end while a hold is running
	}()
}

// collectReturned removes h, whose hold has returned, and all others that have returned in the meantime, so that they
// are released with one query.
func (r *run) collectReturned(h *heldSlot) {
	for {
		r.mu.Lock()
		delete(r.held, h.Slot)
		r.Leases.held.Set(float64(len(r.held)))
		r.mu.Unlock()
		r.unreleased = append(r.unreleased, h.Held)
		select {
		case h = <-r.returned:
		default:
			return
		}
	}
}

// releaseNow releases slots without waiting for the next beat. If it fails, the next beat retries.
func (r *run) releaseNow(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.deps.Config.Beat)
	defer cancel()
	if err := r.releaseUnreleased(ctx); err != nil && !r.failing {
		r.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot release slots, will retry", slog.String(logkey.Kind, r.deps.Kind), slog.Any(logkey.Error, err))
	}
}

// releaseUnreleased makes the slots that this node no longer works on free for others, and wakes them.
func (r *run) releaseUnreleased(ctx context.Context) error {
	if len(r.unreleased) == 0 {
		return nil
	}
	if err := r.releaseSlots(ctx, r.unreleased); err != nil {
		return err
	}
	r.deps.Log.LogAttrs(ctx, slog.LevelInfo, "slots released", slog.String(logkey.Kind, r.deps.Kind), slog.Int(logkey.Slots, len(r.unreleased)), slog.Int(logkey.Held, r.heldCount()))
	r.unreleased = nil
	r.wakeOthers(ctx)
	return nil
}

func (r *run) heldCount() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.held)
}

// leave releases the last slots and deletes this node's row, so that the others need not wait for the TTL. If the
// database is unavailable, the row expires.
func (r *run) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.deps.Config.Beat)
	defer cancel()
	r.mu.Lock()
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	err := r.releaseUnreleased(ctx)
	if err == nil {
		err = r.queries().Leave(ctx, db.LeaveParams{Kind: r.deps.Kind, Holder: r.deps.Node})
	}
	if err != nil {
		r.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot release leases, they will expire", slog.String(logkey.Kind, r.deps.Kind), slog.Any(logkey.Error, err))
		return
	}
	r.wakeOthers(ctx)
}
