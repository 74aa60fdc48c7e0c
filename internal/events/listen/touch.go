package listen

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
)

const (
	// touchEvery is how often it is written down for an account that events came, touchFlush how often for a node.
	touchEvery = time.Minute
	touchFlush = 5 * time.Second
	// touchMost is how many accounts go into one statement.
	touchMost = 5000
)

// touches collects when events came last, so that many accounts cost one statement.
type touches struct {
	mu   sync.Mutex
	last map[id.Account]account.Eventful
}

func (t *touches) add(ref account.Ref, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = map[id.Account]account.Eventful{}
	}
	t.last[ref.Account] = account.Eventful{Ref: ref, At: at}
}

func (t *touches) run(ctx context.Context, l *Listeners) {
	tick := time.NewTicker(touchFlush)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			t.flush(last, l)
			return
		case <-tick.C:
			t.flush(ctx, l)
		}
	}
}

// flush writes down what has been collected. What cannot be written comes again with the next event.
func (t *touches) flush(ctx context.Context, l *Listeners) {
	t.mu.Lock()
	last := t.last
	t.last = nil
	t.mu.Unlock()
	list := make([]account.Eventful, 0, min(len(last), touchMost))
	write := func() {
		if len(list) == 0 {
			return
		}
		if err := l.Accounts.Eventful(ctx, list); err != nil {
			l.Log.LogAttrs(ctx, slog.LevelWarn, "last events not written down", slog.Int("accounts", len(list)), slog.Any("error", err))
		}
		list = list[:0]
	}
	for _, one := range last {
		if list = append(list, one); len(list) == touchMost {
			write()
		}
	}
	write()
}
