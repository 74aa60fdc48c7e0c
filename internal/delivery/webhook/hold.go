package webhook

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// holding is a bucket that this node has.
type holding struct {
	epoch int64
	// do runs something with the context of the bucket's deliveries, which ends when they must.
	do func(func(context.Context))
	// lose ends it at once; lost is closed then.
	lose func()
	lost <-chan struct{}
	// landed is signalled whenever a delivery ends.
	landed chan struct{}
}

// Committed tells of events that were just stored, of buckets that this node has. It does not wait for anything. Whoever does not know
// how a commit ended must end the bucket's Hold and begin another one, which looks into the store.
func (w *Webhooks) Committed(list []event.Stored) {
	w.mu.Lock()
	now := w.Now()
	w.machine.Committed(list, now)
	for i := range list {
		if list[i].Kind == event.KindDisconnected {
			w.machine.Invalidate(list[i].Org, list[i].Source) // its webhook is gone, and nobody may have told of it
		}
	}
	job := w.advance(now)
	w.mu.Unlock()
	w.spawn(job)
}

// Hold delivers the events of a bucket until the context ends, or until a newer lease has it. When it returns, everything is written
// that whoever has it next must know.
func (w *Webhooks) Hold(ctx context.Context, bucket int, epoch int64) {
	sends, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	lost := make(chan struct{})
	h := &holding{
		epoch: epoch, do: func(do func(context.Context)) { do(sends) }, lost: lost, landed: make(chan struct{}, 1),
		lose: sync.OnceFunc(func() { close(lost); cancel() }),
	}
	w.mu.Lock()
	w.held[bucket] = h
	w.machine.Take(bucket, epoch, h)
	w.mu.Unlock()
	defer w.drop(bucket, h)
	if !w.takeOver(ctx, bucket, epoch, h) {
		return
	}
	var ears sync.WaitGroup
	hearing, deaf := context.WithCancel(ctx)
	ears.Go(func() { w.hear(hearing, bucket) })
	select {
	case <-ctx.Done():
	case <-h.lost:
	}
	deaf()
	ears.Wait()
	w.settle(bucket, h, cancel)
}

// retryAfter is how long to wait for a database that is away.
const retryAfter = 250 * time.Millisecond

// takeOver loads what the database has of a bucket, and says whether it is ours.
func (w *Webhooks) takeOver(ctx context.Context, bucket int, epoch int64, h *holding) bool {
	for {
		err := w.load(ctx, bucket, epoch)
		switch {
		case err == nil:
			return true
		case errors.Is(err, errFenced):
			h.lose()
			return false
		case ctx.Err() == nil:
			w.Log.LogAttrs(ctx, slog.LevelWarn, "webhooks of a bucket not loaded", slog.Int("bucket", bucket), slog.Any("error", err))
		}
		if !clock.Pause(ctx, retryAfter) {
			return false
		}
	}
}

func (w *Webhooks) load(ctx context.Context, bucket int, epoch int64) error {
	floor, clean, err := claim(ctx, w.DB.Pool(), bucket, epoch)
	if err != nil {
		return err
	}
	rows, err := lanes(ctx, w.DB.Pool(), bucket)
	if err != nil {
		return err
	}
	from := floor
	if !clean {
		from = floor.Add(-w.Config.Margin)
	}
	behind, err := w.behind(ctx, bucket, from, rows)
	if err != nil {
		return err
	}
	w.mu.Lock()
	now := w.Now()
	if w.machine.Holds(bucket, epoch) {
		w.machine.Loaded(bucket, from, rows, behind, now)
	}
	job := w.advance(now)
	w.mu.Unlock()
	w.spawn(job)
	signal(w.wake)
	return nil
}

// behind are the bucket's accounts that may have events to be delivered and no row that tells from where.
func (w *Webhooks) behind(ctx context.Context, bucket int, from time.Time, rows []lane.Row) ([]lane.Behind, error) {
	heads, err := w.Events.Heads(ctx, bucket, from)
	if err != nil {
		return nil, err
	}
	placed := map[string]bool{}
	for _, r := range rows {
		placed[r.Source] = r.Cursor >= 0
	}
	byName := map[string]event.HeadRow{}
	var names []string
	for _, h := range heads {
		if !placed[h.Source] {
			byName[h.Source] = h
			names = append(names, h.Source)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	names, err = existing(ctx, w.DB.Pool(), names)
	if err != nil {
		return nil, err
	}
	list := make([]lane.Behind, 0, len(names))
	for _, name := range names {
		h := byName[name]
		cursor, err := w.Events.SeqAt(ctx, h.Org, name, from)
		if err != nil {
			return nil, err
		}
		list = append(list, lane.Behind{Org: h.Org, Source: name, Cursor: cursor, Head: h.LastSeq})
	}
	return list, nil
}

// settle ends a bucket's deliveries: what is under way may finish, then what is pending is written down.
func (w *Webhooks) settle(bucket int, h *holding, cancel func()) {
	w.mu.Lock()
	w.machine.Stop(bucket)
	flying := w.machine.Flying(bucket)
	w.mu.Unlock()
	patience := time.NewTimer(w.Config.Patience)
	defer patience.Stop()
	for flying > 0 {
		select {
		case <-h.landed:
		case <-h.lost:
		case <-patience.C:
			cancel()
		}
		w.mu.Lock()
		flying = w.machine.Flying(bucket)
		w.mu.Unlock()
		if flying > 0 && isClosed(h.lost) {
			<-h.landed // they were broken off, and land at once
		}
	}
	if !isClosed(h.lost) {
		h.do(func(ctx context.Context) {
			ctx, end := context.WithTimeout(context.WithoutCancel(ctx), flushAtMost)
			defer end()
			w.flushOrLog(ctx)
		})
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (w *Webhooks) drop(bucket int, h *holding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[bucket] == h {
		delete(w.held, bucket)
		w.machine.Drop(bucket)
	}
}

// loadBatch is how many webhooks are read at once.
const loadBatch = 500

// loadLoop reads the webhooks that lanes ask for.
func (w *Webhooks) loadLoop(ctx context.Context) {
	every(ctx, time.Minute, w.loads, func(ctx context.Context) {
		for {
			w.mu.Lock()
			list := w.machine.NextLoads(loadBatch)
			w.mu.Unlock()
			if len(list) == 0 {
				return
			}
			w.configure(ctx, list)
			if ctx.Err() != nil {
				return
			}
		}
	})
}

func (w *Webhooks) configure(ctx context.Context, list []*lane.Lane) {
	names := make([]string, len(list))
	for i, l := range list {
		names[i] = l.Source()
	}
	found, err := w.hooks(ctx, names)
	if err != nil {
		if ctx.Err() == nil {
			w.Log.LogAttrs(ctx, slog.LevelWarn, "webhooks not read", slog.Any("error", err))
		}
		clock.Pause(ctx, retryAfter)
	}
	w.mu.Lock()
	now := w.Now()
	closed := 0
	for _, l := range list {
		hook, ok := found[l.Source()]
		switch {
		case err != nil:
			w.machine.Unconfigured(l)
		case ok && hook == nil:
			closed++
			w.machine.Unconfigured(l)
		default:
			w.machine.Configured(l, hook, now)
		}
	}
	job := w.advance(now)
	w.mu.Unlock()
	w.spawn(job)
	if closed > 0 { // their keys cannot be read now
		clock.Pause(ctx, retryAfter)
	}
}

// hooks reads webhooks by their accounts. One that is there and cannot be opened now is nil; one that is not there is missing.
func (w *Webhooks) hooks(ctx context.Context, accounts []string) (map[string]*lane.Hook, error) {
	rows, err := loadHooks(ctx, w.DB.Pool(), accounts)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*lane.Hook, len(rows))
	days := map[id.Org]int{}
	for i := range rows {
		owner := rows[i].Org
		if _, known := days[owner]; !known {
			found, err := w.Orgs.Get(ctx, owner)
			if err != nil {
				return nil, err
			}
			days[owner] = found.Limits.EventRetentionDays
		}
		hook, gone, err := w.hook(ctx, &rows[i], days[owner])
		if gone {
			continue
		}
		if err != nil {
			w.Log.LogAttrs(ctx, slog.LevelWarn, "webhook not opened", slog.String("account", rows[i].Account), slog.Any("error", err))
		}
		found[rows[i].Account] = hook
	}
	return found, nil
}

// advance begins what can be: one delivery is for the caller, who has the lock and must pass it on to spawn or carry it out.
func (w *Webhooks) advance(now time.Time) *lane.Job {
	for {
		p, ok := w.machine.NextRead()
		if !ok {
			break
		}
		w.workers.Go(func() { w.read(p) })
	}
	mine := w.machine.Next(now)
	if mine != nil {
		for job := w.machine.Next(now); job != nil; job = w.machine.Next(now) {
			w.workers.Go(func() { w.work(job) })
		}
	}
	if w.machine.Loading() {
		signal(w.loads)
	}
	if w.machine.Sooner() {
		signal(w.timers)
	}
	return mine
}

// spawn carries out a delivery that advance gave.
func (w *Webhooks) spawn(job *lane.Job) {
	if job != nil {
		w.workers.Go(func() { w.work(job) })
	}
}

// read reads a lane's next events.
func (w *Webhooks) read(p lane.Page) {
	w.mu.Lock()
	h := w.held[event.Bucket(p.Lane.Source())]
	w.mu.Unlock()
	var (
		list []event.Stored
		err  = errFenced
	)
	if h != nil {
		h.do(func(ctx context.Context) {
			list, err = w.Events.After(ctx, p.Lane.Org(), p.Lane.Source(), p.After, w.since(p.Hook), w.Config.Lane.Page)
			if err != nil && ctx.Err() == nil {
				w.Log.LogAttrs(ctx, slog.LevelWarn, "events for a webhook not read", slog.String("account", p.Lane.Source()), slog.Any("error", err))
				clock.Pause(ctx, retryAfter)
			}
		})
	}
	w.mu.Lock()
	now := w.Now()
	if err != nil {
		w.machine.ReadFailed(p, now)
	} else {
		w.machine.Read(p, list, len(list) < w.Config.Lane.Page, now)
	}
	job := w.advance(now)
	w.mu.Unlock()
	w.work(job)
}

// since is from when on the webhook's org may read events.
func (w *Webhooks) since(h *lane.Hook) time.Time { return event.Since(w.Now(), endpointOf(h).days) }
