package ingest_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/engine/lease"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/events/listen/flow"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/simulation"
)

// The simulated world has a platform whose sockets end, repeat and reorder frames, a log that is slow, full, lost or
// unsure, a database that fails, does not answer a commit or goes back to an earlier state, and nodes that crash and
// pause. Flow, Fill, Ingest, Settling and the trimmer are the real ones.

const simOrg = id.Org("org_1")

var errSim = errors.New("simulated fault")

// simulated is a world.
type simulated struct {
	s *simulation.Scheduler
	// calm means that nothing fails any more.
	calm bool
	// reorders means that sockets deliver frames out of order. keeps is how many frames the platform can list; 0 means
	// all.
	reorders bool
	keeps    int
	bounds   flow.Bounds
	ring     int

	creators []*creator
	log      *simLog
	store    *simStore
	nodes    []*simNode
	// buckets are the leases of the creators' buckets.
	buckets map[int]simLease
	epochs  int64
	gaps    []gapRange
}

// simLease is which node has a bucket or an account, and since which epoch.
type simLease struct {
	node  *simNode
	epoch int64
}

// gapRange is a range of frames, from after+1 to before-1, that the platform could no longer list.
type gapRange struct{ after, before int }

func newSimulated(s *simulation.Scheduler) *simulated {
	w := &simulated{s: s, buckets: map[int]simLease{}, reorders: s.Chance(2), ring: 1 + s.IntN(40)}
	if s.Chance(3) {
		w.keeps = 20 + s.IntN(100)
	}
	w.bounds = flow.Bounds{
		WaitFrames: 1 + s.IntN(40), WaitBytes: 1 << 20, UnackedFrames: 1 + s.IntN(60), UnackedBytes: 1 << 20, Settle: 2 * time.Second,
		SettleFrames: 64,
	}
	w.log = &simLog{w: w, most: 100 + s.IntN(2000)}
	w.log.lose()
	w.store = newSimStore(w)
	for i := range 1 + s.IntN(4) {
		w.addCreator(i)
	}
	for range 1 + s.IntN(3) {
		n := &simNode{w: w, store: s.NewProcess(), listen: s.NewProcess()}
		w.nodes = append(w.nodes, n)
		n.boot()
	}
	w.giveBucket(0) // its holder trims the log
	for _, c := range w.creators {
		if _, given := w.buckets[c.bucket]; !given {
			w.giveBucket(c.bucket)
		}
		w.giveAccount(c)
		c.emit()
	}
	w.injectFaults()
	return w
}

func (w *simulated) epoch() int64 {
	w.epochs++
	return w.store.generation<<24 + w.epochs
}

// delay returns how long something takes: usually milliseconds.
func (w *simulated) delay() time.Duration {
	if !w.calm && w.s.Chance(50) {
		return w.s.Upto(5 * time.Second)
	}
	return w.s.Upto(30 * time.Millisecond)
}

// fails reports whether a call fails, once in n times.
func (w *simulated) fails(n int) bool { return !w.calm && w.s.Chance(n) }

// The platform.

type creator struct {
	w      *simulated
	number int
	source string
	bucket int
	frames []catalog.Event
	lease  simLease
	open   []*simSession
}

func (w *simulated) addCreator(i int) {
	c := &creator{w: w, number: i, source: "acct_" + strconv.Itoa(i)}
	c.bucket = event.Bucket(c.source)
	w.creators = append(w.creators, c)
	w.store.heads[c.source] = event.HeadRow{Org: simOrg, Source: c.source, Head: event.Head{Watermark: "0", Known: true}}
	w.store.addOwn(c, "account.connected")
}

// emit makes something happen on the platform, now and again.
func (c *creator) emit() {
	w := c.w
	if w.calm {
		return
	}
	count := 1
	if w.s.Chance(40) {
		count = w.s.IntN(20)
	}
	for range count {
		kind := "message"
		if w.s.Chance(3000) {
			kind = "bad"
		}
		e := catalog.Event{
			Kind: kind, Class: catalog.Durable, UpstreamID: strconv.Itoa(len(c.frames) + 1), At: w.s.Now().UTC().Truncate(time.Microsecond),
			Data: []byte(`{}`),
		}
		c.frames = append(c.frames, e)
		for _, one := range c.open {
			one.deliver(e)
		}
	}
	if w.s.Chance(300) {
		w.store.addOwn(c, "account.degraded")
	}
	w.s.After(w.s.Upto(800*time.Millisecond), c.emit)
}

// list returns a page of the frames after one.
func (c *creator) list(after string) driver.Missed {
	at, err := strconv.Atoi(after)
	if err != nil || at > len(c.frames) {
		c.w.s.Fail("the platform was asked for the frames after %q", after)
	}
	m := driver.Missed{}
	if len(c.frames) > 0 {
		m.Newest = c.frames[len(c.frames)-1].UpstreamID
	}
	if oldest := len(c.frames) - c.w.keeps; c.w.keeps > 0 && at < oldest {
		m.Gap, at = true, oldest
	}
	until := min(at+1+c.w.s.IntN(30), len(c.frames))
	m.Events = slices.Clone(c.frames[at:until])
	m.More = until < len(c.frames)
	if len(m.Events) > 0 {
		m.Last = m.Events[len(m.Events)-1].UpstreamID
	}
	return m
}

// isListed reports whether the platform can still list a frame; the numbers of frames start with 1.
func (c *creator) isListed(number int) bool {
	return c.w.keeps == 0 || number > len(c.frames)-c.w.keeps
}

// The log.

type simLog struct {
	w       *simulated
	epochs  int
	epoch   string
	last    uint64
	entries []eventlog.Entry
	most    int
	downTo  time.Time
}

// lose replaces the log by an empty one.
func (l *simLog) lose() {
	l.epochs++
	l.epoch, l.last, l.entries = "epoch"+strconv.Itoa(1000+l.epochs), 0, nil
	l.w.s.Trace("log lost", int64(l.epochs))
}

func (l *simLog) isDown() bool { return !l.w.calm && l.w.s.Now().Before(l.downTo) }

func (l *simLog) append(bucket int, data []byte) error {
	switch {
	case l.isDown() || l.w.fails(200):
		return errSim
	case len(l.entries) >= l.most:
		return eventlog.ErrFull
	}
	l.last++
	l.entries = append(l.entries, eventlog.Entry{Bucket: bucket, Seq: l.last, Data: data})
	return nil
}

func (l *simLog) Publish(context.Context, int, string, []byte, ...eventlog.Trace) error {
	return errSim
}

func (l *simLog) State(context.Context, int) (eventlog.State, error) {
	l.w.s.Interleave()
	if l.isDown() || l.w.fails(100) {
		return eventlog.State{}, errSim
	}
	state := eventlog.State{Epoch: l.epoch, First: l.last + 1, Last: l.last, Used: float64(len(l.entries)) / float64(l.most)}
	if len(l.entries) > 0 {
		state.First = l.entries[0].Seq
	}
	return state, nil
}

func (l *simLog) States(ctx context.Context, buckets []int) (map[int]eventlog.State, error) {
	state, err := l.State(ctx, 0)
	if err != nil {
		return nil, err
	}
	all := make(map[int]eventlog.State, len(buckets))
	for _, b := range buckets {
		all[b] = state
	}
	return all, nil
}

func (l *simLog) Trim(_ context.Context, upTo map[int]uint64) error {
	l.w.s.Interleave()
	if l.isDown() || l.w.fails(20) {
		return errSim
	}
	l.entries = slices.DeleteFunc(l.entries, func(e eventlog.Entry) bool { return e.Seq <= upTo[e.Bucket] })
	return nil
}

func (l *simLog) Read(_ context.Context, after map[int]uint64) (eventlog.Reader, error) {
	l.w.s.Interleave()
	if l.isDown() || l.w.fails(20) {
		return nil, errSim
	}
	r := &simReader{log: l, epoch: l.epoch, after: after, reached: l.last}
	for _, at := range after {
		r.reached = min(r.reached, at)
	}
	return r, nil
}

type simReader struct {
	log     *simLog
	epoch   string
	after   map[int]uint64
	reached uint64
}

func (r *simReader) Next(context.Context) (list []eventlog.Entry, err error) {
	l := r.log
	if l.epoch != r.epoch || l.last < r.reached || l.w.fails(500) {
		return nil, eventlog.ErrLost
	}
	if l.isDown() {
		return nil, nil
	}
	most := 1 + l.w.s.IntN(8)
	i, _ := slices.BinarySearchFunc(l.entries, r.reached+1, func(e eventlog.Entry, seq uint64) int { return cmp.Compare(e.Seq, seq) })
	for ; i < len(l.entries) && len(list) < most; i++ {
		e := l.entries[i]
		r.reached = e.Seq
		if at, ours := r.after[e.Bucket]; ours && e.Seq > at {
			list = append(list, e)
		}
	}
	if i == len(l.entries) {
		r.reached = l.last
	}
	return list, nil
}

func (r *simReader) Reached() map[int]uint64 {
	reached := make(map[int]uint64, len(r.after))
	for b, at := range r.after {
		reached[b] = max(at, r.reached)
	}
	return reached
}

func (*simReader) Close() {}

// The database.

type simEvent struct {
	id    id.Event
	at    time.Time
	kind  string
	frame int // 0 if it is not a frame
	gap   int // the index of a gap plus 1
	key   string
}

type simStore struct {
	w          *simulated
	generation int64
	heads      map[string]event.HeadRow
	events     map[string][]simEvent
	keys       map[event.FrameKey]bool
	rows       map[int]event.Progress
	own        []outbox.Stored
	ownCount   int64
	taken      []int64
	buried     map[event.FrameKey]bool
	downTo     time.Time
	// commits are the last ones, so that the database can go back.
	commits []simCommit
}

func newSimStore(w *simulated) *simStore {
	return &simStore{
		w: w, generation: 1, heads: map[string]event.HeadRow{}, events: map[string][]simEvent{}, keys: map[event.FrameKey]bool{},
		rows: map[int]event.Progress{}, buried: map[event.FrameKey]bool{},
	}
}

type simCommit struct {
	heads []event.HeadRow
	rows  []event.Progress
	own   []outbox.Stored
}

func (st *simStore) addOwn(c *creator, kind string) {
	st.ownCount++
	st.own = append(st.own, outbox.Stored{Org: simOrg, Seq: st.ownCount, Account: id.Account(c.source), Kind: kind, Data: []byte(`{}`)})
}

// goBack undoes the last commits and begins a new generation.
func (st *simStore) goBack(commits int) {
	for range min(commits, len(st.commits)) {
		c := st.commits[len(st.commits)-1]
		st.commits = st.commits[:len(st.commits)-1]
		for _, h := range c.heads {
			list := st.events[h.Source]
			for _, e := range list[h.LastSeq:] {
				delete(st.keys, event.FrameKey{Source: h.Source, DedupKey: e.key})
			}
			st.events[h.Source], st.heads[h.Source] = list[:h.LastSeq], h
		}
		for _, p := range c.rows {
			st.rows[p.Bucket] = p
		}
		st.own = append(slices.Clone(c.own), st.own...)
	}
	slices.SortFunc(st.own, func(a, b outbox.Stored) int { return cmp.Compare(a.Seq, b.Seq) })
	st.generation++
	st.w.s.Trace("database went back", int64(commits), st.generation)
}

// simCaller is the database as a process of a node sees it.
type simCaller struct {
	*simStore
	process *simulation.Process
	life    int
}

// enter begins a query. Other processes may run before it.
func (st *simCaller) enter() error {
	st.w.s.Interleave()
	if st.process.Life() != st.life || !st.w.calm && st.w.s.Now().Before(st.downTo) || st.w.fails(150) {
		return errSim
	}
	return nil
}

// Time is now and then that of a replica whose clock is slow.
func (st *simCaller) Time(context.Context) (time.Time, error) {
	err := st.enter()
	if st.w.fails(50) {
		return st.w.s.Now().Add(-st.w.s.Upto(2 * time.Second)), err
	}
	return st.w.s.Now(), err
}

func (st *simCaller) Upkeep(context.Context) error { return nil }

func (st *simCaller) Claim(_ context.Context, bucket int, epoch int64) (event.Progress, error) {
	if err := st.enter(); err != nil {
		return event.Progress{}, err
	}
	p, known := st.rows[bucket]
	if !known {
		p = event.Progress{Bucket: bucket}
	}
	if lease.Generation(epoch) != st.generation || p.Epoch > epoch {
		return p, event.ErrFenced
	}
	p.Epoch = epoch
	st.rows[bucket] = p
	return p, nil
}

func (st *simCaller) Progress(_ context.Context, bucket int) (event.Progress, error) {
	err := st.enter()
	return st.rows[bucket], err
}

func (st *simCaller) AllProgress(context.Context) (list []event.Progress, err error) {
	if err := st.enter(); err != nil {
		return nil, err
	}
	for _, p := range st.rows {
		list = append(list, p)
	}
	return list, nil
}

func (st *simCaller) Load(_ context.Context, sources []string) (list []event.Recent, err error) {
	if err := st.enter(); err != nil {
		return nil, err
	}
	for _, source := range sources {
		h, ok := st.heads[source]
		if !ok {
			continue
		}
		one := event.Recent{HeadRow: h}
		stored := st.events[source]
		for _, e := range stored[max(0, len(stored)-st.w.ring):] {
			if e.key != "" {
				one.DedupKeys = append(one.DedupKeys, e.key)
			}
		}
		list = append(list, one)
	}
	return list, nil
}

func (*simCaller) SealRecord(_ context.Context, to []byte, r *event.Record) ([]byte, error) {
	return r.Append(to), nil
}

func (*simCaller) OpenRecords(_ context.Context, records []*event.Record) ([]error, error) {
	return make([]error, len(records)), nil
}

func (st *simCaller) StoredKeys(_ context.Context, keys []event.FrameKey, _ []time.Time) (map[event.FrameKey]bool, error) {
	if err := st.enter(); err != nil {
		return nil, err
	}
	found := map[event.FrameKey]bool{}
	for _, key := range keys {
		if st.keys[key] {
			found[key] = true
		}
	}
	return found, nil
}

func (st *simCaller) After(_ context.Context, _ id.Org, source string, seq int64, _ time.Time, _ int) ([]event.Stored, error) {
	if err := st.enter(); err != nil || int(seq) >= len(st.events[source]) {
		return nil, err
	}
	return []event.Stored{{Source: source, Seq: seq + 1, ID: st.events[source][seq].id}}, nil
}

func (st *simCaller) Requeued(context.Context, []int16, int) ([]event.Letter, error) { return nil, nil }

func (st *simCaller) Waiting(_ context.Context, buckets []int16, limit int) (list []outbox.Stored, err error) {
	if err := st.enter(); err != nil {
		return nil, err
	}
	for _, o := range st.own {
		if slices.Contains(buckets, int16(event.Bucket(o.Source()))) && len(list) < limit {
			list = append(list, o)
		}
	}
	return list, nil
}

func (st *simCaller) Take(_ context.Context, _ postgres.Tx, seqs []int64) error {
	st.taken = seqs
	return nil
}

func (st *simCaller) Settle(context.Context) error { return nil }

func (st *simCaller) Commit(ctx context.Context, b *event.Batch) (int64, error) {
	if err := st.enter(); err != nil {
		return 0, err
	}
	for _, p := range b.Buckets {
		if st.rows[p.Bucket].Epoch != p.Epoch || lease.Generation(p.Epoch) != st.generation {
			return 0, event.ErrFenced
		}
	}
	for i := range b.Events {
		if b.Events[i].Kind == "bad" {
			return 0, &pgconn.PgError{Code: "22021"}
		}
	}
	st.taken = nil
	if b.Also != nil {
		if err := b.Also(ctx, nil); err != nil {
			return 0, err
		}
	}
	if st.w.fails(100) {
		return 0, postgres.ErrOutcomeUnknown
	}
	if err := st.apply(b); err != nil {
		return 0, err
	}
	if st.w.s.Interleave(); st.process.Life() != st.life || st.w.fails(100) {
		return 0, postgres.ErrOutcomeUnknown
	}
	return 1, nil
}

// apply commits a batch and checks what must hold after every commit.
func (st *simStore) apply(b *event.Batch) error {
	var c simCommit
	for _, seq := range st.taken {
		i := slices.IndexFunc(st.own, func(o outbox.Stored) bool { return o.Seq == seq })
		if i < 0 {
			return outbox.ErrTaken
		}
		c.own = append(c.own, st.own[i])
	}
	for _, o := range c.own {
		st.own = slices.DeleteFunc(st.own, func(one outbox.Stored) bool { return one.Seq == o.Seq })
	}
	for _, p := range b.Buckets {
		c.rows = append(c.rows, st.rows[p.Bucket])
		st.rows[p.Bucket] = p
	}
	for _, h := range b.Heads {
		before, known := st.heads[h.Source]
		if !known {
			before = event.HeadRow{Org: h.Org, Source: h.Source}
		}
		c.heads = append(c.heads, before)
		if h.Watermark == "" {
			h.Watermark = before.Watermark
		}
		st.heads[h.Source] = h
	}
	for i := range b.Events {
		st.add(&b.Events[i])
	}
	for _, l := range b.Bury {
		if r, err := event.ReadRecord(l.Record); err == nil {
			st.buried[event.FrameKey{Source: r.Source, DedupKey: r.UpstreamID}] = true
		}
	}
	if st.commits = append(st.commits, c); len(st.commits) > 100 {
		st.commits = slices.Delete(st.commits, 0, 50)
	}
	for i := range b.Heads {
		st.w.checkWatermark(b.Heads[i].Source)
	}
	return nil
}

func (st *simStore) add(e *event.NewEvent) {
	s, list := st.w.s, st.events[e.Source]
	s.Trace("store", int64(event.Bucket(e.Source)), e.Seq, frameNumber(e.DedupKey))
	if int(e.Seq) != len(list)+1 {
		s.Fail("%s: event %d is stored after %d events", e.Source, e.Seq, len(list))
	}
	if e.Seq == 1 && e.Kind != (contract.AccountConnected{}).Kind() {
		s.Fail("%s: the first event is %s", e.Source, e.Kind)
	}
	if n := len(list); n > 0 && !e.At.After(list[n-1].at) && !e.At.Equal(list[n-1].at) {
		s.Fail("%s: event %d is older than the one before it", e.Source, e.Seq)
	}
	one := simEvent{id: e.ID, at: e.At, kind: e.Kind, key: e.DedupKey}
	if e.DedupKey != "" {
		key := event.FrameKey{Source: e.Source, DedupKey: e.DedupKey}
		one.frame = int(frameNumber(e.DedupKey))
		if st.keys[key] && one.frame > 0 { // what has neither an id nor a time is recognised only for a while
			s.Fail("%s: frame %s is stored twice", e.Source, e.DedupKey)
		}
		st.keys[key] = true
	}
	if e.Kind == (contract.ListenerGap{}).Kind() {
		_, rest, _ := strings.Cut(string(e.Body), `"gap":`)
		n, err := strconv.Atoi(rest[:strings.IndexByte(rest, '}')])
		if err != nil {
			s.Fail("gap without a number: %s", e.Body)
		}
		one.gap = n + 1
	}
	st.events[e.Source] = append(list, one)
}

// frameNumber returns the number of a frame; 0 if the key is of something else.
func frameNumber(key string) int64 {
	n, _ := strconv.ParseInt(key, 10, 64)
	return n
}

// missing returns the first frame up to a number that is neither stored nor buried nor in a gap that was reported; 0 if
// there is none. It starts from a frame up to which nothing was missing.
func (w *simulated) missing(c *creator, from, upTo int) int {
	for number := from + 1; number <= upTo; number++ {
		key := event.FrameKey{Source: c.source, DedupKey: strconv.Itoa(number)}
		if !w.store.keys[key] && !w.store.buried[key] && !w.isInGap(c, number) {
			return number
		}
	}
	return 0
}

func (w *simulated) isInGap(c *creator, number int) bool {
	if c.isListed(number) {
		return false
	}
	for _, e := range w.store.events[c.source] {
		if e.gap > 0 && w.gaps[e.gap-1].after < number && number < w.gaps[e.gap-1].before {
			return true
		}
	}
	return false
}

// checkWatermark checks that the store has everything up to its watermark. It looks at the last frames before it.
func (w *simulated) checkWatermark(source string) {
	i := slices.IndexFunc(w.creators, func(c *creator) bool { return c.source == source })
	c := w.creators[i]
	watermark := int(frameNumber(w.store.heads[source].Watermark))
	if lost := w.missing(c, max(0, watermark-100), watermark); lost > 0 {
		w.s.Fail("%s: the watermark is %d, but frame %d is not stored", source, watermark, lost)
	}
}

// injectFaults makes something fail, again and again.
func (w *simulated) injectFaults() {
	if w.calm {
		return
	}
	w.s.After(w.s.Upto(8*time.Second), w.injectFaults)
	c, n := w.creators[w.s.IntN(len(w.creators))], w.nodes[w.s.IntN(len(w.nodes))]
	switch w.s.IntN(16) {
	case 0, 1, 2:
		for _, s := range c.open {
			s.l.after(0, func() { s.end(false) })
		}
		c.open = nil
	case 3:
		if !n.isDown {
			n.crash()
		}
	case 4:
		if !n.isDown && !n.store.IsPaused() {
			n.pause()
		}
	case 5:
		w.giveBucket(c.bucket)
	case 6, 7:
		w.giveAccount(c)
	case 8:
		if w.s.Chance(2) {
			w.log.lose()
		}
	case 9:
		w.log.downTo = w.s.Now().Add(w.s.Upto(40 * time.Second))
	case 10:
		w.store.downTo = w.s.Now().Add(w.s.Upto(40 * time.Second))
	case 11:
		if w.s.Chance(3) {
			w.failOver()
		}
	case 12:
		n.store.After(0, func() { n.ingest.Evict(c.source) })
	default:
	}
}

// failOver makes the database go back. All leases of the generation end.
func (w *simulated) failOver() {
	w.store.goBack(w.s.IntN(60))
	for b := range event.Buckets {
		if w.buckets[b].node != nil {
			w.s.After(w.s.Upto(4*time.Second), func() { w.giveBucket(b) })
		}
	}
	for _, c := range w.creators {
		w.s.After(w.s.Upto(4*time.Second), func() { w.giveAccount(c) })
	}
}

// end ends all faults and checks what is stored then.
func (w *simulated) end() {
	w.calm = true
	turn := 0
	w.s.Settle(time.Hour, "every frame is stored", func() bool {
		if turn++; turn%500 != 0 || len(w.store.own) > 0 {
			return false
		}
		for _, c := range w.creators {
			if w.missing(c, 0, len(c.frames)) > 0 {
				return false
			}
		}
		return true
	})
	for _, c := range w.creators {
		last := 0
		for _, e := range w.store.events[c.source] {
			if !w.reorders && w.keeps == 0 && e.frame > 0 && e.frame < last {
				w.s.Fail("%s: frame %d is stored after %d", c.source, e.frame, last)
			}
			last = max(last, e.frame)
		}
	}
}

// A bucket that a node drops and takes again is read from its position in the store, although a reader of the node has
// already passed entries of it.
func TestBucketThatIsTakenAgainIsReadFromItsPosition(t *testing.T) {
	t.Parallel()
	simulation.Run(t, 1, func(s *simulation.Scheduler) func() {
		w := &simulated{s: s, calm: true, ring: 10, buckets: map[int]simLease{}}
		w.log = &simLog{w: w, most: 100}
		w.log.lose()
		w.store = newSimStore(w)
		w.addCreator(0)
		c, n := w.creators[0], &simNode{w: w, store: s.NewProcess(), listen: s.NewProcess()}
		n.reset()
		take := func(epoch int64) {
			p, err := n.db.Claim(t.Context(), c.bucket, 1<<24+epoch)
			must.OK(t, err)
			n.ingest.Take(p)
		}
		take(1)
		must.OK(t, n.ingest.PollOnce(t.Context()))
		n.ingest.Drop(c.bucket)
		r := event.Record{Org: simOrg, Source: c.source, Kind: "message", UpstreamID: "1", Watermark: "0", LogEpoch: w.log.epoch, Epoch: 1<<24 + 1, Data: []byte(`{}`)}
		text := r.Append(nil)
		must.OK(t, w.log.append(c.bucket, append(binary.AppendUvarint(nil, uint64(len(text))), text...)))
		must.OK(t, n.ingest.Read(t.Context(), 1))
		take(2)
		for range 3 {
			must.OK(t, n.ingest.Read(t.Context(), 1))
			must.OK(t, n.ingest.AdvanceQuiet(t.Context()))
			must.OK(t, n.ingest.PollOnce(t.Context()))
		}
		return func() {
			if !w.store.keys[event.FrameKey{Source: c.source, DedupKey: "1"}] {
				s.Fail("the record was passed over; the position is %d", w.store.rows[c.bucket].Committed)
			}
		}
	})
}

// Faults of all kinds, in any order, lose no frame: each frame that a platform lists is stored once, in order and without
// a hole in the numbers, or a gap is reported. The watermark never passes a frame that is not stored.
func TestSimulatedFaultsLoseNoFrame(t *testing.T) {
	t.Parallel()
	simulation.Run(t, 100_000, func(s *simulation.Scheduler) func() { return newSimulated(s).end })
}
