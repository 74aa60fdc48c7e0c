package webhook

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// endpointErrand is a side delivery to an endpoint: one event of a source, or a replay of the organisation's events. It is stored in
// table webhook_endpoint_errand until it is complete.
type endpointErrand struct {
	at   endpointRef
	id   string
	kind sideKind
	// source and seq name the event of a retry or redelivery.
	source string
	seq    int64
	// after is the position after which a replay continues. It ends before the transaction untilTx, and is limited to events
	// stored from from to until, unless they are zero.
	after       event.Position
	untilTx     int64
	from, until time.Time
	// accounts and events are the filter of a replay; nil means all.
	accounts, events []string
	attempt          int
	since, nextAt    time.Time
}

func newEndpointRetry(e *lane.SideDelivery) endpointErrand {
	return endpointErrand{
		at: endpointRef{e.Org, e.Endpoint}, id: newSideID(), kind: sideRetry, source: e.Source, seq: e.Seq, attempt: e.Attempt, since: e.Since, nextAt: e.NextAt,
	}
}

// startDueEndpointErrands starts those of the buckets that this node holds.
func (w *Webhooks) startDueEndpointErrands(ctx context.Context, buckets []int16) {
	list, err := dueEndpointErrands(ctx, w.deps.DB, buckets, w.deps.Now(), w.deps.Config.SideDeliveries)
	if err != nil {
		if ctx.Err() == nil {
			w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot read side deliveries", slog.Any(logkey.Error, err))
		}
		return
	}
	for i := range list {
		e := &list[i]
		w.mu.Lock()
		h := w.held[id.Bucket(string(e.at.ID))]
		w.mu.Unlock()
		if h == nil || !w.sideRuns.start(e.id, w.deps.Config.SideDeliveries) {
			continue
		}
		w.workers.Go(func() {
			defer w.sideRuns.finish(e.id)
			h.run(func(ctx context.Context) {
				if err := w.runEndpointErrand(ctx, e); err != nil && ctx.Err() == nil {
					w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "side delivery failed",
						slog.String(logkey.Endpoint, string(e.at.ID)), slog.Any(logkey.Error, err))
				}
			})
		})
	}
}

func (w *Webhooks) runEndpointErrand(ctx context.Context, e *endpointErrand) error {
	if w.deps.Permits.Suspended(e.at.Org) {
		e.since = e.since.Add(later)
		return w.postponeErrand(ctx, e, later)
	}
	r, err := readEndpoint(ctx, w.deps.DB, e.at)
	if isNoEndpoint(err) {
		return deleteEndpointErrand(ctx, w.deps.DB, e)
	}
	if err != nil {
		return err
	}
	stopped := !r.Enabled || r.progress.State != lane.Live
	switch {
	case e.kind != sideRedeliver && w.deps.Now().Sub(e.since) > w.deps.Config.Lane.GiveUp:
		return deleteEndpointErrand(ctx, w.deps.DB, e)
	case e.kind != sideRedeliver && stopped:
		return w.postponeErrand(ctx, e, later)
	}
	owner, err := w.deps.Orgs.Get(ctx, e.at.Org)
	if err != nil {
		return err
	}
	hook, gone, err := w.buildHook(ctx, &r.record, owner.Limits.EventRetentionDays)
	if gone {
		return deleteEndpointErrand(ctx, w.deps.DB, e)
	}
	if err != nil {
		return w.postponeErrand(ctx, e, later)
	}
	hook.Host = string(r.ID)
	if e.kind == sideReplay {
		return w.replayToEndpoint(ctx, e, hook, &r)
	}
	list, err := w.deps.Events.After(ctx, e.at.Org, e.source, e.seq-1, w.readableSince(endpointOf(hook).days), 1)
	if err != nil {
		return err
	}
	if len(list) == 1 && list[0].Seq == e.seq {
		result, sent := w.sendErrand(ctx, e, hook, &list[0])
		if !sent || result.Aborted {
			return nil // it is still due
		}
		if again := e.repeats(result); again {
			return w.postponeErrand(ctx, e, max(w.deps.Config.Lane.Delay(e.attempt, 0.9), result.RetryAfter))
		}
	}
	return deleteEndpointErrand(ctx, w.deps.DB, e)
}

// repeats reports whether the event of a side delivery must be sent again after a result, and counts the attempt.
func (e *endpointErrand) repeats(r lane.Result) bool {
	outcome := lane.Classify(r)
	if e.kind == sideRedeliver || outcome != lane.Down && (outcome != lane.Refused || e.kind != sideRetry) {
		return false
	}
	e.attempt++
	return true
}

func (w *Webhooks) sendErrand(ctx context.Context, e *endpointErrand, hook *lane.Hook, ev *event.Stored) (lane.Result, bool) {
	meta := deliveryMeta{attempt: e.attempt + 1, cause: string(e.kind), late: e.kind == sideRetry}
	if e.kind != sideRetry {
		meta.replay = e.id
	}
	return w.sendWithPermit(ctx, e.at.Org, hook.Host, func() lane.Result { return w.send(ctx, endpointOf(hook), ev, meta) })
}

func (w *Webhooks) postponeErrand(ctx context.Context, e *endpointErrand, wait time.Duration) error {
	e.nextAt = w.deps.Now().Add(wait)
	_, err := saveEndpointErrand(ctx, w.deps.DB, e)
	return err
}

// replayPage is how many events of a replay are read at a time, replayAccounts how many accounts get theirs concurrently.
const (
	replayPage     = 200
	replayAccounts = 16
)

// replayToEndpoint sends the remaining events of a replay, page by page: those of an account in order, those of different accounts
// concurrently.
func (w *Webhooks) replayToEndpoint(ctx context.Context, e *endpointErrand, hook *lane.Hook, r *endpointRecord) error {
	filter := newFeedFilter(w, r)
	filter.kinds = event.StoredFilter(e.events)
	since := w.readableSince(endpointOf(hook).days)
	if e.from.After(since) {
		since = e.from
	}
	for {
		page, reached, err := w.deps.Events.OrgAfter(ctx, e.at.Org, e.after, since, replayPage)
		if err != nil {
			return err
		}
		wanted, over, err := e.wanted(ctx, filter, page)
		if err != nil {
			return err
		}
		failed, sent, err := w.sendPage(ctx, e, hook, wanted)
		switch {
		case err != nil:
			return err
		case !sent:
			return nil // the page is sent again
		case failed != nil:
			e.attempt++
			return w.postponeErrand(ctx, e, max(w.deps.Config.Lane.Delay(e.attempt, 0.9), failed.RetryAfter))
		}
		if over {
			return deleteEndpointErrand(ctx, w.deps.DB, e)
		}
		e.after, e.attempt = reached, 0
		if wanted, err := saveEndpointErrand(ctx, w.deps.DB, e); err != nil || !wanted {
			return err
		}
	}
}

// wanted returns the events of a page that the replay sends. over reports whether it is the last page.
func (e *endpointErrand) wanted(ctx context.Context, filter *feedFilter, page []event.Stored) (wanted []event.Stored, over bool, err error) {
	for i := range page {
		ev := &page[i]
		if ev.Tx >= e.untilTx {
			return wanted, true, nil
		}
		if e.accounts != nil && !slices.Contains(e.accounts, ev.Source) || !e.until.IsZero() && ev.At.After(e.until) {
			continue
		}
		ok, err := filter.wants(ctx, ev)
		if err != nil {
			return nil, false, err
		}
		if ok {
			wanted = append(wanted, *ev)
		}
	}
	return wanted, len(page) < replayPage, nil
}

// sendPage sends a page of a replay. What cannot be delivered of an account is retried on its own, so that it does not hold up the
// others; failed is set if nothing of the page could be delivered.
func (w *Webhooks) sendPage(
	ctx context.Context, e *endpointErrand, hook *lane.Hook, page []event.Stored,
) (failed *lane.Result, sent bool, err error) {
	bySource := map[string][]*event.Stored{}
	for i := range page {
		bySource[page[i].Source] = append(bySource[page[i].Source], &page[i])
	}
	var (
		all       sync.WaitGroup
		mu        sync.Mutex
		delivered bool
		rest      []*event.Stored
	)
	sent = true
	permits := make(chan struct{}, replayAccounts)
	for _, list := range bySource {
		all.Go(func() {
			permits <- struct{}{}
			defer func() { <-permits }()
			for i, ev := range list {
				result, ok := w.sendErrand(ctx, e, hook, ev)
				mu.Lock()
				switch {
				case !ok || result.Aborted:
					sent = false
				case lane.Classify(result) == lane.Down:
					failed, rest = &result, append(rest, list[i:]...)
				default:
					delivered = true
				}
				mu.Unlock()
				if !ok || result.Aborted || lane.Classify(result) == lane.Down {
					return
				}
			}
		})
	}
	all.Wait()
	if !delivered || !sent {
		return failed, sent, nil
	}
	now := w.deps.Now()
	for _, ev := range rest {
		again := newEndpointRetry(&lane.SideDelivery{
			Org: e.at.Org, Source: ev.Source, Endpoint: e.at.ID, Seq: ev.Seq, Attempt: 1, Since: now, NextAt: now.Add(w.deps.Config.Lane.Delay(1, 0.9)),
		})
		if err := addErrand(ctx, w.deps.DB, again); err != nil {
			return nil, true, err
		}
	}
	return nil, true, nil
}
