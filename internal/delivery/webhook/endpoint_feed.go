package webhook

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// This file sends the events of organisations to their endpoints. The node that holds the bucket of an endpoint reads the log of
// its organisation and gives the events to the machine, which sends them in a lane per account (lane/feed.go).

// feedRun is an endpoint that this node runs. Webhooks.mu guards number and filter.
type feedRun struct {
	at endpointRef
	// changed is signalled when the settings of the endpoint changed.
	changed chan struct{}
	// number is that of the endpoint in the machine; 0 while it is not there.
	number int
	hold   *holding
	filter *feedFilter
}

// runEndpoints runs the endpoints of a bucket until the context ends.
func (w *Webhooks) runEndpoints(ctx context.Context, bucket int, h *holding) {
	var runs sync.WaitGroup
	defer runs.Wait()
	w.mu.Lock()
	h.feeds = map[id.Endpoint]*feedRun{}
	w.mu.Unlock()
	start := func(at endpointRef) {
		run := &feedRun{at: at, changed: make(chan struct{}, 1)}
		w.mu.Lock()
		if h.feeds[at.ID] != nil {
			w.mu.Unlock()
			return
		}
		h.feeds[at.ID] = run
		w.mu.Unlock()
		runs.Go(func() {
			w.runEndpoint(ctx, bucket, h, run)
			w.mu.Lock()
			delete(h.feeds, at.ID)
			w.mu.Unlock()
		})
	}
	for {
		list, err := endpointsOfBucket(ctx, w.deps.DB, bucket)
		if err == nil {
			for _, at := range list {
				start(at)
			}
			break
		}
		if ctx.Err() == nil {
			w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot read endpoints", slog.Any(logkey.Error, err))
		}
		if !clock.Pause(ctx, retryAfter) {
			return
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-h.newEndpoint:
			start(at)
		}
	}
}

// reloadEndpoint starts, restarts or ends an endpoint that was changed, if this node holds its bucket.
func (w *Webhooks) reloadEndpoint(at endpointRef) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.held[id.Bucket(string(at.ID))]
	if h == nil || h.feeds == nil {
		return // it is read when the bucket is loaded
	}
	if run := h.feeds[at.ID]; run != nil {
		signal(run.changed)
		return
	}
	select {
	case h.newEndpoint <- at:
	default: // the poll finds it
	}
}

// pollEndpoints finds changes whose message was lost.
func (w *Webhooks) pollEndpoints(ctx context.Context) {
	since, seen := w.deps.Now().Add(-overlap), map[endpointRef]time.Time{}
	every(ctx, w.deps.Config.PollEvery, nil, func(ctx context.Context) {
		list, newest, err := changedEndpoints(ctx, w.deps.DB, since)
		if err != nil {
			if ctx.Err() == nil {
				w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot read changes of endpoints", slog.Any(logkey.Error, err))
			}
			return
		}
		now := map[endpointRef]time.Time{}
		for _, one := range list {
			if now[one.endpointRef] = one.at; !seen[one.endpointRef].Equal(one.at) {
				w.reloadEndpoint(one.endpointRef)
			}
		}
		seen = now
		if from := newest.Add(-overlap); from.After(since) {
			since = from
		}
	})
}

// runEndpoint sends the events of an endpoint until it is deleted or the context ends. After each change it starts again
// from what is stored.
func (w *Webhooks) runEndpoint(ctx context.Context, bucket int, h *holding, run *feedRun) {
	for ctx.Err() == nil {
		select {
		case <-run.changed: // what it announces is read now
		default:
		}
		r, err := readEndpoint(ctx, w.deps.DB, run.at)
		if isNoEndpoint(err) {
			return
		}
		if err == nil {
			err = w.serveEndpoint(ctx, bucket, h, run, &r)
		}
		if err != nil {
			if ctx.Err() == nil {
				w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot run endpoint", slog.String(logkey.Endpoint, string(run.at.ID)), slog.Any(logkey.Error, err))
			}
			clock.Pause(ctx, retryAfter)
		}
	}
}

func isNoEndpoint(err error) bool {
	p, ok := errors.AsType[*problem.Error](err)
	return ok && p.Kind.Code == problem.EndpointNotFound.Code
}

// serveEndpoint sends the events of an endpoint as it is stored, until it changes or the context ends.
func (w *Webhooks) serveEndpoint(ctx context.Context, bucket int, h *holding, run *feedRun, r *endpointRecord) error {
	if !r.Enabled || r.progress.State == lane.Disabled {
		select {
		case <-ctx.Done():
		case <-run.changed:
		}
		return nil
	}
	owner, err := w.deps.Orgs.Get(ctx, r.Org)
	if err != nil {
		return err
	}
	hook, gone, err := w.buildHook(ctx, &r.record, owner.Limits.EventRetentionDays)
	if gone {
		<-ctx.Done() // the organisation is being deleted
		return nil
	}
	if err != nil {
		return err
	}
	hook.Host, hook.Row = string(r.ID), nil
	if r.Ordering == Unordered {
		hook.MaxInFlight = MaxInFlight
	}
	rows, err := endpointLanes(ctx, w.deps.DB, run.at)
	if err != nil {
		return err
	}
	sends, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	mine := &holding{
		epoch: h.epoch, run: func(do func(context.Context)) { do(sends) }, lost: h.lost, lose: h.lose, deliveryEnded: make(chan struct{}, 1),
	}
	f := &feedReader{w: w, run: run, hook: hook, hold: mine, filter: newFeedFilter(w, r), days: endpointOf(hook).days, hidden: hiddenMin, live: make(chan struct{}, 1)}
	w.mu.Lock()
	now := w.deps.Now()
	f.number = w.machine.HoldFeed(lane.Feed{
		Bucket: bucket, Epoch: h.epoch, Holder: mine, Hook: hook, Row: r.progress, Lanes: rows, Wake: func() { signal(mine.deliveryEnded) },
	}, now)
	run.number, run.hold, run.filter = f.number, mine, f.filter
	job := w.startWork(now)
	w.mu.Unlock()
	w.spawn(job)
	reading, stop := context.WithCancel(ctx)
	var parts sync.WaitGroup
	parts.Go(func() { f.listen(reading) })
	f.read(reading)
	stop()
	parts.Wait()
	w.finishBucket(f.number, mine, cancel)
	w.mu.Lock()
	run.number, run.filter = 0, nil
	w.machine.DropBucket(f.number)
	w.mu.Unlock()
	return nil
}

// feedFilter selects the events of an endpoint.
type feedFilter struct {
	w         *Webhooks
	org       id.Org
	kinds     event.Filter
	accounts  []string
	platforms []string

	mu sync.Mutex
	// of has the platforms of accounts that were looked up.
	of map[string]string
}

func newFeedFilter(w *Webhooks, r *endpointRecord) *feedFilter {
	return &feedFilter{
		w: w, org: r.Org, kinds: event.StoredFilter(r.Events), accounts: r.AccountIDs, platforms: r.Platforms, of: map[string]string{},
	}
}

// wants reports whether the endpoint gets an event. An endpoint for some accounts or platforms gets no events of the
// organisation itself.
func (f *feedFilter) wants(ctx context.Context, e *event.Stored) (bool, error) {
	if !f.kinds.Match(e.Kind) {
		return false, nil
	}
	return f.wantsSource(ctx, e.Source)
}

func (f *feedFilter) wantsSource(ctx context.Context, source string) (bool, error) {
	if f.accounts != nil && !slices.Contains(f.accounts, source) {
		return false, nil
	}
	if f.platforms == nil {
		return true, nil
	}
	if !event.IsAccount(source) {
		return false, nil
	}
	f.mu.Lock()
	platform, known := f.of[source]
	f.mu.Unlock()
	if !known {
		a, err := f.w.deps.Accounts.Get(ctx, f.org, id.Account(source))
		if p, ok := errors.AsType[*problem.Error](err); ok && p.Kind.Code == problem.AccountNotFound.Code {
			err = nil // it was deleted
		}
		if err != nil {
			return false, err
		}
		platform = a.Place.Platform
		f.mu.Lock()
		f.of[source] = platform
		f.mu.Unlock()
	}
	return slices.Contains(f.platforms, platform), nil
}

// feedReader reads the log for an endpoint.
type feedReader struct {
	w      *Webhooks
	run    *feedRun
	hook   *lane.Hook
	hold   *holding
	filter *feedFilter
	number int
	days   int

	// caughtUp means that the log had no more events when it was last read. hidden is the next wait for an event that older
	// transactions hide.
	caughtUp bool
	hidden   time.Duration
	// live is signalled when an event was stored, of a transaction up to wanted.
	live   chan struct{}
	mu     sync.Mutex
	wanted int64
}

// listen subscribes to the events of the organisation until the context ends. Stored events are read from the store, because
// messages arrive in another order.
func (f *feedReader) listen(ctx context.Context) {
	err := f.w.deps.Bus.Subscribe(ctx, event.LivePattern(f.run.at.Org), func(_ string, payload []byte) {
		for e, err := range event.ReadLive(payload) {
			if err != nil || e.Org != f.run.at.Org {
				break
			}
			if e.Seq == 0 {
				if f.w.ephemeral.admit(f.run.at.ID, &e, f.w.deps.Now()) {
					f.w.sendEphemeralTo(f.run.at.ID, &e)
				}
				continue
			}
			f.mu.Lock()
			f.wanted = max(f.wanted, e.Tx)
			f.mu.Unlock()
		}
		signal(f.live)
	})
	if err != nil && ctx.Err() == nil { // it still polls
		f.w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot subscribe endpoint to events", slog.String(logkey.Endpoint, string(f.run.at.ID)), slog.Any(logkey.Error, err))
	}
}

const (
	// feedPage is how many events one read of the log returns at most.
	feedPage = 500
	// hiddenMin and hiddenMax are the waits for an event that older transactions hide.
	hiddenMin, hiddenMax = 2 * time.Millisecond, 200 * time.Millisecond
	// feedPolls is how many poll intervals pass between two reads of an endpoint without messages.
	feedPolls = 4
)

// read gives events to the machine until the endpoint changes or the context ends.
func (f *feedReader) read(ctx context.Context) {
	w := f.w
	// The poll goes on however often deliveries end.
	poll := time.NewTicker(time.Duration(float64(feedPolls*w.deps.Config.PollEvery) * (0.5 + rand.Float64())))
	defer poll.Stop()
	for {
		w.mu.Lock()
		work := w.machine.FeedWork(f.number)
		w.mu.Unlock()
		var again <-chan time.Time // nil waits for a signal
		switch {
		case work.Probe:
			f.probe(ctx, work.After)
			f.caughtUp = false
			again = closedTimer
		case work.Room > 0 && !f.caughtUp:
			again = closedTimer
			if wait := f.readOn(ctx, work); wait > 0 {
				again = time.After(wait)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-f.hold.lost:
			return
		case <-f.run.changed:
			if f.isOutdated(ctx) {
				return
			}
		case <-f.live:
			f.caughtUp, f.hidden = false, hiddenMin
		case <-f.hold.deliveryEnded: // there may be room
		case <-again:
		case <-poll.C:
			f.caughtUp = false
		}
	}
}

// closedTimer is a timer that has expired.
var closedTimer = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

// readOn reads the next page, and returns how long to wait before the next one.
func (f *feedReader) readOn(ctx context.Context, work lane.FeedWork) (wait time.Duration) {
	n, reached, err := f.readPage(ctx, work)
	if err != nil {
		if ctx.Err() == nil {
			f.w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot read events for endpoint", slog.String(logkey.Endpoint, string(f.run.at.ID)), slog.Any(logkey.Error, err))
		}
		return retryAfter
	}
	if n > 0 {
		f.hidden = hiddenMin
	}
	if f.isHidden(ctx, reached, f.hidden) {
		wait, f.hidden = f.hidden, min(2*f.hidden, hiddenMax)
		return wait
	}
	f.caughtUp = n < min(feedPage, work.Room)
	return 0
}

// isOutdated reports whether the endpoint was changed or deleted since it was read. The node that makes a change, the
// message about it and the poll all announce it.
func (f *feedReader) isOutdated(ctx context.Context) bool {
	r, err := readEndpoint(ctx, f.w.deps.DB, f.run.at)
	return err != nil || r.Gen != f.hook.Gen
}

// isHidden reports whether an event of which a message came is not in the log yet. One that does not appear for long was lost in
// a failover of the database.
func (f *feedReader) isHidden(ctx context.Context, reached event.Position, waited time.Duration) bool {
	f.mu.Lock()
	wanted := f.wanted
	f.mu.Unlock()
	if reached.Tx >= wanted {
		return false
	}
	if waited < hiddenMax {
		return true
	}
	head, err := f.w.deps.Events.OrgHead(ctx, f.run.at.Org)
	if err != nil || head.Tx <= wanted {
		return true
	}
	f.mu.Lock()
	f.wanted = min(f.wanted, reached.Tx)
	f.mu.Unlock()
	return true // it may have become visible since the log was read, so read once more
}

// readPage reads the next events of the log and gives those that the endpoint wants to the machine.
func (f *feedReader) readPage(ctx context.Context, work lane.FeedWork) (n int, reached event.Position, err error) {
	w := f.w
	list, reached, err := w.deps.Events.OrgAfter(ctx, f.run.at.Org, work.After, w.readableSince(f.days), min(feedPage, work.Room))
	if err != nil {
		return 0, reached, err
	}
	wanted := make([]event.Stored, 0, len(list))
	gone := map[string]int64{}
	for i := range list {
		if list[i].Kind == contract.KindAccountDisconnected {
			gone[list[i].Source] = list[i].Seq - 1
		}
		ok, err := f.filter.wants(ctx, &list[i])
		if err != nil {
			return 0, work.After, err
		}
		if ok {
			wanted = append(wanted, list[i])
		}
	}
	wanted = slices.DeleteFunc(wanted, func(e event.Stored) bool { return e.Seq <= gone[e.Source] })
	w.mu.Lock()
	now := w.deps.Now()
	for source, upTo := range gone {
		w.machine.FeedSkip(f.number, source, upTo, now)
	}
	w.machine.FeedAppend(f.number, wanted, reached, now)
	job := w.startWork(now)
	w.mu.Unlock()
	w.spawn(job)
	return len(list), reached, nil
}

const (
	// probeSources is how many accounts a probe tries, one after the other, before it concludes that the endpoint is down.
	probeSources = 16
	// probeScan is how many events a probe looks through for them.
	probeScan = 2000
)

// probe finds out whether an endpoint that is down works again: it sends the first waiting event of some accounts, one at a
// time, until one is accepted. Several accounts are tried because the events of one may be what fails. They are chosen at
// random, and preferably among those that have not failed yet, because the first of the log may all be of that kind.
func (f *feedReader) probe(ctx context.Context, after event.Position) {
	w := f.w
	chosen, err := f.chooseProbes(ctx, after)
	tried, last := 0, lane.Result{}
	for i := range chosen {
		var outcome lane.Outcome
		if last, outcome, err = f.tryProbe(ctx, &chosen[i]); err != nil {
			break
		}
		tried++
		if outcome == lane.Delivered || outcome == lane.Refused {
			return
		}
		if outcome == lane.Gone {
			break
		}
	}
	if err != nil {
		clock.Pause(ctx, retryAfter)
		return // the probe is still due
	}
	w.mu.Lock()
	now := w.deps.Now()
	w.machine.FeedProbeFailed(f.number, last, tried > 0, now)
	job := w.startWork(now)
	w.mu.Unlock()
	w.spawn(job)
	signal(w.timerSet)
}

// chooseProbes returns the first waiting events of at most probeSources accounts, in random order.
func (f *feedReader) chooseProbes(ctx context.Context, after event.Position) ([]event.Stored, error) {
	w := f.w
	seen, page := map[string]bool{}, w.deps.Config.Lane.Page
	var fresh, suspect sample
	for scanned := 0; scanned < probeScan; {
		list, reached, err := w.deps.Events.OrgAfter(ctx, f.run.at.Org, after, w.readableSince(f.days), page)
		if err != nil {
			return nil, err
		}
		for i := range list {
			e := &list[i]
			if seen[e.Source] {
				continue
			}
			wanted, err := f.filter.wants(ctx, e)
			if err != nil {
				return nil, err
			}
			if ok, isSuspect := f.isCandidate(e); !wanted || !ok {
				continue
			} else if isSuspect {
				suspect.add(e)
			} else {
				fresh.add(e)
			}
			seen[e.Source] = true
		}
		if scanned += len(list); len(list) < page {
			break
		}
		after = reached
	}
	if len(fresh.chosen) > 0 {
		return fresh.chosen, nil
	}
	return suspect.chosen, nil
}

func (f *feedReader) isCandidate(e *event.Stored) (ok, suspect bool) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	return f.w.machine.FeedCandidate(f.number, e)
}

// sample is a random choice of at most probeSources of the events that were added, each with the same chance.
type sample struct {
	chosen []event.Stored
	added  int
}

func (s *sample) add(e *event.Stored) {
	s.added++
	at := rand.IntN(s.added)
	switch {
	case len(s.chosen) < probeSources:
		s.chosen = slices.Insert(s.chosen, at, *e)
	case at < probeSources:
		s.chosen[at] = *e
	}
}

// errNotProbed means that an event could not be sent now.
var errNotProbed = errors.New("the event was not sent")

// tryProbe sends an event to an endpoint that is down, and reports the result to the machine.
func (f *feedReader) tryProbe(ctx context.Context, e *event.Stored) (lane.Result, lane.Outcome, error) {
	w := f.w
	if ok, _ := f.isCandidate(e); !ok {
		return lane.Result{}, lane.Aborted, errNotProbed // it has been sent since
	}
	result, sent := f.sendProbe(ctx, e)
	if !sent || result.Aborted {
		return result, lane.Aborted, errNotProbed
	}
	outcome := lane.Classify(result)
	switch outcome {
	case lane.Delivered, lane.Refused:
		w.mu.Lock()
		now := w.deps.Now()
		w.machine.FeedProbed(f.number, e, outcome, now)
		job := w.startWork(now)
		w.mu.Unlock()
		w.spawn(job)
	case lane.Down:
		w.mu.Lock()
		w.machine.FeedSuspect(f.number, e.Source)
		w.mu.Unlock()
	case lane.Gone, lane.Aborted:
	}
	return result, outcome, nil
}

func (f *feedReader) sendProbe(ctx context.Context, e *event.Stored) (result lane.Result, sent bool) {
	f.hold.run(func(sends context.Context) {
		sends, cancel := context.WithCancel(sends)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		result, sent = f.w.sendWithPermit(sends, f.run.at.Org, f.hook.Host, func() lane.Result {
			return f.w.send(sends, endpointOf(f.hook), e, deliveryMeta{attempt: 2, cause: CauseLive})
		})
	})
	return result, sent
}

// sendEphemeralTo sends an event that is not stored once, if the endpoint works and wants it.
func (w *Webhooks) sendEphemeralTo(endpoint id.Endpoint, e *event.Stored) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.held[id.Bucket(string(endpoint))]
	if h == nil || h.feeds[endpoint] == nil || h.feeds[endpoint].filter == nil {
		return
	}
	run := h.feeds[endpoint]
	hook, hold, filter := w.machine.FeedHook(run.number), run.hold, run.filter
	if hook == nil || !filter.kinds.Match(e.Kind) {
		return
	}
	w.workers.Go(func() {
		hold.run(func(ctx context.Context) {
			if wanted, err := filter.wantsSource(ctx, e.Source); err != nil || !wanted {
				return
			}
			w.sendWithPermit(ctx, e.Org, hook.Host, func() lane.Result {
				return w.send(ctx, endpointOf(hook), e, deliveryMeta{attempt: 1, cause: CauseLive})
			})
		})
	})
}
