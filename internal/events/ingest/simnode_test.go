package ingest_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/events/ingest"
	"github.com/stagedoor/stagedoor/internal/events/listen/flow"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/testenv/simulation"
)

// simNode is a node: a writer of buckets and the listeners of accounts, in two processes that crash together.
type simNode struct {
	w             *simulated
	store, listen *simulation.Process
	ingest        *ingest.Stepper
	settling      *ingest.Settling
	db            *simCaller
	// retry is the wait after the last failure of the writer; 0 if it works.
	retry     time.Duration
	listeners map[*creator]*simListener
	batchers  map[int]*simBatcher
	logEpoch  string
	isDown    bool
}

type simBus struct{}

func (simBus) PublishTraced(string, []byte, []string) error { return nil }
func (simBus) Received(id.Org, int64)                       {}
func (simBus) Get(context.Context, id.Org) (org.Org, error) {
	return org.Org{ID: simOrg}, nil
}

// boot starts a node without leases.
func (n *simNode) boot() {
	n.reset()
	n.store.After(0, n.write)
	n.store.After(time.Second, n.trim)
	n.listen.After(0, n.checkLog)
}

// reset forgets everything.
func (n *simNode) reset() {
	n.db = &simCaller{n.w.store, n.store, n.store.Life()}
	n.ingest = ingest.NewStepper(ingest.Deps{
		Store: n.db, Events: n.w.log, Outbox: n.db, Bus: simBus{}, Meter: simBus{}, Orgs: simBus{},
		Committed: func([]event.Stored) {}, Log: quiet(), Now: n.w.s.Now,
	}, n.w.ring)
	n.settling = &ingest.Settling{Store: &simCaller{n.w.store, n.listen, n.listen.Life()}, Events: n.w.log}
	n.retry, n.listeners, n.batchers, n.logEpoch, n.isDown = 0, map[*creator]*simListener{}, map[int]*simBatcher{}, "", false
}

// crash ends a node. Its leases expire, and it comes back.
func (n *simNode) crash() {
	n.w.s.Trace("crash")
	n.store.Crash()
	n.listen.Crash()
	for _, c := range n.w.creators {
		c.open = slices.DeleteFunc(c.open, func(s *simSession) bool { return s.l.n == n })
	}
	n.isDown = true
	n.w.s.After(n.w.s.Upto(20*time.Second), n.boot)
	n.loseLeases()
}

// pause freezes a node for longer or shorter than its leases last.
func (n *simNode) pause() {
	d := n.w.s.Upto(20 * time.Second)
	n.w.s.Trace("pause", int64(d))
	n.store.Pause(d)
	n.listen.Pause(d)
	if d > 6*time.Second {
		n.loseLeases()
	}
}

// loseLeases gives the leases of the node to others when they have expired.
func (n *simNode) loseLeases() {
	n.w.s.After(6*time.Second, func() {
		for b := range event.Buckets {
			if n.w.buckets[b].node == n {
				n.w.giveBucket(b)
			}
		}
		for _, c := range n.w.creators {
			if c.lease.node == n {
				n.w.giveAccount(c)
			}
		}
	})
}

// write is a round of the writer's loop.
func (n *simNode) write() {
	ctx := context.Background()
	if n.retry > 0 {
		if n.ingest.Resync(ctx) {
			n.retry = 0
		}
		n.store.After(max(min(2*n.retry, 2*time.Second), 50*time.Millisecond), n.write)
		return
	}
	var err error
	switch n.w.s.IntN(8) {
	case 0, 1:
		err = n.ingest.PollOnce(ctx)
	case 2:
		err = n.ingest.AdvanceQuiet(ctx)
	default:
		err = n.ingest.Read(ctx, 1+n.w.s.IntN(4))
	}
	if err != nil {
		n.retry = 50 * time.Millisecond
	}
	n.store.After(n.w.s.Upto(100*time.Millisecond), n.write)
}

func (n *simNode) trim() {
	_ = n.ingest.Trim(context.Background()) // retried
	n.store.After(5*time.Second, n.trim)
}

// pick returns a node that is up.
func (w *simulated) pick() *simNode {
	for range 20 {
		if n := w.nodes[w.s.IntN(len(w.nodes))]; !n.isDown && !n.store.IsPaused() {
			return n
		}
	}
	return w.nodes[0]
}

// giveBucket gives the lease of a bucket to a node. Its earlier holder notices at some time, or never.
func (w *simulated) giveBucket(b int) {
	before, to := w.buckets[b], w.pick()
	if to.isDown {
		w.s.After(time.Second, func() { w.giveBucket(b) })
		return
	}
	now := simLease{to, w.epoch()}
	w.buckets[b] = now
	w.s.Trace("give bucket", int64(b), now.epoch)
	if n := before.node; n != nil && n != to {
		n.store.After(w.s.Upto(10*time.Second), func() {
			if n.ingest.Epoch(b) == before.epoch {
				n.ingest.Drop(b)
			}
		})
	}
	to.store.After(w.delay(), func() { to.claim(b, now.epoch) })
}

func (n *simNode) claim(b int, epoch int64) {
	if n.w.buckets[b].epoch != epoch {
		return
	}
	n.ingest.Drop(b)
	p, err := n.db.Claim(context.Background(), b, epoch)
	switch {
	case err == nil:
		n.ingest.Take(p)
	case errors.Is(err, event.ErrFenced):
	default:
		n.store.After(200*time.Millisecond, func() { n.claim(b, epoch) })
	}
}

// giveAccount gives the lease of an account to a node. The listener of its earlier holder ends at some time.
func (w *simulated) giveAccount(c *creator) {
	before, to := c.lease, w.pick()
	if to.isDown {
		w.s.After(time.Second, func() { w.giveAccount(c) })
		return
	}
	c.lease = simLease{to, w.epoch()}
	w.s.Trace("give account", int64(c.number), c.lease.epoch)
	if n := before.node; n != nil && n != to {
		if l := n.listeners[c]; l != nil {
			notice := 2 * time.Second
			if w.s.Chance(3) {
				notice = 2 * time.Minute
			}
			n.listen.After(w.s.Upto(notice), l.stop)
		}
	}
	epoch := c.lease.epoch
	to.listen.After(w.delay(), func() {
		if c.lease.epoch != epoch {
			return
		}
		if old := to.listeners[c]; old != nil {
			old.stop()
		}
		l := &simListener{n: to, c: c, epoch: epoch}
		to.listeners[c] = l
		to.listen.After(3*time.Second, l.start)
	})
}

// checkLog notices that the log was lost.
func (n *simNode) checkLog() {
	n.listen.After(3*time.Second, n.checkLog)
	state, err := n.w.log.State(context.Background(), 0)
	if err != nil {
		return
	}
	before := n.logEpoch
	if n.logEpoch = state.Epoch; before == "" || before == state.Epoch {
		return
	}
	for _, c := range n.w.creators {
		if l := n.listeners[c]; l != nil && l.session != nil {
			l.session.wantsRefill = true
			l.session.refillIfIdle()
		}
	}
}

// simBatcher behaves like eventlog.Batcher: one entry at a time, and after a failure everything that waits fails.
type simBatcher struct {
	n       *simNode
	bucket  int
	waiting []simRecord
	running bool
	coolTo  time.Time
}

type simRecord struct {
	data []byte
	done func(error)
}

func (n *simNode) batcher(bucket int) *simBatcher {
	if n.batchers[bucket] == nil {
		n.batchers[bucket] = &simBatcher{n: n, bucket: bucket}
	}
	return n.batchers[bucket]
}

func (b *simBatcher) add(data []byte, done func(error)) error {
	if b.n.w.s.Now().Before(b.coolTo) {
		return errSim
	}
	b.waiting = append(b.waiting, simRecord{data, done})
	if !b.running {
		b.running = true
		b.n.listen.After(0, b.publish)
	}
	return nil
}

func (b *simBatcher) publish() {
	if len(b.waiting) == 0 {
		b.running = false
		return
	}
	w, sent := b.n.w, b.waiting
	b.waiting = nil
	var data []byte
	for _, r := range sent {
		data = binary.AppendUvarint(data, uint64(len(r.data)))
		data = append(data, r.data...)
	}
	life := b.n.listen.Life()
	w.s.After(w.delay(), func() { // it has been sent, so a crash of the node does not stop it
		err := w.log.append(b.bucket, data)
		if b.n.listen.Life() != life {
			return
		}
		b.n.listen.After(w.delay(), func() {
			if err == nil && w.fails(100) {
				err = errSim // the log has it, but does not say so
			}
			if err != nil {
				sent = append(sent, b.waiting...)
				b.waiting, b.coolTo = nil, w.s.Now().Add(time.Second)
			}
			for _, r := range sent {
				r.done(err)
			}
			b.publish()
		})
	})
}

// simListener does for an account what package listen does around flow and fill.
type simListener struct {
	n                     *simNode
	c                     *creator
	epoch                 int64
	stopped, settled      bool
	resumeFrom, resumeLog string
	session               *simSession
	tries                 int
}

// simSession is one socket.
type simSession struct {
	l        *simListener
	flow     flow.Flow
	fill     *flow.Fill
	logEpoch string
	// inbox are frames of the socket that were not read, out those of a step of the fill that were not published.
	inbox, out []catalog.Event
	outSettled bool
	lastAt     time.Time
	listedGap  gapRange
	// isBlocked: the fill waits for the log. filling: frames wait. ended: the socket is closed. drained: the listener has gone on.
	isBlocked, filling, wantsRefill, ended, drained bool
}

func (l *simListener) stop() {
	l.stopped = true
	if s := l.session; s != nil {
		s.end(false)
	}
	if l.n.listeners[l.c] == l {
		delete(l.n.listeners, l.c)
	}
}

func (l *simListener) after(d time.Duration, do func()) { l.n.listen.After(d, do) }

func (l *simListener) retry() {
	l.session = nil
	l.tries++
	if !l.stopped {
		l.after(l.n.w.s.Upto(min(time.Second<<min(l.tries, 6), 20*time.Second)), l.start)
	}
}

// start opens a session from where the last one can continue, or from the watermark in the store.
func (l *simListener) start() {
	w := l.n.w
	if l.stopped {
		return
	}
	if l.n.logEpoch == "" {
		l.after(time.Second, l.start)
		return
	}
	s := &simSession{l: l, flow: flow.New(w.bounds), logEpoch: l.n.logEpoch}
	l.session = s
	if l.resumeFrom != "" && l.resumeLog == s.logEpoch {
		s.open(l.resumeFrom)
		return
	}
	s.awaitStore(w.s.Now().Add(30 * time.Second))
}

func (s *simSession) awaitStore(end time.Time) {
	l, w := s.l, s.l.n.w
	if l.stopped {
		return
	}
	if !l.settled {
		settled, err := l.n.settling.Settled(context.Background(), l.c.bucket)
		l.settled = err == nil && settled
	}
	if !l.settled && w.s.Now().Before(end) {
		l.after(100*time.Millisecond+w.s.Upto(200*time.Millisecond), func() { s.awaitStore(end) })
		return
	}
	from, err := s.storedWatermark()
	if err != nil || l.stopped {
		l.retry()
		return
	}
	s.open(from)
}

func (s *simSession) storedWatermark() (string, error) {
	w := s.l.n.w
	if err := (&simCaller{w.store, s.l.n.listen, s.l.n.listen.Life()}).enter(); err != nil {
		return "", err
	}
	return w.store.heads[s.l.c.source].Watermark, nil
}

func (s *simSession) open(from string) {
	if s.l.n.w.fails(10) {
		s.l.retry()
		return
	}
	s.l.c.open = append(s.l.c.open, s)
	s.beginFill(from)
}

func (s *simSession) beginFill(from string) {
	s.flow.BeginFill(from)
	s.fill, s.filling = flow.NewFill(&s.flow, from, time.Time{}), true
	s.l.after(s.l.n.w.delay(), s.stepFill)
}

// stepFill does the next step of the fill.
func (s *simSession) stepFill() {
	if s.ended || !s.filling || !s.publishOut() {
		return
	}
	w := s.l.n.w
	step := s.fill.Next(w.s.Now())
	switch step.Do {
	case flow.Done:
		s.filling = false
		s.refillIfIdle()
		s.readSocket()
	case flow.List:
		s.l.after(w.delay(), func() { s.list(step.After) })
	case flow.ReportGap:
		w.gaps = append(w.gaps, s.listedGap)
		if step.Watermark != "" {
			s.flow.SetWatermark(step.Watermark)
		}
		gap := catalog.Event{Kind: contract.ListenerGap{}.Kind(), Data: fmt.Appendf(nil, `{"gap":%d}`, len(w.gaps)-1)}
		s.out, s.outSettled = []catalog.Event{gap}, false
		s.l.after(0, s.stepFill)
	case flow.Publish:
		s.out, s.outSettled = step.Frames, step.Settled
		s.l.after(0, s.stepFill)
	}
}

func (s *simSession) list(after string) {
	w := s.l.n.w
	if s.ended {
		return
	}
	if w.fails(20) {
		s.end(false)
		return
	}
	m := s.l.c.list(after)
	if m.Gap {
		at, _ := strconv.Atoi(after)
		s.listedGap = gapRange{at, len(s.l.c.frames) - w.keeps + 1}
	}
	s.l.after(w.delay(), func() {
		s.fill.Listed(&m)
		s.stepFill()
	})
}

// publishOut publishes the frames of a step, and reports whether it published all.
func (s *simSession) publishOut() bool {
	for len(s.out) > 0 {
		if s.isBlocked = s.flow.IsFull(); s.ended || s.isBlocked {
			return false
		}
		e := s.out[0]
		s.out = s.out[1:]
		came := time.Time{}
		if !s.outSettled {
			came = s.l.n.w.s.Now()
		}
		s.publish(&e, came)
	}
	return !s.ended
}

// deliver brings a frame to the node, if the socket is still open then.
func (s *simSession) deliver(e catalog.Event) {
	w := s.l.n.w
	at := w.s.Now().Add(w.s.Upto(30 * time.Millisecond))
	switch {
	case w.reorders && w.s.Chance(8):
		at = at.Add(w.s.Upto(500 * time.Millisecond))
	case !w.reorders:
		if at.Before(s.lastAt) {
			at = s.lastAt
		}
		s.lastAt = at
	}
	times := 1
	if w.fails(20) {
		times = 2
	}
	for range times {
		s.l.after(at.Sub(w.s.Now()), func() {
			s.inbox = append(s.inbox, e)
			s.readSocket()
		})
	}
}

func (s *simSession) readSocket() {
	for len(s.inbox) > 0 && !s.ended {
		e := s.inbox[0]
		if !s.flow.Buffer(&e) {
			if s.flow.IsFull() {
				return
			}
			s.publish(&e, s.l.n.w.s.Now())
		}
		s.inbox = s.inbox[1:]
	}
}

func (s *simSession) publish(e *catalog.Event, came time.Time) {
	w := s.l.n.w
	watermark := s.flow.Send(e.UpstreamID, len(e.Data), e.At, came, w.s.Now())
	r := event.Record{
		Org: simOrg, Source: s.l.c.source, Kind: e.Kind, UpstreamID: e.UpstreamID, UpstreamAt: e.At, LogEpoch: s.logEpoch, Epoch: s.l.epoch,
		Data: e.Data, Watermark: watermark,
	}
	err := s.l.n.batcher(s.l.c.bucket).add(r.Append(nil), func(err error) {
		if err != nil {
			s.end(true)
			return
		}
		s.flow.Ack(len(e.Data))
		if s.ended {
			s.drain()
			return
		}
		if s.isBlocked {
			s.isBlocked = false
			s.stepFill()
		}
		s.readSocket()
	})
	if err != nil {
		s.flow.UndoSend(len(e.Data))
		s.end(true)
	}
}

// refillIfIdle fetches again what a lost log may have contained, unless a fill is running.
func (s *simSession) refillIfIdle() {
	if !s.wantsRefill || s.filling || s.ended || s.fill == nil {
		return
	}
	s.wantsRefill = false
	s.filling = true // no other fill begins; frames are still published
	s.l.after(s.l.n.w.s.Upto(5*time.Second), func() {
		if s.ended {
			return
		}
		epoch := s.l.n.logEpoch
		from, err := s.storedWatermark()
		if err != nil || s.ended {
			s.end(true)
			return
		}
		s.beginFill(from)
		s.logEpoch = epoch
	})
}

// end closes the socket. Then the session waits a while for the log to confirm what was read.
func (s *simSession) end(failed bool) {
	if s.ended {
		return
	}
	s.ended = true
	s.l.c.open = slices.DeleteFunc(s.l.c.open, func(one *simSession) bool { return one == s })
	if s.fill == nil {
		return // it was not open
	}
	if failed {
		s.leave()
		return
	}
	s.l.after(3*time.Second, s.leave)
	s.drain()
}

func (s *simSession) drain() {
	if s.flow.IsConfirmed() {
		s.leave()
	}
}

func (s *simSession) leave() {
	if s.drained {
		return
	}
	s.drained = true
	s.l.resumeFrom, s.l.resumeLog = s.flow.WatermarkAt(s.l.n.w.s.Now()), s.logEpoch
	s.l.tries = 0
	s.l.retry()
}
