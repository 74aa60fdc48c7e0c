package events

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/command/cli/out"
	"github.com/stagedoor/stagedoor/internal/command/cli/terminal"
)

// watchKeys lets a person act on the delivery that failed last: try it again, see it whole, or open it in the dashboard.
func (l *listen) watchKeys(ctx context.Context) (stop func()) {
	file, isFile := l.app.Stdin.(*os.File)
	if l.forward == nil || !l.app.Interactive() || !l.app.Out.TTY || l.app.Out.JSON || !isFile {
		return func() {}
	}
	restore, err := terminal.Keys(file)
	if err != nil {
		return func() {} // a terminal without this ability; the command works without keys
	}
	l.keys = true
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	reading.Go(func() { readKeys(ctx, file, func(key byte) { l.press(ctx, key) }) })
	return func() {
		cancel()
		reading.Wait()
		restore()
	}
}

// readKeys tells of each key until the context ends or the terminal is gone.
func readKeys(ctx context.Context, file *os.File, press func(byte)) {
	one := make([]byte, 1)
	for ctx.Err() == nil {
		n, err := file.Read(one)
		switch {
		case n == 1:
			press(one[0])
		case err != nil && !errors.Is(err, io.EOF): // EOF is how no key looks
			return
		default:
			select { // a terminal that has been closed answers at once, and would keep us busy
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// press does what a key asks for. It waits for a delivery that is under way, so that lines do not mix.
func (l *listen) press(ctx context.Context, key byte) {
	l.turn.Lock()
	defer l.turn.Unlock()
	o := l.app.Out
	if l.last == nil || ctx.Err() != nil {
		return
	}
	e := l.last
	switch key {
	case 'r':
		result, err := l.post(ctx, e)
		if err != nil {
			return
		}
		if result.ok() {
			l.forget(e.ID)
		} else {
			l.lastResult = result
		}
		_ = l.tell(ctx, e, result) // lines of a terminal cannot fail to be written
	case 'd':
		o.Say("%s", o.Err(out.Faint, "We sent:"))
		o.Body(e.Raw)
		if l.lastResult.Status > 0 {
			o.Say("%s", o.Err(out.Faint, "The receiver answered:"))
		}
		o.Data("%s", l.lastResult.tell(o)+"  "+l.lastResult.Error)
	case 'o':
		p, err := l.app.Identity()
		if err == nil {
			err = l.app.Browse(ctx, p.BaseURL+"/app/events/"+e.ID)
		}
		if err != nil {
			o.Warn("%v", err)
		}
	}
}

// forget takes an event that has got through off the list of what failed.
func (l *listen) forget(id string) {
	kept := l.failed[:0]
	for _, one := range l.failed {
		if one != id {
			kept = append(kept, one)
		}
	}
	l.failed, l.last = kept, nil
}
