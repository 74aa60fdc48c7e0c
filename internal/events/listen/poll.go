package listen

import (
	"context"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

// poll asks the platform for new events at intervals, until something ends the session: every feed that is due, with one
// request each. It polls often while events come, and less often the longer none have come. up reports whether the
// platform has answered. opened is called after the first answer.
//
// A record carries the position that the log had confirmed before its batch. After a crash the last batch is therefore
// fetched again, and the store recognises it as a repeat: a batch is smaller than event.MaxDedupKeys.
func (s *session) poll(ctx context.Context, spec *catalog.Poll, position string, opened func()) (up bool, err error) {
	n := s.listener
	s.setPosition(position)
	pace := newPollPace(spec)
	for {
		m, err := s.pollOnce(ctx, position)
		if err != nil {
			return up, err
		}
		if !up {
			up = true
			n.setState(account.ListenerUp)
			n.writeState(ctx, account.ListenerUp)
			opened()
		}
		if err := s.publishPolled(ctx, &m); err != nil {
			return up, err
		}
		position = m.Position
		if err := s.awaitPoll(ctx, pace.next(&m)); err != nil {
			return up, err
		}
	}
}

// minPollInterval is the time between two requests of an account while more is known to follow, so that neither a
// backlog nor a site that always has more takes all of a node's time.
const minPollInterval = 200 * time.Millisecond

// pollPace decides how long to wait between two polls of an account.
type pollPace struct {
	spec *catalog.Poll
	// idle is the last interval after all feeds were asked, and quiet means that nothing has come since.
	idle  time.Duration
	quiet bool
}

func newPollPace(spec *catalog.Poll) pollPace {
	return pollPace{spec: spec, idle: spec.Every, quiet: true}
}

// next returns the time to wait after a poll.
func (p *pollPace) next(m *driver.Polled) time.Duration {
	p.quiet = p.quiet && len(m.Events) == 0
	if m.More || m.Wait == 0 {
		return min(minPollInterval, p.spec.Every) // another feed is due
	}
	wait := max(p.spec.Every, m.Wait)
	if p.quiet {
		wait = max(wait, min(p.idle+p.idle/2, p.spec.Idle))
	}
	p.idle, p.quiet = wait, true
	return wait
}

// pollOnce asks the platform for the events after a position, and stores the cookies that the response changed.
func (s *session) pollOnce(ctx context.Context, position string) (driver.Polled, error) {
	a, access, err := s.loadSession(ctx)
	if err != nil {
		return driver.Polled{}, err
	}
	limited, cancel := context.WithTimeout(ctx, s.listener.l.deps.Config.DialTimeout)
	defer cancel()
	m, err := s.driver.Poll(limited, a.Via(), access, position)
	s.storeRotation(ctx, a, m.Changed, m.Session)
	m.Session = driver.Session{}
	if ctx.Err() != nil {
		return m, context.Cause(ctx)
	}
	return m, err
}

// publishPolled publishes a batch and waits until the log has confirmed it. Then the position moves on.
func (s *session) publishPolled(ctx context.Context, m *driver.Polled) error {
	n := s.listener
	now := n.l.deps.Now()
	if m.Skipped > 0 {
		n.l.metrics.skipped.WithLabelValues("listed").Add(float64(m.Skipped))
	}
	if m.Gap {
		if err := s.publishGap(ctx, n.gapFrom, ""); err != nil {
			return err
		}
	}
	for i := range m.Events {
		e := &m.Events[i]
		n.l.metrics.frames.WithLabelValues(string(e.Class), "poll").Inc()
		if e.Class == catalog.Ephemeral {
			s.handleEphemeral(e, now)
			continue
		}
		if err := s.publish(ctx, e, now); err != nil {
			return err
		}
	}
	if len(m.Events) > 0 {
		n.l.eventTimes.add(n.ref, now)
	}
	n.gapFrom = now
	if err := s.awaitAcks(ctx); err != nil {
		return err
	}
	s.setPosition(m.Position)
	return nil
}

// awaitAcks waits until the log has confirmed everything.
func (s *session) awaitAcks(ctx context.Context) error {
	for {
		s.mu.Lock()
		done := s.flow.IsConfirmed()
		s.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.ackSignal:
		}
	}
}

func (s *session) setPosition(position string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flow.SetWatermark(position)
}

// awaitPoll waits until the next poll is due, a tenth more or less so that accounts spread. It fails with errReopen if
// the log was lost: the next session starts from what the store has.
func (s *session) awaitPoll(ctx context.Context, wait time.Duration) error {
	n := s.listener
	timer := time.NewTimer(wait - wait/10 + randomUpTo(wait/5))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return nil
		case <-n.changed:
			if err := s.onAccountChange(ctx); err != nil {
				return err
			}
		case <-n.refill:
			return errReopen
		}
	}
}
