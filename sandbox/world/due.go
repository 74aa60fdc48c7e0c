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

// due is something that happens by itself at a time of the platform's clock: a scheduled post, a story's end, a payout.
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

// dueQueue are the dues to come, the next one first.
type dueQueue struct {
	mu   sync.Mutex
	list dues // in the store they are in order, which is a heap
	wake chan struct{}
}

func (q *dueQueue) read(from *store.Store) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = nil
	return from.Each([]byte{keyDue}, func(_, value []byte) error {
		var d due
		if err := json.Unmarshal(value, &d); err != nil {
			return fmt.Errorf("read what is due: %w", err)
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

// next is what is due now, or how long until something is; a minute at most.
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

// dues are a heap: the next one first.
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

// endOverdue ends a session whose time is over, with its sockets.
func (w *World) endOverdue(d due) {
	profile, err := w.profile(d.Creator)
	if err == nil {
		_, err = w.EndSessions(profile.Login, func(s Session) bool { return s.ID == d.ID })
	}
	if err != nil && !errors.Is(err, ErrNoLogin) {
		w.Log.Error("session not ended", slog.String("error", err.Error()))
	}
}

// At has something happen to the creator at a time: the handler of that name gets the id. It survives a restart.
func (c *Creator) At(at time.Time, what string, id int64) {
	d := due{At: at.UTC(), Creator: c.Profile.ID, What: what, ID: id}
	c.changes = append(c.changes, d.change())
	c.Later(func() { c.w.due.add(d) })
}

// change stores a due.
func (d due) change() store.Change {
	value, err := json.Marshal(d)
	if err != nil {
		panic(fmt.Errorf("a due cannot be written: %w", err))
	}
	return store.Change{Key: d.key(), Value: value}
}

// Handler does what was due. It runs inside Do, maybe again after a crash, and checks whether there is still something to do.
type Handler func(c *Creator, id int64)

// Run does what becomes due, until the context ends. Handlers are found by name.
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

// wake lets every creator who is listened to see what its time has brought (a renewal, say), though nobody asks for anything, and
// those whom nobody asked for long let go of their tables.
func (w *World) wake() {
	now := w.Now()
	var logins []string
	w.mu.Lock()
	for e := w.recent.Front(); e != nil; e = e.Next() {
		c := e.Value.(*Creator)
		if c.Sockets() > 0 && !now.Before(time.UnixMilli(c.tickAt.Load())) {
			logins = append(logins, c.login)
		} else if c.mu.TryLock() {
			if w.Deps.Now().Sub(c.opened) > tablesLife {
				c.tables = tables{}
			}
			c.mu.Unlock()
		}
	}
	w.mu.Unlock()
	for _, login := range logins {
		if err := w.Do(login, func(*Creator) error { return nil }); err != nil {
			w.Log.Error("creator not looked after", slog.String("error", err.Error()))
		}
	}
}

// sessionEnds is the due of a session whose time is over.
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
		w.Log.Error("what was due did not happen", slog.String("what", d.What), slog.String("error", err.Error()))
	}
}
