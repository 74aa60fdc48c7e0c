package events

import (
	"context"
	"time"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// feed reads the event stream in order. The client's stream reconnects after a lost connection. A feed differs in
// one point: it fails if the first connection fails, because a wrong address or key is the likely cause and
// retries would hide it.
type feed struct {
	app  *core.App
	want filter
	// cursor is the position to start after; empty starts with the next event.
	cursor string
	// onReady is called after each connect, onDrop after each lost connection, before the client reconnects.
	onReady func(stagedoor.StreamReady)
	onDrop  func(error)
}

// run calls handle for every event until handle fails, the context ends, or the service rejects the stream for good.
func (f *feed) run(ctx context.Context, handle func(*stagedoor.Event) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reached := false
	stream := f.app.API().Stream(ctx, stagedoor.StreamOptions{
		Since: f.cursor, Events: f.want.events, AccountID: f.want.account,
		OnReady: func(r stagedoor.StreamReady) {
			reached = true
			f.onReady(r)
		},
		OnDrop: func(err error, _ time.Duration) {
			if reached {
				f.onDrop(err)
				return
			}
			cancel(err)
		},
	})
	for event, err := range stream.All() {
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
		if err := handle(event); err != nil {
			return err
		}
	}
	return ctx.Err()
}
