package listen

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/tracing"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/events/listen/flow"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
)

// session is one socket of an account, from its opening to its end. On a platform that is polled it has no socket.
type session struct {
	listener *listener
	driver   driver.Driver
	bucket   int
	// isPolled means that the platform is polled: the watermark is a position of the driver and not the id of a frame.
	isPolled bool
	// sentPosition is the position in the last record that had one. A position can be large, so the records of a batch
	// that follow only refer to it.
	sentPosition string
	// fail ends the session.
	fail context.CancelCauseFunc
	// mu guards account, epoch and flow.
	mu sync.Mutex
	// account is the source of the account's fields in records.
	account account.Account
	// epoch is the epoch of the log that records are published for.
	epoch string
	flow  flow.Flow
	// ackSignal is signalled when the log has confirmed or refused a record.
	ackSignal chan struct{}
	// publishMu is held by the reader from the decision to publish a frame until the log has it, so that a fill cannot
	// begin in between.
	publishMu sync.Mutex
	// buffer is reused for encoding records. Only the reader or the fill publishes, never both.
	buffer []byte
	// recordedAt is when the time of the last event was last recorded; only the reader uses it.
	recordedAt time.Time

	// ephemeralMu guards coalescer and timer.
	ephemeralMu sync.Mutex
	coalescer   coalescer
	timer       *time.Timer
}

// session opens a socket and listens to it until it ends. up reports whether the socket was open. The order matters:
// the frame to start from is determined before the socket is opened, so that no frame falls in between.
func (n *listener) session(ctx context.Context) (up bool, err error) {
	release, err := n.acquireDialSlot(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	platform, ok := n.l.deps.Platforms(n.a.Place.Platform)
	if !ok {
		return false, internalError{registry.Unavailable(n.a.Place.Platform)}
	}
	if n.written == account.ListenerOff {
		n.writeState(ctx, account.ListenerConnecting)
	}
	living, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	s := &session{
		listener: n, driver: platform.Driver, bucket: event.Bucket(string(n.ref.Account)), fail: fail, ackSignal: make(chan struct{}, 1),
		flow: flow.New(flow.Defaults()),
	}
	select {
	case <-n.refill: // a loss before this session does not concern it
	default:
	}
	if s.epoch, err = n.l.logEpoch(ctx); err != nil {
		return false, err
	}
	from, err := s.startFrame(living)
	if err != nil {
		return false, err
	}
	if spec := platform.Catalog.Poll; spec != nil {
		s.isPolled = true
		up, err = s.poll(living, spec, from, release)
		fail(err)
		s.drainLog(living)
		n.a = s.account // no lock: all goroutines of the session have ended
		return up, err
	}
	socket, err := s.openSocket(living)
	if err != nil {
		return false, err
	}
	defer socket.Close()
	n.setState(account.ListenerUp)
	n.writeState(ctx, account.ListenerUp)
	err = s.run(living, socket, from, release)
	n.a = s.account // no lock: all goroutines of the session have ended
	return true, err
}

// acquireDialSlot waits for its turn to open a socket in the account's region, and reads the account. Call release when
// missed frames have been fetched.
func (n *listener) acquireDialSlot(ctx context.Context) (release func(), err error) {
	for {
		region := n.a.Region
		gate := n.l.gate(region)
		select {
		case gate <- struct{}{}:
			release = sync.OnceFunc(func() { <-gate })
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if err := n.reload(ctx); err != nil {
			release()
			return nil, err
		}
		n.initFrom(n.a)
		if n.a.Region == region {
			return release, nil
		}
		release() // this slot is of another region
	}
}

// loadSession reads the account and opens its session. Callers keep the session only as long as they need it.
func (s *session) loadSession(ctx context.Context) (account.Account, driver.Session, error) {
	n := s.listener
	limited, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	a, session, err := n.l.deps.Accounts.Session(limited, n.ref.Org, n.ref.Account)
	switch {
	case errors.Is(err, problem.AccountNotFound.New("")), err != nil && a.ID != "" && !a.Listenable():
		return a, session, errStop
	case err != nil:
		return a, session, internalError{err}
	}
	s.setAccount(a)
	return a, session, nil
}

func (s *session) setAccount(a account.Account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account = a
}

// openSocket opens the socket and stores the cookies that the response changed.
func (s *session) openSocket(ctx context.Context) (*driver.Socket, error) {
	a, access, err := s.loadSession(ctx)
	if err != nil {
		return nil, err
	}
	s.listener.setAccount(a)
	limited, cancel := context.WithTimeout(ctx, s.listener.l.deps.Config.DialTimeout)
	defer cancel()
	socket, err := s.driver.Listen(limited, a.Via(), access)
	if err != nil {
		return nil, err
	}
	s.storeRotation(ctx, a, socket.Changed, socket.Session)
	socket.Session = driver.Session{}
	return socket, nil
}

// storeRotation stores the cookies that a response changed. A failure is only logged; at worst the next call needs a
// new sign-in.
func (s *session) storeRotation(ctx context.Context, a account.Account, changed []string, access driver.Session) {
	if len(changed) == 0 {
		return
	}
	next, err := s.listener.l.deps.Accounts.Rotate(context.WithoutCancel(ctx), a, changed, access)
	if err != nil {
		s.listener.l.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot store rotated cookies",
			slog.String(logkey.Account, string(s.listener.ref.Account)), slog.Any(logkey.Error, err))
		return
	}
	s.setAccount(next)
}

// run reads the socket, fetches what was missed and reacts to changes of the account, until one of them ends the
// session. opened is called when the first fetch has ended.
func (s *session) run(ctx context.Context, socket *driver.Socket, from string, opened func()) error {
	var work sync.WaitGroup
	s.beginFill(from)
	read, filled := make(chan error, 1), make(chan error, 1)
	work.Go(func() { read <- s.readSocket(ctx, socket) })
	work.Go(func() { filled <- s.fill(ctx, from) })
	err := s.supervise(ctx, read, filled, opened, &work)
	s.fail(err)
	work.Wait()
	s.drainLog(ctx)
	return err
}

// supervise waits for what ends the session, and starts a refill when the log was lost.
func (s *session) supervise(ctx context.Context, read <-chan error, filled chan error, opened func(),
	work *sync.WaitGroup) error {
	n := s.listener
	filling := true
	for {
		refill := n.refill
		if filling {
			refill = nil // one fill at a time
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
		case <-n.changed:
			if err := s.onAccountChange(ctx); err != nil {
				return err
			}
		case <-refill:
			filling = true
			work.Go(func() { filled <- s.refill(ctx) })
		}
	}
}

// onAccountChange reads an account that may have changed. It fails with errStop or errReopen if the session must end.
func (s *session) onAccountChange(ctx context.Context) error {
	n := s.listener
	before := n.a
	err := n.reload(ctx)
	if _, ours := errors.AsType[internalError](err); ours {
		n.version.Store(0) // the next sweep notifies us again
		return nil
	}
	if err != nil {
		return err
	}
	if !n.a.SameConnection(before) {
		return errReopen
	}
	s.setAccount(n.a)
	n.writeState(ctx, account.ListenerUp)
	return nil
}

// readSocket passes on the frames of the socket. It skips frames that do not match the manifest.
func (s *session) readSocket(ctx context.Context, socket *driver.Socket) error {
	m := &s.listener.l.metrics
	for {
		e, err := socket.Next(ctx)
		if err != nil {
			if why := skipReason(err); why != "" {
				m.skipped.WithLabelValues(why).Inc()
				s.listener.l.deps.Log.LogAttrs(ctx, slog.LevelDebug, "skipped frame that does not match the manifest",
					slog.String(logkey.Account, string(s.listener.ref.Account)), slog.String(logkey.Kind, e.Kind), slog.Any(logkey.Error, err))
				continue
			}
			return err
		}
		m.frames.WithLabelValues(string(e.Class), "socket").Inc()
		now := s.listener.l.deps.Now()
		if now.Sub(s.recordedAt) >= recordEvery {
			s.recordedAt = now
			s.listener.l.eventTimes.add(s.listener.ref, now)
		}
		if e.Class == catalog.Ephemeral {
			s.handleEphemeral(&e, now)
			continue
		}
		if err := s.handleFrame(ctx, &e); err != nil {
			return err
		}
	}
}

// skipReason returns why a single frame is skipped; empty for an error that ends the socket.
func skipReason(err error) string {
	for why, known := range map[string]error{"invalid": catalog.ErrInvalid, "changed": catalog.ErrChanged, "unknown": catalog.ErrUnknownFrame} {
		if _, closed := errors.AsType[*driver.Closed](err); !closed && errors.Is(err, known) {
			return why
		}
	}
	return ""
}

// handleFrame buffers a frame while missed frames are being fetched, or publishes it.
func (s *session) handleFrame(ctx context.Context, e *catalog.Event) error {
	if s.bufferFrame(e) {
		return nil
	}
	s.publishMu.Lock()
	defer s.publishMu.Unlock()
	if s.bufferFrame(e) { // a fill has begun in the meantime
		return nil
	}
	return s.publish(ctx, e, s.listener.l.deps.Now())
}

func (s *session) bufferFrame(e *catalog.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flow.Buffer(e)
}

// publish appends an event to the log. While too much is unconfirmed it waits, and the socket is not read. came is when
// the frame arrived; see flow.Flow.Send.
func (s *session) publish(ctx context.Context, e *catalog.Event, came time.Time) error {
	s.mu.Lock()
	for held := false; s.flow.IsFull(); {
		s.mu.Unlock()
		if !held {
			held = true
			s.listener.l.metrics.held.Inc()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.ackSignal:
		}
		s.mu.Lock()
	}
	size, a := len(e.Data), &s.account
	mark := e.UpstreamID
	if s.isPolled {
		mark = ""
	}
	watermark := s.flow.Send(mark, size, e.At, came, s.listener.l.deps.Now())
	moved := s.isPolled && watermark != s.sentPosition
	switch {
	case moved:
		s.sentPosition = watermark
	case s.isPolled && watermark != "":
		watermark = event.SameWatermark
	}
	record := event.Record{
		Org: a.Org, Source: string(a.ID), Kind: e.Kind, UpstreamID: e.UpstreamID, UpstreamAt: e.At, OfUserID: a.UpstreamID,
		ReferenceID: a.ReferenceID, LogEpoch: s.epoch, Epoch: s.listener.shard.epoch, Data: truncateData(e.Data),
		Watermark: watermark,
	}
	s.mu.Unlock()
	ctx, span := s.startFrameSpan(ctx, e.Kind)
	if err := s.add(ctx, &record, size); err != nil || !moved {
		if err != nil {
			tracing.End(span, err, "not in the event log")
		}
		return err
	}
	// Later records refer to the position in this one, so they must not be in the log without it.
	return s.awaitAcks(ctx)
}

// startFrameSpan starts the trace of a frame. The span ends when the log has confirmed or refused the frame.
func (s *session) startFrameSpan(ctx context.Context, kind string) (context.Context, trace.Span) {
	ctx, span := tracing.Begin(ctx, s.listener.l.deps.Tracer, nil, "send evt", trace.SpanKindProducer)
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("messaging.system", "stagedoor"), attribute.String("messaging.operation.type", "send"),
			attribute.String("messaging.operation.name", "send"), attribute.String("messaging.destination.name", "evt"),
			attribute.String("stagedoor.event.kind", kind),
		)
	}
	return ctx, span
}

// maxBuffer bounds the buffer that a session keeps, in bytes.
const maxBuffer = 16 << 10

// add appends a record to the log. A refusal by the log ends the session, which then fetches the record again.
func (s *session) add(ctx context.Context, record *event.Record, size int) error {
	text, err := s.listener.l.deps.Store.SealRecord(ctx, s.buffer[:0], record)
	if err == nil {
		err = s.addText(ctx, text, size, record.UpstreamAt)
	}
	if err == nil {
		return nil
	}
	s.mu.Lock()
	s.flow.UndoSend(size)
	s.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return internalError{err}
}

// addText appends an encoded record of an event that happened at a time, which is zero if it is not known.
func (s *session) addText(ctx context.Context, text []byte, size int, happened time.Time) error {
	if s.buffer = text; cap(text) > maxBuffer {
		s.buffer = nil
	}
	span := trace.SpanFromContext(ctx)
	return s.listener.l.deps.Events.Add(ctx, s.bucket, text, func(err error) {
		tracing.End(span, err, "not in the event log")
		s.mu.Lock()
		if err == nil {
			s.flow.Ack(size)
		}
		s.mu.Unlock()
		if err == nil && !happened.IsZero() && !s.isPolled {
			tracing.ObserveIn(tracing.Sampled(span), s.listener.l.metrics.delay, max(0, s.listener.l.deps.Now().Sub(happened)).Seconds())
		}
		if err != nil {
			s.fail(internalError{err})
		}
		signal(s.ackSignal)
	})
}

// drainLog waits, at most Config.Drain, until the log has confirmed what was read, and stores where the next session
// can continue.
func (s *session) drainLog(ctx context.Context) {
	s.ephemeralMu.Lock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.ephemeralMu.Unlock()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.listener.l.deps.Config.Drain)
	defer cancel()
	for {
		s.mu.Lock()
		done := s.flow.IsConfirmed()
		s.listener.resumeFrom, s.listener.epoch = s.flow.WatermarkAt(s.listener.l.deps.Now()), s.epoch
		s.mu.Unlock()
		if _, failed := errors.AsType[internalError](context.Cause(ctx)); done || failed {
			return
		}
		select {
		case <-limited.Done():
			return
		case <-s.ackSignal:
		}
	}
}

// handleEphemeral publishes an ephemeral event, or holds it back if one of its kind has just been published.
func (s *session) handleEphemeral(e *catalog.Event, now time.Time) {
	s.ephemeralMu.Lock()
	defer s.ephemeralMu.Unlock()
	if s.coalescer.add(e, now) {
		s.publishEphemeral(e, now)
	}
	s.flushDue(now)
}

// flushDue publishes held events that are due, and sets the timer for the others. The caller holds ephemeralMu.
func (s *session) flushDue(now time.Time) {
	list, next := s.coalescer.due(now)
	for i := range list {
		s.publishEphemeral(&list[i], now)
	}
	if next.IsZero() {
		return
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(next.Sub(now), func() {
			s.ephemeralMu.Lock()
			defer s.ephemeralMu.Unlock()
			s.flushDue(s.listener.l.deps.Now())
		})
		return
	}
	s.timer.Reset(next.Sub(now))
}

// publishEphemeral publishes an ephemeral event for streams and webhooks. It is best effort.
func (s *session) publishEphemeral(e *catalog.Event, now time.Time) {
	s.mu.Lock()
	a := s.account
	s.mu.Unlock()
	stored := event.Stored{Org: a.Org, Source: string(a.ID), At: now, ID: id.New[id.Event](), Kind: e.Kind}
	stored.Body = event.AppendEnvelope(nil, &event.Envelope{
		ID: stored.ID, Kind: e.Kind, Account: stored.Source, At: now, Data: e.Data,
		Meta: event.Meta{OfUserID: a.UpstreamID, ReferenceID: a.ReferenceID, Sandbox: a.Environment.IsTest(), UpstreamAt: e.At},
	})
	message := event.AppendLive(nil, &stored)
	_ = s.listener.l.deps.Bus.Publish(event.LiveSubject(a.Org, stored.Source), message)
	_ = s.listener.l.deps.Bus.Publish(event.EphemeralSubject(stored.Source), message)
}
