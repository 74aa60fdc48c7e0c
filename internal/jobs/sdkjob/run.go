package sdkjob

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/jobs/job"
)

const (
	// concurrent is how many calls of a job are in progress.
	concurrent = 8
	// shortWait is how long a run waits for its next call before it makes room for other jobs.
	shortWait = 2 * time.Second
)

// lane is an account with its calls, which are made one after the other.
type lane struct {
	account id.Account
	// next returns the next call; ok is false if there is none.
	next func() (args json.RawMessage, once string, ok bool)
	// end takes the outcome of that call: a result or a problem. It returns lines for the result of the job.
	end func(o outcome) error
	// tries is how often the call was made, and ready when it can be made (again).
	tries   int
	ready   time.Time
	byLimit bool
}

// finished is the outcome of a lane's call.
type finished struct {
	lane *lane
	outcome
}

// walk makes the calls of lanes.
type walk struct {
	kinds  *Kinds
	run    *job.Run
	params params
	who    job.Caller
	// open returns the next lane, nil if there is none. At most lanes are open at a time.
	open  func() *lane
	lanes int
	// close is called for a lane without further calls.
	close func(l *lane)
	// checkpoint returns where another run would continue.
	checkpoint func() any
	// waiting are the lanes that are open and have no call in progress.
	waiting []*lane
}

// all makes all calls. It returns what Run.Save and Run.Pause return.
func (w *walk) all(ctx context.Context) (err error) {
	if w.who, err = w.run.Caller(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan finished, concurrent)
	busy := 0
	defer func() {
		cancel() // reads end; writes end when their outcome is known
		for ; busy > 0; busy-- {
			<-results
		}
	}()
	for {
		ending := w.run.IsEnding()
		for !ending && busy < concurrent {
			l := w.take(busy)
			if l == nil {
				break
			}
			args, once, ok := l.next()
			if !ok {
				w.close(l)
				continue
			}
			busy++
			r := &request{who: w.who, params: &w.params, account: l.account, args: args, once: once}
			go func() { results <- finished{l, w.kinds.do(ctx, r, l.tries)} }()
		}
		if busy == 0 {
			done, err := w.rest(ctx, ending)
			if done || err != nil {
				return err
			}
			continue
		}
		select {
		case f := <-results:
			busy--
			if err := w.settle(ctx, f); err != nil {
				return err
			}
		case <-w.nextReady(ctx, busy):
		}
	}
}

// take returns a lane whose next call can be made now, nil for none.
func (w *walk) take(busy int) *lane {
	now := w.kinds.deps.Now()
	for i, l := range w.waiting {
		if !l.ready.After(now) {
			w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
			return l
		}
	}
	if len(w.waiting)+busy >= w.lanes {
		return nil
	}
	return w.open()
}

// soonest returns the lane that can go on first, nil if none is open.
func (w *walk) soonest() (first *lane) {
	for _, l := range w.waiting {
		if first == nil || l.ready.Before(first.ready) {
			first = l
		}
	}
	return first
}

// nextReady returns a channel that receives when a lane can go on, while other calls are in progress.
func (w *walk) nextReady(ctx context.Context, busy int) <-chan time.Time {
	l := w.soonest()
	if l == nil || busy >= concurrent || ctx.Err() != nil {
		return nil
	}
	return time.After(max(l.ready.Sub(w.kinds.deps.Now()), time.Millisecond))
}

// rest decides what happens while no call is in progress: the job is done, or this run ends, or it waits.
func (w *walk) rest(ctx context.Context, ending bool) (done bool, err error) {
	l := w.soonest()
	if l == nil && !ending {
		return true, nil
	}
	wait := time.Duration(0)
	if l != nil {
		wait = l.ready.Sub(w.kinds.deps.Now())
	}
	if ending || wait > shortWait {
		if wait <= 0 {
			return true, w.run.Save(ctx, w.checkpoint())
		}
		return true, w.run.Pause(ctx, w.checkpoint(), wait, l.byLimit)
	}
	select {
	case <-ctx.Done():
		return true, ctx.Err()
	case <-time.After(max(wait, time.Millisecond)):
		return false, nil
	}
}

// settle takes the outcome of a call.
func (w *walk) settle(ctx context.Context, f finished) (err error) {
	l := f.lane
	switch {
	case f.broken != nil:
		return f.broken
	case f.stale:
		if w.who, err = w.run.Caller(ctx); err != nil {
			return err
		}
	case f.wait > 0:
		l.ready, l.byLimit = w.kinds.deps.Now().Add(f.wait), f.byLimit
		if f.counts {
			l.tries++
		}
	default:
		l.tries = 0
		if err := l.end(f.outcome); err != nil {
			return err
		}
	}
	w.waiting = append(w.waiting, l)
	return w.run.Save(ctx, w.checkpoint())
}

// write adds a line that came from an account. After the account was deleted, it belongs to the organisation.
func write(r *job.Run, at id.Account, gone bool, line any) error {
	if gone {
		at = ""
	}
	return r.Write(at, line)
}
