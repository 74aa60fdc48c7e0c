package listen

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// session is one socket of an account, from its opening to its end.
type session struct {
	n      *line
	driver driver.Driver
	bucket int
	// fail ends it.
	fail context.CancelCauseFunc
	// account is what records tell of the account; replaced when it is read again.
	mu      sync.Mutex
	account account.Account
	// epoch is the log's that the records are for.
	epoch string
	flow  flow
	// room is signalled when the log has confirmed something.
	room chan struct{}
	// order is held by the reader from deciding that a frame goes on until it is handed to the log.
	order sync.Mutex
	// text is where whoever publishes writes its record.
	text []byte
	// touched is when it was last noted that events come; only the reader uses it.
	touched time.Time

	soft      sync.Mutex
	coalescer coalescer
	timer     *time.Timer
}

// session opens a socket and listens to it until one side has enough. up says whether it was open.
func (n *line) session(ctx context.Context) (up bool, err error) {
	opened, err := n.enter(ctx)
	if err != nil {
		return false, err
	}
	defer opened()
	drv, ok := n.l.Drivers(n.a.Environment)
	if !ok {
		return false, unable{errors.New("there is no way to the account's platform")}
	}
	if n.shown == account.ListenerOff {
		n.show(ctx, account.ListenerConnecting)
	}
	living, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	s := &session{n: n, driver: drv, bucket: event.Bucket(string(n.ref.Account)), fail: fail, room: make(chan struct{}, 1), flow: flow{bounds: usual}}
	select {
	case <-n.refill: // the log that was lost is not the one that this session begins with
	default:
	}
	if s.epoch, err = n.l.logEpoch(ctx); err != nil {
		return false, err
	}
	from, err := s.from(living)
	if err != nil {
		return false, err
	}
	socket, err := s.open(living)
	if err != nil {
		return false, err
	}
	defer socket.Close()
	n.stand(account.ListenerUp)
	n.show(ctx, account.ListenerUp)
	err = s.listen(living, socket, from, opened)
	n.a = s.account // everything has ended
	return true, err
}

// enter waits for a place among those who open their sockets, and reads the account. Call left when it is open.
func (n *line) enter(ctx context.Context) (left func(), err error) {
	for {
		region := n.a.Region
		gate := n.l.gate(region)
		select {
		case gate <- struct{}{}:
			left = sync.OnceFunc(func() { <-gate })
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if err := n.look(ctx); err != nil {
			left()
			return nil, err
		}
		n.took(n.a)
		if n.a.Region == region {
			return left, nil
		}
		left() // the place is for another region
	}
}

// access reads the account and its session, for as long as it takes to use it.
func (s *session) access(ctx context.Context) (account.Account, driver.Session, error) {
	n := s.n
	limited, cancel := context.WithTimeout(ctx, ownTimeout)
	defer cancel()
	a, session, err := n.l.Accounts.Session(limited, n.ref.Org, n.ref.Account)
	switch {
	case errors.Is(err, problem.AccountNotFound.New("")), err != nil && a.ID != "" && !a.Listenable():
		return a, session, errStop
	case err != nil:
		return a, session, unable{err}
	}
	s.know(a)
	return a, session, nil
}

// know takes over the account as it is now.
func (s *session) know(a account.Account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account = a
}

// open opens the socket. Frames wait until it is known what was missed.
func (s *session) open(ctx context.Context) (*driver.Socket, error) {
	a, access, err := s.access(ctx)
	if err != nil {
		return nil, err
	}
	s.n.know(a)
	limited, cancel := context.WithTimeout(ctx, s.n.l.Config.DialTimeout)
	defer cancel()
	socket, err := s.driver.Listen(limited, a.Via(), access)
	if err != nil {
		return nil, err
	}
	s.rotated(ctx, a, socket.Changed, socket.Session)
	socket.Session = driver.Session{}
	return socket, nil
}

// rotated stores the cookies that an answer changed. That it failed costs the next call a sign-in at worst.
func (s *session) rotated(ctx context.Context, a account.Account, changed []string, access driver.Session) {
	if len(changed) == 0 {
		return
	}
	next, err := s.n.l.Accounts.Rotate(context.WithoutCancel(ctx), a, changed, access)
	if err != nil {
		s.n.l.Log.LogAttrs(ctx, slog.LevelWarn, "rotation not stored", slog.String("account", string(s.n.ref.Account)), slog.Any("error", err))
		return
	}
	s.know(next)
}

// listen reads the socket, fetches what was missed, and minds what happens to the account meanwhile. opened is called when the first
// fetching is over.
func (s *session) listen(ctx context.Context, socket *driver.Socket, from string, opened func()) error {
	var work sync.WaitGroup
	s.begin(from)
	read, filled := make(chan error, 1), make(chan error, 1)
	work.Go(func() { read <- s.read(ctx, socket) })
	work.Go(func() { filled <- s.fill(ctx, from) })
	err := s.mind(ctx, read, filled, opened, &work)
	s.fail(err)
	work.Wait()
	s.drain(ctx)
	return err
}

// mind waits for what ends the session.
func (s *session) mind(ctx context.Context, read <-chan error, filled chan error, opened func(), work *sync.WaitGroup) error {
	n := s.n
	filling := true
	for {
		refill := n.refill
		if filling {
			refill = nil // one after the other
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-read:
			return err
		case err := <-filled:
			opened()
			if filling = false; err != nil {
				return err
			}
		case <-n.poked:
			if err := s.again(ctx); err != nil {
				return err
			}
		case <-refill:
			filling = true
			work.Go(func() { filled <- s.refill(ctx) })
		}
	}
}

// again looks at an account that may have changed.
func (s *session) again(ctx context.Context) error {
	n := s.n
	before := n.a
	err := n.look(ctx)
	if _, ours := errors.AsType[unable](err); ours {
		n.version.Store(0) // the sweep asks again
		return nil
	}
	if err != nil {
		return err
	}
	if !n.a.SameWay(before) {
		return errReopen
	}
	s.know(n.a)
	n.show(ctx, account.ListenerUp)
	return nil
}

// read hands on what the socket brings.
func (s *session) read(ctx context.Context, socket *driver.Socket) error {
	m := &s.n.l.metrics
	for {
		e, err := socket.Next(ctx)
		if err != nil {
			if why := unread(err); why != "" {
				m.skipped.WithLabelValues(why).Inc()
				s.n.l.Log.LogAttrs(ctx, slog.LevelDebug, "frame not understood", slog.String("account", string(s.n.ref.Account)), slog.String("kind", e.Kind), slog.Any("error", err))
				continue
			}
			return err
		}
		m.frames.WithLabelValues(string(e.Class), "socket").Inc()
		now := s.n.l.Now()
		if now.Sub(s.touched) >= touchEvery {
			s.touched = now
			s.n.l.touches.add(s.n.ref, now)
		}
		if e.Class == catalog.Ephemeral {
			s.ephemeral(&e, now)
			continue
		}
		if err := s.came(ctx, &e); err != nil {
			return err
		}
	}
}

// unread is why a frame was not understood; empty for an error that is about more than one.
func unread(err error) string {
	for why, known := range map[string]error{"invalid": catalog.ErrInvalid, "changed": catalog.ErrChanged, "unknown": catalog.ErrUnknownFrame} {
		if _, closed := errors.AsType[*driver.Closed](err); !closed && errors.Is(err, known) {
			return why
		}
	}
	return ""
}

// came takes a frame of the socket: it waits, or it goes on.
func (s *session) came(ctx context.Context, e *catalog.Event) error {
	if s.waits(e) {
		return nil
	}
	s.order.Lock()
	defer s.order.Unlock()
	if s.waits(e) { // fetching has begun meanwhile
		return nil
	}
	return s.publish(ctx, e, s.n.l.Now())
}

func (s *session) waits(e *catalog.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flow.wait(e)
}

// publish hands an event to the log. It waits while the log is behind, and then the socket is not read.
func (s *session) publish(ctx context.Context, e *catalog.Event, came time.Time) error {
	s.mu.Lock()
	for held := false; s.flow.full(); {
		s.mu.Unlock()
		if !held {
			held = true
			s.n.l.metrics.held.Inc()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.room:
		}
		s.mu.Lock()
	}
	flow, size := &s.flow, len(e.Data)
	a := &s.account
	record := event.Record{
		Org: a.Org, Source: string(a.ID), Kind: e.Kind, UpstreamID: e.UpstreamID, UpstreamAt: e.At, OfUserID: a.UpstreamID,
		ReferenceID: a.ReferenceID, LogEpoch: s.epoch, Epoch: s.n.slot.epoch, Data: bounded(e.Data), Watermark: flow.send(e.UpstreamID, size, came, s.n.l.Now()),
	}
	s.mu.Unlock()
	return s.add(ctx, &record, size)
}

// keptText bounds the memory for records that a session keeps.
const keptText = 16 << 10

// add hands a record to the log.
func (s *session) add(ctx context.Context, record *event.Record, size int) error {
	text := record.Append(s.text[:0])
	if s.text = text; cap(text) > keptText {
		s.text = nil
	}
	err := s.n.l.Events.Add(ctx, s.bucket, text, func(err error) {
		s.mu.Lock()
		if err == nil {
			s.flow.ack(size)
		}
		s.mu.Unlock()
		if err != nil {
			s.fail(unable{err})
		}
		signal(s.room)
	})
	if err == nil {
		return nil
	}
	s.mu.Lock()
	s.flow.unsend(size)
	s.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return unable{err}
}

// drain waits until the log has confirmed what was read, within bounds, and keeps what the next session can go on from.
func (s *session) drain(ctx context.Context) {
	s.soft.Lock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.soft.Unlock()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.n.l.Config.Drain)
	defer cancel()
	for {
		s.mu.Lock()
		done := s.flow.sent == s.flow.acked
		s.n.reached, s.n.epoch = s.flow.reached(s.n.l.Now()), s.epoch
		s.mu.Unlock()
		if _, failed := errors.AsType[unable](context.Cause(ctx)); done || failed {
			return
		}
		select {
		case <-limited.Done():
			return
		case <-s.room:
		}
	}
}

// ephemeral tells an event that is not stored, or keeps it for a moment if one of its kind was told just now.
func (s *session) ephemeral(e *catalog.Event, now time.Time) {
	s.soft.Lock()
	defer s.soft.Unlock()
	if s.coalescer.came(e, now) {
		s.flash(e, now)
	}
	s.plan(now)
}

// plan sets the timer for what waits.
func (s *session) plan(now time.Time) {
	list, next := s.coalescer.due(now)
	for i := range list {
		s.flash(&list[i], now)
	}
	if next.IsZero() {
		return
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(next.Sub(now), func() {
			s.soft.Lock()
			defer s.soft.Unlock()
			s.plan(s.n.l.Now())
		})
		return
	}
	s.timer.Reset(next.Sub(now))
}

// flash tells an event to whoever listens now. That nobody hears it is no loss.
func (s *session) flash(e *catalog.Event, now time.Time) {
	s.mu.Lock()
	a := s.account
	s.mu.Unlock()
	told := event.Stored{Org: a.Org, Source: string(a.ID), At: now, ID: id.New[id.Event](), Kind: e.Kind}
	told.Body = event.AppendEnvelope(nil, &event.Envelope{
		ID: told.ID, Kind: e.Kind, Account: told.Source, At: now, Data: e.Data,
		Meta: event.Meta{OfUserID: a.UpstreamID, ReferenceID: a.ReferenceID, Sandbox: a.Environment == org.EnvSandbox, UpstreamAt: e.At},
	})
	message := event.AppendLive(nil, &told)
	_ = s.n.l.Bus.Poke(event.LiveSubject(a.Org, told.Source), message)
	_ = s.n.l.Bus.Poke(event.EphemeralSubject(told.Source), message)
}
