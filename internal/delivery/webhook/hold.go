package webhook

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// holding is a bucket that this node holds.
type holding struct {
	epoch int64
	// run calls a function with the context of the bucket's deliveries. It ends when they must end.
	run func(func(context.Context))
	// lose cancels the deliveries and closes lost, because a newer lease holds the bucket.
	lose func()
	lost <-chan struct{}
	// deliveryEnded is signalled when a delivery ends.
	deliveryEnded chan struct{}
	// feeds are the endpoints of the bucket that run, guarded by Webhooks.mu; nil until the bucket is loaded and after it ends.
	feeds map[id.Endpoint]*feedRun
	// newEndpoint carries endpoints that were created.
	newEndpoint chan endpointRef
}

// Committed reports events of buckets that this node holds, right after they were stored. It does not block. A caller
// that does not know whether a commit succeeded must end the bucket's Hold and start another, which reads the store.
func (w *Webhooks) Committed(list []event.Stored) {
	w.mu.Lock()
	now := w.deps.Now()
	w.machine.Committed(list, now)
	for i := range list {
		if list[i].Kind == contract.KindAccountDisconnected {
			w.machine.Invalidate(list[i].Org, list[i].Source) // its webhook was deleted; the message may have been lost
		}
	}
	job := w.startWork(now)
	w.mu.Unlock()
	w.spawn(job)
}

// Hold delivers the events of a bucket until the context ends or a newer lease holds the bucket. When it returns, it
// has written the progress that the next holder needs.
func (w *Webhooks) Hold(ctx context.Context, bucket int, epoch int64) {
	sends, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	lost := make(chan struct{})
	h := &holding{
		epoch: epoch, run: func(do func(context.Context)) { do(sends) }, lost: lost,
		deliveryEnded: make(chan struct{}, 1), newEndpoint: make(chan endpointRef, 64), lose: sync.OnceFunc(func() { close(lost); cancel() }),
	}
	w.mu.Lock()
	w.held[bucket] = h
	w.machine.HoldBucket(bucket, epoch, h)
	w.mu.Unlock()
	defer w.releaseBucket(bucket, h)
	if !w.takeOver(ctx, bucket, epoch, h) {
		return
	}
	var listeners sync.WaitGroup
	listening, stopListening := context.WithCancel(ctx)
	listeners.Go(func() { w.listenEphemeral(listening, bucket) })
	listeners.Go(func() { w.runEndpoints(listening, bucket, h) })
	select {
	case <-ctx.Done():
	case <-h.lost:
	}
	stopListening()
	listeners.Wait()
	w.finishBucket(bucket, h, cancel)
}

// retryAfter is the pause after a failed query.
const retryAfter = 250 * time.Millisecond

// takeOver loads a bucket, and retries until it succeeds. It returns false if the context ended or a newer lease holds
// the bucket.
func (w *Webhooks) takeOver(ctx context.Context, bucket int, epoch int64, h *holding) bool {
	for {
		err := w.loadBucket(ctx, bucket, epoch)
		switch {
		case err == nil:
			return true
		case errors.Is(err, errFenced):
			h.lose()
			return false
		case ctx.Err() == nil:
			w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot load webhooks of bucket",
				slog.Int(logkey.Bucket, bucket), slog.Any(logkey.Error, err))
		}
		if !clock.Pause(ctx, retryAfter) {
			return false
		}
	}
}

// loadBucket claims a bucket in the database and starts its lanes from what is stored.
func (w *Webhooks) loadBucket(ctx context.Context, bucket int, epoch int64) error {
	checkpoint, clean, err := claimBucket(ctx, w.deps.DB, bucket, epoch)
	if err != nil {
		return err
	}
	rows, err := readLanes(ctx, w.deps.DB, bucket)
	if err != nil {
		return err
	}
	from := checkpoint
	if !clean { // the last holder's clock may have been ahead
		from = checkpoint.Add(-w.deps.Config.Margin)
	}
	backlogs, err := w.backlogs(ctx, bucket, from, rows)
	if err != nil {
		return err
	}
	w.mu.Lock()
	now := w.deps.Now()
	if w.machine.HoldsBucket(bucket, epoch) {
		w.machine.BucketLoaded(bucket, from, rows, backlogs, now)
	}
	job := w.startWork(now)
	w.mu.Unlock()
	w.spawn(job)
	signal(w.sideDue)
	return nil
}

// backlogs returns the accounts of a bucket that have events after a time, a webhook, and no stored cursor.
func (w *Webhooks) backlogs(ctx context.Context, bucket int, from time.Time, rows []lane.Row) ([]lane.Backlog, error) {
	heads, err := w.deps.Events.Heads(ctx, bucket, from)
	if err != nil {
		return nil, err
	}
	hasCursor := map[string]bool{}
	for _, r := range rows {
		hasCursor[r.Source] = r.Cursor >= 0
	}
	byName := map[string]event.HeadRow{}
	var names []string
	for _, h := range heads {
		if !hasCursor[h.Source] {
			byName[h.Source] = h
			names = append(names, h.Source)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	names, err = withWebhook(ctx, w.deps.DB, names)
	if err != nil {
		return nil, err
	}
	list := make([]lane.Backlog, 0, len(names))
	for _, name := range names {
		h := byName[name]
		cursor, err := w.deps.Events.SeqAt(ctx, h.Org, name, from)
		if err != nil {
			return nil, err
		}
		list = append(list, lane.Backlog{Org: h.Org, Source: name, Cursor: cursor, Head: h.LastSeq})
	}
	return list, nil
}

// finishBucket stops a bucket, waits for its deliveries in flight, cancels them after Config.Patience, and writes the
// progress. If the bucket was lost it writes nothing.
func (w *Webhooks) finishBucket(bucket int, h *holding, cancel func()) {
	w.mu.Lock()
	w.machine.StopBucket(bucket)
	inFlight := w.machine.InFlight(bucket)
	w.mu.Unlock()
	patience := time.NewTimer(w.deps.Config.Patience)
	defer patience.Stop()
	for inFlight > 0 {
		select {
		case <-h.deliveryEnded:
		case <-h.lost:
		case <-patience.C:
			cancel()
		}
		w.mu.Lock()
		inFlight = w.machine.InFlight(bucket)
		w.mu.Unlock()
		if inFlight > 0 && isClosed(h.lost) {
			<-h.deliveryEnded // the deliveries were cancelled and end soon
		}
	}
	if !isClosed(h.lost) {
		h.run(func(ctx context.Context) {
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

// releaseBucket removes a bucket from memory, unless a newer Hold has replaced this one.
func (w *Webhooks) releaseBucket(bucket int, h *holding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[bucket] == h {
		delete(w.held, bucket)
		w.machine.DropBucket(bucket)
	}
}

// loadBatch is how many webhooks one query reads.
const loadBatch = 500

// loadLoop reads the webhooks that lanes request.
func (w *Webhooks) loadLoop(ctx context.Context) {
	every(ctx, time.Minute, w.loadWanted, func(ctx context.Context) {
		for {
			w.mu.Lock()
			list := w.machine.NextHookLoads(loadBatch)
			w.mu.Unlock()
			if len(list) == 0 {
				return
			}
			w.loadHooks(ctx, list)
			if ctx.Err() != nil {
				return
			}
		}
	})
}

func (w *Webhooks) loadHooks(ctx context.Context, list []lane.HookLoad) {
	names := make([]string, len(list))
	for i, load := range list {
		names[i] = load.Lane.Source()
	}
	found, err := w.readHooks(ctx, names)
	if err != nil {
		if ctx.Err() == nil {
			w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot read webhooks", slog.Any(logkey.Error, err))
		}
		clock.Pause(ctx, retryAfter)
	}
	w.mu.Lock()
	now := w.deps.Now()
	closed := 0
	for _, load := range list {
		hook, ok := found[load.Lane.Source()]
		switch {
		case err != nil:
			w.machine.HookLoadFailed(load)
		case ok && hook == nil:
			closed++
			w.machine.HookLoadFailed(load)
		default:
			w.machine.HookLoaded(load, hook, now)
		}
	}
	job := w.startWork(now)
	w.mu.Unlock()
	w.spawn(job)
	if closed > 0 { // their keys cannot be read now: do not retry in a tight loop
		clock.Pause(ctx, retryAfter)
	}
}

// readHooks reads webhooks by account. A webhook whose secret cannot be opened now is nil. Accounts without a webhook
// are absent.
func (w *Webhooks) readHooks(ctx context.Context, accounts []string) (map[string]*lane.Hook, error) {
	rows, err := readHookRecords(ctx, w.deps.DB, accounts)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*lane.Hook, len(rows))
	days := map[id.Org]int{}
	for i := range rows {
		owner := rows[i].Org
		if _, known := days[owner]; !known {
			found, err := w.deps.Orgs.Get(ctx, owner)
			if err != nil {
				return nil, err
			}
			days[owner] = found.Limits.EventRetentionDays
		}
		hook, gone, err := w.buildHook(ctx, &rows[i], days[owner])
		if gone {
			continue
		}
		if err != nil {
			w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot open webhook secret",
				slog.String(logkey.Account, rows[i].Account), slog.Any(logkey.Error, err))
		}
		found[rows[i].Account] = hook
	}
	return found, nil
}

// startWork starts the reads and deliveries that the machine has ready. The caller holds mu. It returns one delivery
// that the caller must carry out, or pass to spawn after unlocking: a goroutine that delivers continues with the next
// delivery instead of starting another goroutine.
func (w *Webhooks) startWork(now time.Time) *lane.Job {
	for p := w.machine.NextRead(); p != nil; p = w.machine.NextRead() {
		w.workers.Go(func() { w.readPage(p) })
	}
	mine := w.machine.Next(now)
	if mine != nil {
		for job := w.machine.Next(now); job != nil; job = w.machine.Next(now) {
			w.workers.Go(func() { w.deliver(job) })
		}
	}
	if w.machine.HasHookLoads() {
		signal(w.loadWanted)
	}
	if w.machine.Sooner() {
		signal(w.timerSet)
	}
	return mine
}

// spawn carries out a delivery from startWork in a goroutine.
func (w *Webhooks) spawn(job *lane.Job) {
	if job != nil {
		w.workers.Go(func() { w.deliver(job) })
	}
}

// readPage reads the next events of a lane.
func (w *Webhooks) readPage(p *lane.Page) {
	var (
		list []event.Stored
		err  = errFenced
	)
	if h, held := p.Holder.(*holding); held {
		h.run(func(ctx context.Context) {
			since := w.readableSince(endpointOf(p.Hook).days)
			list, err = w.deps.Events.After(ctx, p.Lane.Org(), p.Lane.Source(), p.After, since, w.deps.Config.Lane.Page)
			if err != nil && ctx.Err() == nil {
				w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot read events for webhook",
					slog.String(logkey.Account, p.Lane.Source()), slog.Any(logkey.Error, err))
				clock.Pause(ctx, retryAfter)
			}
		})
	}
	w.mu.Lock()
	now := w.deps.Now()
	if err != nil {
		w.machine.ReadFailed(p, now)
	} else {
		w.machine.Read(p, list, len(list) < w.deps.Config.Lane.Page, now)
	}
	job := w.startWork(now)
	w.mu.Unlock()
	w.deliver(job)
}
