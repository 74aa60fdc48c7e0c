package events

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/command/cli/output"
	"github.com/stagedoor/stagedoor/internal/command/cli/terminal"
)

// watchKeys handles keys in the background, if events are forwarded and a user is at the terminal. The keys act on the
// last failed delivery: retry it, show it, or open it in the dashboard. stop restores the terminal.
func (l *listen) watchKeys(ctx context.Context) (stop func()) {
	file, isFile := l.app.Stdin.(*os.File)
	if l.forward == nil || !l.app.Interactive() || !l.app.Out.TTY || l.app.Out.JSON || !isFile {
		return func() {}
	}
	restore, err := terminal.Keys(file)
	if err != nil {
		return func() {} // not supported by this terminal; everything else works without keys
	}
	l.keys = true
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	reading.Go(func() { readKeys(ctx, file, func(key byte) { l.handleKey(ctx, key) }) })
	return func() {
		cancel()
		reading.Wait()
		restore()
	}
}

// readKeys calls handle for each key until the context ends or reading fails.
func readKeys(ctx context.Context, file *os.File, handle func(byte)) {
	one := make([]byte, 1)
	for ctx.Err() == nil {
		n, err := file.Read(one)
		switch {
		case n == 1:
			handle(one[0])
		case err != nil && !errors.Is(err, io.EOF): // EOF means that no key was pressed
			return
		default:
			select { // reads of a closed terminal return immediately; do not spin
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// handleKey acts on a key. It waits for a delivery in progress, so that output lines do not mix.
func (l *listen) handleKey(ctx context.Context, key byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
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
			l.clearFailure(e.ID)
		} else {
			l.lastResult = result
		}
		_ = l.printForwarded(ctx, e, result) // fails only with --json, which has no keys
	case 'd':
		o.Say("%s", o.Err(output.Faint, "Request body:"))
		o.Body(e.Raw)
		if l.lastResult.Status > 0 {
			o.Say("%s", o.Err(output.Faint, "Response:"))
		}
		o.Data("%s", l.lastResult.format(o)+"  "+l.lastResult.Error)
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

// clearFailure removes a delivered event from the failed ones.
func (l *listen) clearFailure(id string) {
	kept := l.failed[:0]
	for _, one := range l.failed {
		if one != id {
			kept = append(kept, one)
		}
	}
	l.failed, l.last = kept, nil
}
