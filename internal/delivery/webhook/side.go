package webhook

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// sideKind is the reason for a side delivery.
type sideKind string

const (
	// sideRetry is an event that its lane gave up on. It is retried on the usual schedule until Config.Lane.GiveUp.
	sideRetry sideKind = CauseRetry
	// sideRedeliver is an event that the owner requested again. It is tried once, even if the webhook is paused.
	sideRedeliver sideKind = CauseRedeliver
	// sideReplay is a range of events that the owner requested again.
	sideReplay sideKind = CauseReplay
)

// sideDelivery is a range of events that is delivered separately from the lane, out of order. It is stored in table
// webhook_errand until it is complete.
type sideDelivery struct {
	org     id.Org
	account string
	id      string
	kind    sideKind
	// from and to are the first and the last event, cursor is the last that is done.
	from, to, cursor int64
	// events are the kinds to deliver; nil means all.
	events []string
	// onlyFailed skips events that were delivered successfully before.
	onlyFailed bool
	// attempt counts the failed attempts of the event after cursor.
	attempt int
	since   time.Time
	nextAt  time.Time
}

func newSideID() string { return "whr_" + strings.TrimPrefix(string(id.New[id.Delivery]()), "whd_") }

// newRetry returns the side delivery of an event that its lane gave up on.
func newRetry(e *lane.SideDelivery) sideDelivery {
	return sideDelivery{
		org: e.Org, account: e.Source, id: newSideID(), kind: sideRetry, from: e.Seq, to: e.Seq, cursor: e.Seq - 1, attempt: e.Attempt,
		since: e.Since, nextAt: e.NextAt,
	}
}

// running tracks the side deliveries that this node runs, so that none runs twice at the same time.
type running struct {
	mu  sync.Mutex
	ids map[string]bool
	// ended holds those that ended since startListing: a list that was being read may still contain them.
	ended map[string]bool
}

// startListing must be called before the list of due side deliveries is read.
func (r *running) startListing() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = map[string]bool{}
}

// start reports whether a side delivery may start: it is not running, did not end since startListing, and fewer than
// most are running.
func (r *running) start(id string, most int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids[id] || r.ended[id] || len(r.ids) >= most {
		return false
	}
	r.ids[id] = true
	return true
}

func (r *running) finish(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ids, id)
	r.ended[id] = true
}

func (w *Webhooks) sideLoop(ctx context.Context) {
	every(ctx, w.deps.Config.PollEvery, w.sideDue, w.startDueSideDeliveries)
}

// startDueSideDeliveries starts those of the buckets that this node holds, up to Config.SideDeliveries.
func (w *Webhooks) startDueSideDeliveries(ctx context.Context) {
	w.mu.Lock()
	buckets := make([]int16, 0, len(w.held))
	for b := range w.held {
		buckets = append(buckets, int16(b))
	}
	halted := w.machine.Halted()
	w.mu.Unlock()
	if halted || len(buckets) == 0 {
		return
	}
	w.sideRuns.startListing()
	w.startDueEndpointErrands(ctx, buckets)
	list, err := dueSideDeliveries(ctx, w.deps.DB, buckets, w.deps.Now(), w.deps.Config.SideDeliveries)
	if err != nil {
		if ctx.Err() == nil {
			w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot read side deliveries", slog.Any(logkey.Error, err))
		}
		return
	}
	for i := range list {
		e := &list[i]
		w.mu.Lock()
		h := w.held[event.Bucket(e.account)]
		w.mu.Unlock()
		if h == nil || !w.sideRuns.start(e.id, w.deps.Config.SideDeliveries) {
			continue
		}
		w.workers.Go(func() {
			defer w.sideRuns.finish(e.id)
			h.run(func(ctx context.Context) { w.runSideDelivery(ctx, e) })
		})
	}
}

func (w *Webhooks) runSideDelivery(ctx context.Context, e *sideDelivery) {
	err := w.runRange(ctx, e)
	if err != nil && ctx.Err() == nil {
		w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "side delivery failed",
			slog.String(logkey.Account, e.account), slog.Any(logkey.Error, err))
	}
}

// later is the delay of a side delivery that cannot be sent for a reason other than its receiver.
const later = 30 * time.Second

// runRange delivers the remaining events of a side delivery, page by page, and deletes it at the end. It saves the
// progress and returns early if an event must wait for a retry.
func (w *Webhooks) runRange(ctx context.Context, e *sideDelivery) error {
	if w.deps.Permits.Suspended(e.org) {
		e.since = e.since.Add(later) // the time of a suspension does not count towards GiveUp
		return w.postpone(ctx, e, later)
	}
	found, err := w.readHooks(ctx, []string{e.account})
	if err != nil {
		return err
	}
	hook, ok := found[e.account]
	switch {
	case !ok:
		return deleteSideDelivery(ctx, w.deps.DB, e)
	case hook == nil, e.kind != sideRedeliver && (isStopped(hook.Row) || w.isHostDown(e.org, hook.Host)):
		return w.postpone(ctx, e, later)
	case e.kind != sideRedeliver && w.deps.Now().Sub(e.since) > w.deps.Config.Lane.GiveUp:
		return deleteSideDelivery(ctx, w.deps.DB, e)
	}
	filter := event.StoredFilter(e.events)
	for e.cursor < e.to {
		page, err := w.deps.Events.After(ctx, e.org, e.account, e.cursor, w.readableSince(endpointOf(hook).days), w.deps.Config.Lane.Page)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		done, err := w.deliverPage(ctx, e, hook, filter, page)
		if err != nil || !done {
			return err
		}
		if wanted, err := saveSideProgress(ctx, w.deps.DB, e); err != nil || !wanted {
			return err
		}
	}
	return deleteSideDelivery(ctx, w.deps.DB, e)
}

func isStopped(r *lane.Row) bool {
	return r != nil && (r.State == lane.Paused || r.State == lane.Disabled)
}

func (w *Webhooks) isHostDown(org id.Org, host string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machine.IsHostDown(org, host)
}

func (w *Webhooks) postpone(ctx context.Context, e *sideDelivery, wait time.Duration) error {
	e.nextAt = w.deps.Now().Add(wait)
	_, err := saveSideProgress(ctx, w.deps.DB, e)
	return err
}

// deliverPage delivers a page of a side delivery. done is false if the page must be continued later; its progress is
// then saved.
func (w *Webhooks) deliverPage(
	ctx context.Context, e *sideDelivery, hook *lane.Hook, filter event.Filter, page []event.Stored,
) (done bool, err error) {
	var skip []int64
	if e.onlyFailed {
		to := min(page[len(page)-1].Seq, e.to)
		if skip, err = deliveredAmong(ctx, w.deps.DB, e, w.readableSince(org.Unlimited), page[0].Seq, to); err != nil {
			return false, err
		}
	}
	for i := range page {
		ev := &page[i]
		if ev.Seq > e.to {
			e.cursor = e.to
			return true, nil
		}
		if !filter.Match(ev.Kind) || slices.Contains(skip, ev.Seq) {
			e.cursor = ev.Seq
			continue
		}
		result, ok := w.sendWithPermit(ctx, e.org, hook.Host, func() lane.Result {
			return w.send(ctx, endpointOf(hook), ev, e.meta())
		})
		if !ok || result.Aborted {
			// The next holder of the bucket continues from here.
			_, err := saveSideProgress(context.WithoutCancel(ctx), w.deps.DB, e)
			return false, err
		}
		if eventDone := w.applyResult(e, ev, result); !eventDone {
			_, err := saveSideProgress(ctx, w.deps.DB, e)
			return false, err
		}
	}
	return true, nil
}

func (e *sideDelivery) meta() deliveryMeta {
	n := deliveryMeta{attempt: e.attempt + 1, cause: string(e.kind), late: e.kind == sideRetry}
	if e.kind != sideRetry {
		n.replay = e.id
	}
	return n
}

// applyResult updates a side delivery after an attempt. It reports whether the event is done; if not, nextAt is when to
// retry it.
func (w *Webhooks) applyResult(e *sideDelivery, ev *event.Stored, r lane.Result) (done bool) {
	outcome := lane.Classify(r)
	again := outcome == lane.Down || outcome == lane.Refused && e.kind == sideRetry
	if !again || e.kind == sideRedeliver {
		e.cursor, e.attempt = ev.Seq, 0
		if outcome == lane.Gone {
			e.cursor = e.to // the receiver wants nothing more
		}
		return true
	}
	e.attempt++
	wait := w.deps.Config.Lane.Delay(e.attempt, 0.9)
	e.nextAt = w.deps.Now().Add(max(wait, r.RetryAfter))
	return false
}

// sendWithPermit waits for a permit to send to a host and calls send. sent is false if the context ended first.
func (w *Webhooks) sendWithPermit(
	ctx context.Context, org id.Org, host string, send func() lane.Result,
) (result lane.Result, sent bool) {
	granted := make(chan *lane.Job, 1)
	w.mu.Lock()
	w.machine.RequestPermit(org, host, func(job *lane.Job) { granted <- job })
	job := w.startWork(w.deps.Now())
	w.mu.Unlock()
	w.spawn(job)
	result = lane.Result{Aborted: true}
	select {
	case mine := <-granted:
		result, sent = send(), true
		w.releasePermit(mine, result)
	case <-ctx.Done():
		// The permit is still granted later, and is then returned.
		w.workers.Go(func() { w.releasePermit(<-granted, result) })
	}
	return result, sent
}

func (w *Webhooks) releasePermit(job *lane.Job, result lane.Result) {
	w.mu.Lock()
	now := w.deps.Now()
	w.machine.Done(job, result, now)
	next := w.startWork(now)
	w.mu.Unlock()
	w.spawn(next)
}
