package listen

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/events/listen/flow"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

// startFrame returns the frame after which frames are wanted; empty if the platform cannot list frames. An account
// starts at the frame that was the newest when it was connected. For an account that was connected without one, it is
// the platform's newest frame now, read before the socket is opened, so that no frame falls in between.
func (s *session) startFrame(ctx context.Context) (string, error) {
	n := s.listener
	if n.resumeFrom != "" && n.epoch == s.epoch {
		return n.resumeFrom, nil // the log has everything up to there
	}
	if err := n.shard.awaitStore(ctx, s.bucket); err != nil {
		return "", err
	}
	from, known, err := s.storedWatermark(ctx)
	if err != nil || known {
		return from, err
	}
	newest, err := s.newestFrame(ctx)
	if err != nil || newest == "" {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	if err := n.l.deps.Store.SetWatermark(limited, n.ref.Org, string(n.ref.Account), newest); err != nil {
		return "", internalError{err}
	}
	return newest, nil
}

// storedWatermark returns the watermark in the store: the frame up to which it has everything.
func (s *session) storedWatermark(ctx context.Context) (watermark string, known bool, err error) {
	limited, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	head, err := s.listener.l.deps.Store.Head(limited, s.listener.ref.Org, string(s.listener.ref.Account))
	if err != nil {
		return "", false, internalError{err}
	}
	return head.Watermark, head.Known, nil
}

// newestFrame asks the platform for its newest frame; empty if the platform cannot list frames.
func (s *session) newestFrame(ctx context.Context) (string, error) {
	a, access, err := s.loadSession(ctx)
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, s.listener.l.deps.Config.DialTimeout)
	defer cancel()
	newest, answer, err := driver.Newest(limited, s.driver, a.Via(), access)
	s.storeRotation(ctx, a, answer.Changed, answer.Session)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return newest, err
}

// framesAfter asks the platform for a page of frames after one.
func (s *session) framesAfter(ctx context.Context, after string) (driver.Missed, error) {
	a, access, err := s.loadSession(ctx)
	if err != nil {
		return driver.Missed{}, err
	}
	limited, cancel := context.WithTimeout(ctx, s.listener.l.deps.Config.DialTimeout)
	defer cancel()
	m, err := s.driver.Since(limited, a.Via(), access, after)
	s.storeRotation(ctx, a, m.Changed, m.Session)
	m.Session = driver.Session{}
	if ctx.Err() != nil {
		return m, context.Cause(ctx)
	}
	return m, err
}

// beginFill makes the socket's frames wait until the fill has ended.
func (s *session) beginFill(after string) {
	s.publishMu.Lock()
	defer s.publishMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flow.BeginFill(after)
}

// fill fetches and publishes the frames after a frame, then the frames that the socket received in the meantime.
// After that the reader publishes frames directly.
func (s *session) fill(ctx context.Context, after string) error {
	s.listener.l.metrics.fills.Inc()
	fill := flow.NewFill(&s.flow, after, s.listener.gapFrom)
	for {
		now := s.listener.l.deps.Now()
		s.mu.Lock()
		step := fill.Next(now)
		s.mu.Unlock()
		var err error
		switch step.Do {
		case flow.Done:
			return nil
		case flow.List:
			err = s.listMissed(ctx, fill, step.After)
		case flow.ReportGap:
			err = s.publishGap(ctx, step.From, step.Watermark)
		case flow.Publish:
			err = s.publishList(ctx, &step)
		}
		if err != nil {
			return err
		}
	}
}

// listMissed asks the platform for a page of missed frames, for a fill.
func (s *session) listMissed(ctx context.Context, fill *flow.Fill, after string) error {
	m, err := s.framesAfter(ctx, after)
	if err != nil && !driver.CannotList(err) {
		return err
	}
	counted := &s.listener.l.metrics
	if m.Skipped > 0 {
		counted.skipped.WithLabelValues("listed").Add(float64(m.Skipped))
	}
	for i := range m.Events {
		counted.frames.WithLabelValues(string(m.Events[i].Class), "list").Inc()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		fill.CannotList()
	} else {
		fill.Listed(&m)
	}
	return nil
}

// publishList publishes the frames of a step.
func (s *session) publishList(ctx context.Context, step *flow.Step) error {
	for i := range step.Frames {
		var came time.Time // zero for a settled frame
		if !step.Settled {
			came = s.listener.l.deps.Now()
		}
		if err := s.publish(ctx, &step.Frames[i], came); err != nil {
			return err
		}
	}
	return nil
}

// refill fetches again what a lost log may have contained, while the socket stays open. Records carry the epoch of the
// lost log until the fill begins, and ingest drops them: what the flow counts as confirmed may have been lost.
func (s *session) refill(ctx context.Context) error {
	if !clock.Pause(ctx, randomUpTo(s.listener.l.deps.Config.Spread)) {
		return context.Cause(ctx)
	}
	epoch, err := s.listener.l.logEpoch(ctx)
	if err != nil {
		return err
	}
	from, known, err := s.storedWatermark(ctx)
	if err != nil {
		return err
	}
	s.beginFill(from)
	s.mu.Lock()
	s.epoch = epoch
	s.mu.Unlock()
	if !known || from == "" {
		if err := s.publishGap(ctx, s.listener.l.deps.Now().Add(-s.listener.l.deps.Config.LogCheck-s.listener.l.deps.Config.Spread),
			""); err != nil {
			return err
		}
	}
	return s.fill(ctx, from)
}

// publishGap publishes listener.gap: events since from may be missing. A watermark, if not empty, becomes the new
// start.
func (s *session) publishGap(ctx context.Context, from time.Time, watermark string) error {
	s.listener.l.metrics.gaps.Inc()
	now := s.listener.l.deps.Now().UTC()
	gap := contract.ListenerGap{To: stamp.Time(now)}
	if !from.IsZero() {
		gap.From = (*stamp.Time)(&from)
	}
	data, err := json.Marshal(gap)
	if err != nil {
		return internalError{err}
	}
	s.mu.Lock()
	if watermark != "" {
		s.flow.SetWatermark(watermark)
	}
	s.mu.Unlock()
	return s.publish(ctx, &catalog.Event{Kind: gap.Kind(), Class: catalog.Durable, Data: data}, now)
}

// truncateData returns data, or only its size if it is too large for an event.
func truncateData(data json.RawMessage) json.RawMessage {
	if len(data) <= event.MaxData {
		return data
	}
	return append(strconv.AppendInt([]byte(`{"truncated":true,"sizeBytes":`), int64(len(data)), 10), '}')
}
