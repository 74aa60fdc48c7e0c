package world

import (
	"container/heap"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/store"
)

// due is a timer by the platform's clock, for example for a scheduled post, the end of a story or a payout.
type due struct {
	At      time.Time `json:"at"`
	Creator int64     `json:"creator"`
	What    string    `json:"what"`
	ID      int64     `json:"id"`
}

func (d due) key() []byte {
	key := binary.BigEndian.AppendUint64([]byte{keyDue}, uint64(d.At.UnixMilli()))
	key = binary.BigEndian.AppendUint64(key, uint64(d.Creator))
	key = binary.BigEndian.AppendUint64(key, uint64(d.ID))
	return append(key, d.What...)
}

// dueQueue holds the pending timers, soonest first.
type dueQueue struct {
	mu   sync.Mutex
	list dues // read from the store in order, which is a valid heap
	wake chan struct{}
}

func (q *dueQueue) read(from *store.Store) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = nil
	return from.Each([]byte{keyDue}, func(_, value []byte) error {
		var d due
		if err := json.Unmarshal(value, &d); err != nil {
			return fmt.Errorf("read timer: %w", err)
		}
		q.list = append(q.list, d)
		return nil
	})
}

func (q *dueQueue) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *dueQueue) add(d due) {
	q.mu.Lock()
	heap.Push(&q.list, d)
	q.mu.Unlock()
	q.poke()
}

// next removes and returns a timer that is due. If there is none, it returns how long to wait, at most a minute.
func (q *dueQueue) next(now time.Time) (d due, wait time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		return due{}, time.Minute, false
	}
	if first := q.list[0]; first.At.After(now) {
		return due{}, min(first.At.Sub(now), time.Minute), false
	}
	return heap.Pop(&q.list).(due), 0, true
}

// dues implements heap.Interface, soonest first.
type dues []due

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, j int) bool { return d[i].At.Before(d[j].At) }
func (d dues) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dues) Push(x any)        { *d = append(*d, x.(due)) }

func (d *dues) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// endOverdue ends an expired session and closes its sockets.
func (w *World) endOverdue(d due) {
	profile, err := w.profile(d.Creator)
	if err == nil {
		_, err = w.EndSessions(profile.Login, func(s Session) bool { return s.ID == d.ID })
	}
	if err != nil && !errors.Is(err, ErrNoLogin) {
		w.deps.Log.Error("ending a session failed", slog.String("error", err.Error()))
	}
}

// At sets a timer that calls the handler named what with the id. Timers survive a restart.
func (c *Creator) At(at time.Time, what string, id int64) {
	d := due{At: at.UTC(), Creator: c.Profile.ID, What: what, ID: id}
	c.changes = append(c.changes, d.change())
	c.Later(func() { c.w.due.add(d) })
}

func (d due) change() store.Change {
	value, err := json.Marshal(d)
	if err != nil {
		panic(fmt.Errorf("encode timer: %w", err))
	}
	return store.Change{Key: d.key(), Value: value}
}

// Handler handles a timer. It runs inside Do. After a crash it may run again, so it must check whether there is still
// something to do.
type Handler func(c *Creator, id int64)

// Run runs the handlers of due timers until ctx ends. handlers is keyed by the names that At takes.
func (w *World) Run(ctx context.Context, handlers map[string]Handler) {
	for ctx.Err() == nil {
		d, wait, ok := w.due.next(w.Now())
		if ok {
			w.happen(d, handlers)
			continue
		}
		w.wake()
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-w.due.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// wake runs Tick for creators that have sockets and are due, so that they get frames such as renewals without a
// request. It drops the old tables of the others.
func (w *World) wake() {
	now := w.Now()
	var logins []string
	w.mu.Lock()
	for e := w.recent.Front(); e != nil; e = e.Next() {
		c := e.Value.(*Creator)
		if c.Sockets() > 0 && !now.Before(time.UnixMilli(c.tickAt.Load())) {
			logins = append(logins, c.login)
		} else if c.mu.TryLock() {
			if w.deps.Now().Sub(c.opened) > tablesLife {
				c.tables = tables{}
			}
			c.mu.Unlock()
		}
	}
	w.mu.Unlock()
	for _, login := range logins {
		if err := w.Do(login, func(*Creator) error { return nil }); err != nil {
			w.deps.Log.Error("updating a creator failed", slog.String("error", err.Error()))
		}
	}
}

// sessionEnds names the timer that ends an expired session.
const sessionEnds = "session.ends"

func (w *World) happen(d due, handlers map[string]Handler) {
	if d.What == sessionEnds {
		w.endOverdue(d)
	}
	err := w.DoID(d.Creator, func(c *Creator) error {
		c.changes = append(c.changes, store.Change{Key: d.key()})
		if handle := handlers[d.What]; handle != nil {
			handle(c, d.ID)
		}
		return nil
	})
	if err != nil && !errors.Is(err, ErrNoLogin) {
		w.deps.Log.Error("running a timer failed", slog.String("what", d.What), slog.String("error", err.Error()))
	}
}
