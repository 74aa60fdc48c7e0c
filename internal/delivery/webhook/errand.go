package webhook

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// errandKind says why something is delivered beside the order.
type errandKind string

const (
	// errandRetry is an event that its receiver refused: tried again by the schedule, up to three days.
	errandRetry errandKind = CauseRetry
	// errandRedeliver is one that its owner asks for again: tried once.
	errandRedeliver errandKind = CauseRedeliver
	// errandReplay is a range of events.
	errandReplay errandKind = CauseReplay
)

// errand is something that is delivered beside the order.
type errand struct {
	org     id.Org
	account string
	id      string
	kind    errandKind
	// from and to are the first and the last event, cursor the last that is done with.
	from, to, cursor int64
	// events is nil for all.
	events     []string
	onlyFailed bool
	attempt    int
	since      time.Time
	nextAt     time.Time
}

func newErrandID() string { return "whe_" + strings.TrimPrefix(string(id.New[id.Delivery]()), "whd_") }

// retryErrand is one of an event that its lane left behind.
func retryErrand(e *lane.Errand) errand {
	return errand{
		org: e.Org, account: e.Source, id: newErrandID(), kind: errandRetry, from: e.Seq, to: e.Seq, cursor: e.Seq - 1, attempt: e.Attempt,
		since: e.Since, nextAt: e.NextAt,
	}
}

// running are the errands that are being done.
type running struct {
	mu  sync.Mutex
	ids map[string]bool
	// ended are those that ended since the list was last asked for: it may still have them as they were before.
	ended map[string]bool
}

// ask begins to read the list of those that are due.
func (r *running) ask() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = map[string]bool{}
}

func (r *running) begin(id string, most int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids[id] || r.ended[id] || len(r.ids) >= most {
		return false
	}
	r.ids[id] = true
	return true
}

func (r *running) end(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ids, id)
	r.ended[id] = true
}

func (w *Webhooks) errandLoop(ctx context.Context) {
	every(ctx, w.Config.PollEvery, w.wake, w.doErrands)
}

// doErrands begins what is due in the buckets of this node.
func (w *Webhooks) doErrands(ctx context.Context) {
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
	w.errands.ask()
	list, err := dueErrands(ctx, w.DB.Pool(), buckets, w.Now(), w.Config.Errands)
	if err != nil {
		if ctx.Err() == nil {
			w.Log.LogAttrs(ctx, slog.LevelWarn, "errands of webhooks not read", slog.Any("error", err))
		}
		return
	}
	for i := range list {
		e := &list[i]
		w.mu.Lock()
		h := w.held[event.Bucket(e.account)]
		w.mu.Unlock()
		if h == nil || !w.errands.begin(e.id, w.Config.Errands) {
			continue
		}
		w.workers.Go(func() {
			defer w.errands.end(e.id)
			h.do(func(ctx context.Context) { w.doErrand(ctx, e) })
		})
	}
}

func (w *Webhooks) doErrand(ctx context.Context, e *errand) {
	err := w.carryOut(ctx, e)
	if err != nil && ctx.Err() == nil {
		w.Log.LogAttrs(ctx, slog.LevelWarn, "errand of a webhook not done", slog.String("account", e.account), slog.Any("error", err))
	}
}

// later is how long an errand waits for a webhook that cannot be sent to for another reason than its receiver.
const later = 30 * time.Second

func (w *Webhooks) carryOut(ctx context.Context, e *errand) error {
	if w.Permits.Suspended(e.org) {
		e.since = e.since.Add(later) // the time of a suspension does not count against it
		return w.postpone(ctx, e, later)
	}
	found, err := w.hooks(ctx, []string{e.account})
	if err != nil {
		return err
	}
	hook, ok := found[e.account]
	switch {
	case !ok:
		return endErrand(ctx, w.DB.Pool(), e)
	case hook == nil, e.kind != errandRedeliver && (stopped(hook.Row) || w.hostDown(e.org, hook.Host)):
		return w.postpone(ctx, e, later)
	case e.kind != errandRedeliver && w.Now().Sub(e.since) > w.Config.Lane.GiveUp:
		return endErrand(ctx, w.DB.Pool(), e)
	}
	filter := event.StoredFilter(e.events)
	for e.cursor < e.to {
		page, err := w.Events.After(ctx, e.org, e.account, e.cursor, w.since(hook), w.Config.Lane.Page)
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
		if wanted, err := moveErrand(ctx, w.DB.Pool(), e); err != nil || !wanted {
			return err
		}
	}
	return endErrand(ctx, w.DB.Pool(), e)
}

func stopped(r *lane.Row) bool {
	return r != nil && (r.State == lane.Paused || r.State == lane.Disabled)
}

func (w *Webhooks) hostDown(org id.Org, host string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machine.Open(org, host)
}

func (w *Webhooks) postpone(ctx context.Context, e *errand, wait time.Duration) error {
	e.nextAt = w.Now().Add(wait)
	_, err := moveErrand(ctx, w.DB.Pool(), e)
	return err
}

// deliverPage delivers events of an errand. done is false if it must go on at another time, which is written then.
func (w *Webhooks) deliverPage(ctx context.Context, e *errand, hook *lane.Hook, filter event.Filter, page []event.Stored) (done bool, err error) {
	var skip []int64
	if e.onlyFailed {
		to := min(page[len(page)-1].Seq, e.to)
		if skip, err = deliveredAmong(ctx, w.DB.Pool(), e, w.Now().AddDate(0, 0, -MaxDays), page[0].Seq, to); err != nil {
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
		result, ok := w.slot(ctx, e.org, hook.Host, func() lane.Result { return w.send(ctx, endpointOf(hook), ev, e.note()) })
		if !ok || result.Aborted {
			// Whoever has the bucket next goes on from here.
			_, err := moveErrand(context.WithoutCancel(ctx), w.DB.Pool(), e)
			return false, err
		}
		if over := w.judge(e, ev, result); !over {
			_, err := moveErrand(ctx, w.DB.Pool(), e)
			return false, err
		}
	}
	return true, nil
}

func (e *errand) note() note {
	n := note{attempt: e.attempt + 1, cause: string(e.kind), late: e.kind == errandRetry}
	if e.kind != errandRetry {
		n.replay = e.id
	}
	return n
}

// judge says whether an errand is done with an event; if not, it says when it is tried again.
func (w *Webhooks) judge(e *errand, ev *event.Stored, r lane.Result) (over bool) {
	verdict := lane.Judge(r)
	again := verdict == lane.Down || verdict == lane.Refused && e.kind == errandRetry
	if !again || e.kind == errandRedeliver {
		e.cursor, e.attempt = ev.Seq, 0
		if verdict == lane.Gone {
			e.cursor = e.to
		}
		return true
	}
	e.attempt++
	wait := w.Config.Lane.Delay(e.attempt, 0.9)
	e.nextAt = w.Now().Add(max(wait, r.RetryAfter))
	return false
}

// slot waits until something may be sent to a host, and sends it.
func (w *Webhooks) slot(ctx context.Context, org id.Org, host string, send func() lane.Result) (result lane.Result, sent bool) {
	granted := make(chan *lane.Job, 1)
	w.mu.Lock()
	w.machine.Enter(org, host, func(job *lane.Job) { granted <- job })
	job := w.advance(w.Now())
	w.mu.Unlock()
	w.spawn(job)
	result = lane.Result{Aborted: true}
	select {
	case mine := <-granted:
		result, sent = send(), true
		w.release(mine, result)
	case <-ctx.Done():
		// The slot comes later, and is given back then.
		w.workers.Go(func() { w.release(<-granted, result) })
	}
	return result, sent
}

func (w *Webhooks) release(job *lane.Job, result lane.Result) {
	w.mu.Lock()
	now := w.Now()
	w.machine.Done(job, result, now)
	next := w.advance(now)
	w.mu.Unlock()
	w.spawn(next)
}
