package listen

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

// from is the frame after which frames are wanted; empty if the platform cannot be asked. An account begins at the frame that was the
// newest when it was connected. For an account that was connected without one, it is the platform's newest frame now, which is read
// before the socket is opened: nothing falls between the two.
func (s *session) from(ctx context.Context) (string, error) {
	n := s.n
	if n.reached != "" && n.epoch == s.epoch {
		return n.reached, nil // the log has all up to there
	}
	if err := n.slot.awaitStore(ctx, s.bucket); err != nil {
		return "", err
	}
	from, known, err := s.stored(ctx)
	if err != nil || known {
		return from, err
	}
	newest, err := s.newest(ctx)
	if err != nil || newest == "" {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, ownTimeout)
	defer cancel()
	if err := n.l.Store.SetWatermark(limited, n.ref.Org, string(n.ref.Account), newest); err != nil {
		return "", unable{err}
	}
	return newest, nil
}

// stored is the frame up to which the store has all.
func (s *session) stored(ctx context.Context) (watermark string, known bool, err error) {
	limited, cancel := context.WithTimeout(ctx, ownTimeout)
	defer cancel()
	head, err := s.n.l.Store.Head(limited, s.n.ref.Org, string(s.n.ref.Account))
	if err != nil {
		return "", false, unable{err}
	}
	return head.Watermark, head.Known, nil
}

// newest asks the platform for its newest frame; empty if it cannot be asked.
func (s *session) newest(ctx context.Context) (string, error) {
	a, access, err := s.access(ctx)
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, s.n.l.Config.DialTimeout)
	defer cancel()
	newest, answer, err := driver.Newest(limited, s.driver, a.Via(), access)
	s.rotated(ctx, a, answer.Changed, answer.Session)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return newest, err
}

// since asks the platform for frames behind one.
func (s *session) since(ctx context.Context, after string) (driver.Missed, error) {
	a, access, err := s.access(ctx)
	if err != nil {
		return driver.Missed{}, err
	}
	limited, cancel := context.WithTimeout(ctx, s.n.l.Config.DialTimeout)
	defer cancel()
	m, err := s.driver.Since(limited, a.Via(), access, after)
	s.rotated(ctx, a, m.Changed, m.Session)
	m.Session = driver.Session{}
	if ctx.Err() != nil {
		return m, context.Cause(ctx)
	}
	return m, err
}

// begin makes the socket's frames wait.
func (s *session) begin(after string) {
	s.order.Lock()
	defer s.order.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flow.begin(after)
}

// fill publishes what came behind a frame, then what has come by the socket meanwhile, and lets the rest go on as it comes.
func (s *session) fill(ctx context.Context, after string) error {
	s.n.l.metrics.fills.Inc()
	for first := true; ; first = false {
		var err error
		if after, err = s.fetch(ctx, after, first); err != nil {
			return err
		}
		if done, err := s.release(ctx, after); done || err != nil {
			return err
		}
	}
}

// release publishes what waits. It is not done if so much came that it must be fetched instead.
func (s *session) release(ctx context.Context, after string) (done bool, err error) {
	for {
		s.mu.Lock()
		list, spilled := s.flow.next()
		if spilled {
			s.flow.again()
		}
		s.mu.Unlock()
		switch {
		case spilled && after == "": // they came, and there is no way to get them again
			return false, s.gap(ctx, s.n.l.Now(), "")
		case spilled:
			return false, nil
		case len(list) == 0:
			return true, nil
		}
		for i := range list {
			if err := s.publish(ctx, &list[i], s.n.l.Now()); err != nil {
				return false, err
			}
		}
	}
}

// refill fetches again what a log that was lost may have held, while the socket stays open. Until then records are still those of the
// lost log: what the flow believes to be confirmed may be gone.
func (s *session) refill(ctx context.Context) error {
	if !clock.Pause(ctx, jitter(s.n.l.Config.Spread)) {
		return context.Cause(ctx)
	}
	epoch, err := s.n.l.logEpoch(ctx)
	if err != nil {
		return err
	}
	from, known, err := s.stored(ctx)
	if err != nil {
		return err
	}
	s.begin(from)
	s.mu.Lock()
	s.epoch = epoch
	s.mu.Unlock()
	if !known || from == "" {
		if err := s.gap(ctx, s.n.l.Now().Add(-s.n.l.Config.LogCheck-s.n.l.Config.Spread), ""); err != nil {
			return err
		}
	}
	return s.fill(ctx, from)
}

// fetch publishes what the platform lists behind a frame, and gives the last one. Empty means that it cannot be asked.
func (s *session) fetch(ctx context.Context, after string, first bool) (last string, err error) {
	if after == "" {
		if first && !s.n.lost.IsZero() {
			err = s.gap(ctx, s.n.lost, "")
		}
		return "", err
	}
	for {
		m, err := s.since(ctx, after)
		switch {
		case driver.CannotList(err) && first:
			return "", s.gap(ctx, s.n.lost, "")
		case driver.CannotList(err):
			return "", nil
		case err != nil:
			return after, err
		}
		if err := s.page(ctx, &m, first); err != nil {
			return after, err
		}
		if m.Last != "" {
			after = m.Last
		}
		if !m.More || m.Last == "" {
			return after, nil
		}
		first = false
	}
}

// page publishes a page of what was missed. That the platform has forgotten some shows in the first one.
func (s *session) page(ctx context.Context, m *driver.Missed, first bool) error {
	if m.Skipped > 0 {
		s.n.l.metrics.skipped.WithLabelValues("listed").Add(float64(m.Skipped))
	}
	if m.Gap && first {
		watermark := ""
		if len(m.Events) == 0 {
			watermark = m.Newest // or every socket would find the same gap
		}
		if err := s.gap(ctx, s.n.lost, watermark); err != nil {
			return err
		}
	}
	var came time.Time // others follow: these have settled
	if !m.More {
		came = s.n.l.Now()
	}
	for i := range m.Events {
		e := &m.Events[i]
		s.n.l.metrics.frames.WithLabelValues(string(e.Class), "list").Inc()
		if e.Class == catalog.Ephemeral {
			continue // it was for whoever listened then
		}
		s.mu.Lock()
		s.flow.fetched(e.UpstreamID)
		s.mu.Unlock()
		if err := s.publish(ctx, e, came); err != nil {
			return err
		}
	}
	return nil
}

// gap publishes that events since a time may be missing.
func (s *session) gap(ctx context.Context, from time.Time, watermark string) error {
	s.n.l.metrics.gaps.Inc()
	now := s.n.l.Now().UTC()
	told := struct {
		FromSeq    *int64      `json:"fromSeq"`
		ToSeq      *int64      `json:"toSeq"`
		From       *stamp.Time `json:"from"`
		To         stamp.Time  `json:"to"`
		Backfilled bool        `json:"backfilled"`
	}{To: stamp.Time(now)}
	if !from.IsZero() {
		told.From = (*stamp.Time)(&from)
	}
	data, err := json.Marshal(told)
	if err != nil {
		return unable{err}
	}
	s.mu.Lock()
	if watermark != "" {
		s.flow.base = watermark
	}
	s.mu.Unlock()
	return s.publish(ctx, &catalog.Event{Kind: event.KindGap, Class: catalog.Durable, Data: data}, now)
}

// bounded is what of an event's data goes into the log: of more than can be told later only the size.
func bounded(data json.RawMessage) json.RawMessage {
	if len(data) <= event.MaxData {
		return data
	}
	return append(strconv.AppendInt([]byte(`{"truncated":true,"sizeBytes":`), int64(len(data)), 10), '}')
}
