package listen

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
)

const (
	// recordEvery is how often the time of the last event is recorded per account, flushEvery how often a node writes
	// the recorded times.
	recordEvery = time.Minute
	flushEvery  = 5 * time.Second
	// maxEventTimes bounds the accounts in one statement.
	maxEventTimes = 5000
)

// eventTimes collects the times of the last events, so that many accounts are written in one statement.
type eventTimes struct {
	mu   sync.Mutex
	last map[id.Account]account.EventTime
}

func (t *eventTimes) add(ref account.Ref, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = map[id.Account]account.EventTime{}
	}
	t.last[ref.Account] = account.EventTime{Ref: ref, At: at}
}

// run writes the collected times regularly, and once more when ctx ends.
func (t *eventTimes) run(ctx context.Context, l *Listeners) {
	for range clock.Ticks(ctx, flushEvery) {
		t.flush(ctx, l)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	t.flush(last, l)
}

// flush writes the collected times. A time that cannot be written is dropped; the next event has a newer one.
func (t *eventTimes) flush(ctx context.Context, l *Listeners) {
	t.mu.Lock()
	last := t.last
	t.last = nil
	t.mu.Unlock()
	list := make([]account.EventTime, 0, min(len(last), maxEventTimes))
	write := func() {
		if len(list) == 0 {
			return
		}
		if err := l.deps.Accounts.RecordEventTimes(ctx, list); err != nil {
			l.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot write event times", slog.Int(logkey.Accounts, len(list)),
				slog.Any(logkey.Error, err))
		}
		list = list[:0]
	}
	for _, one := range last {
		if list = append(list, one); len(list) == maxEventTimes {
			write()
		}
	}
	write()
}
