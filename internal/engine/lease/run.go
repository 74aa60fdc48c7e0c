package lease

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/lease/internal/db"
)

// run is one call of Run: it does what the assignment decides. Only the goroutine of loop queries the database and changes
// the assignment, except that the timer stops holds.
type run struct {
	*Leases
	hold func(ctx context.Context, h Held)
	// ended receives the slots whose hold has returned.
	ended chan *heldSlot
	// prepared: the rows of the slots exist. joined: other nodes were woken after the first renewal. failing: the last beat
	// failed.
	prepared, joined, failing bool

	// mu guards held and lapsesAt of the assignment, and timer, which calls lapseNow.
	mu sync.Mutex
	assignment
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
			case h := <-r.ended:
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
	now := clock.Now()
	r.mu.Lock()
	r.stopLost(s, now)
	stuck := r.abandonStuck(now)
	r.mu.Unlock()
	for _, h := range stuck {
		r.stuck.Inc()
		r.deps.Log.LogAttrs(work, slog.LevelError, "work on a slot does not end, giving the slot away", slog.String(logkey.Kind, r.deps.Kind), slog.Int(logkey.Slot, h.Slot))
	}
	// The set of nodes has changed: others must release slots to this node, or can prepare to take its slots.
	if !r.joined || r.isLeaving {
		r.joined = true
		r.wakeOthers(work)
	}
	return r.claimSlots(ctx, work, s)
}

// renewWithTimer renews this node's row and starts the timer that stops all holds unless another renewal succeeds. Until
// then the timer of the last successful renewal keeps running.
func (r *run) renewWithTimer(ctx context.Context) (snapshot, error) {
	began := clock.Now() // has a monotonic reading
	s, err := r.renew(ctx, r.lenienceAt(began), r.isLeaving)
	if err != nil {
		return s, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renewed(began, &s)
	if r.timer != nil {
		r.timer.Stop()
	}
	r.timer = time.AfterFunc(time.Until(r.lapsesAt), func() { r.lapseNow(ctx) })
	r.beat.Set(float64(r.deps.Now().Unix()))
	return s, nil
}

// lapseNow stops all holds if the leases were not renewed in time. The timer of a renewal calls it, in its own goroutine.
func (r *run) lapseNow(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lapse(clock.Now()) {
		r.lapses.Inc()
		r.deps.Log.LogAttrs(ctx, slog.LevelError, "leases expired, stopping all slots", slog.String(logkey.Kind, r.deps.Kind), slog.Int(logkey.Slots, len(r.assignment.held)))
	}
}

// claimSlots takes the free slots that should be this node's, and starts their holds.
func (r *run) claimSlots(ctx, work context.Context, s snapshot) error {
	r.mu.Lock()
	wanted := r.wanted(s)
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
	r.mu.Lock()
	h := r.start(held, cancel)
	r.Leases.held.Set(float64(len(r.assignment.held)))
	r.mu.Unlock()
	go func() {
		r.hold(ctx, held)
		cancel(nil)
		r.ended <- h // loop receives it: it does not end while a hold is running
	}()
}

// collectReturned removes h, whose hold has returned, and all others that have returned in the meantime, so that they
// are released with one query.
func (r *run) collectReturned(h *heldSlot) {
	for {
		r.mu.Lock()
		r.returned(h)
		r.Leases.held.Set(float64(len(r.assignment.held)))
		r.mu.Unlock()
		select {
		case h = <-r.ended:
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
	return len(r.assignment.held)
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
