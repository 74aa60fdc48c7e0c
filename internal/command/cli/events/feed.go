package events

import (
	"context"
	"time"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// feed is the organisation's events in their order. The client's stream does the work of going on after a drop; a feed adds that a
// first connect which fails is told at once, because it is a wrong address or key and waiting would hide that.
type feed struct {
	app  *core.App
	want which
	// cursor is the place behind which to begin; empty begins now.
	cursor string
	// onReady is called at each connect, onDrop when one was lost and another will be tried.
	onReady func(stagedoor.StreamReady)
	onDrop  func(error)
}

// run hands every event to handle until that fails, the context ends, or the service says that it is no use to try again.
func (f *feed) run(ctx context.Context, handle func(*envelope) error) error {
	client, err := f.app.Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reached := false
	stream := client.Stream(ctx, stagedoor.StreamOptions{
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
			cancel(f.app.Failed(ctx, err))
		},
	})
	for event, err := range stream.All() {
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return f.app.Failed(ctx, err)
		}
		e, err := readEnvelope(event.Raw, event.Cursor)
		if err != nil {
			return err
		}
		if err := handle(&e); err != nil {
			return err
		}
	}
	return ctx.Err()
}
