// Package effect tells a request which events it caused. The server puts a recorder into the context of a request, and the
// package that writes an event in a transaction notes it there. It owns neither.
package effect

import (
	"context"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// Event is an event that was written. Account is empty for one of the organisation.
type Event struct {
	ID      id.Event
	Kind    string
	Account id.Account
}

// Recorder receives events. It must be safe for concurrent use.
type Recorder interface{ RecordEvent(e Event) }

type recorderKey struct{}

// With returns a context whose events the recorder receives.
func With(ctx context.Context, r Recorder) context.Context {
	return context.WithValue(ctx, recorderKey{}, r)
}

// Note passes an event to the recorder of a context, if it has one. The event exists only once the transaction that
// writes it is committed.
func Note(ctx context.Context, e Event) {
	if r, ok := ctx.Value(recorderKey{}).(Recorder); ok {
		r.RecordEvent(e)
	}
}
