package events

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/stream"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
)

const (
	eventStream = "text/event-stream"
	// A stream lasts this long, more or less a fifth, so that connections spread over nodes that came later.
	lifetime = 30 * time.Minute
	// What clients wait before they connect again is spread as well: they are many, and were cut off together.
	retryMin, retryMax = 2 * time.Second, 5 * time.Second
	// atOnce is how many events are sent together when more are there.
	atOnce = 64
	// tryAgainIn is how soon the store is asked again after it could not be read.
	tryAgainIn = time.Second
)

// readyBody is the first event of a stream.
type readyBody struct {
	AccountID id.Account `json:"accountId,omitempty"`
	Cursor    string     `json:"cursor"`
	Resumed   bool       `json:"resumed"`
	Gap       bool       `json:"gap"`
	Oldest    string     `json:"oldest,omitempty"`
}

// stream sends events until either side ends it.
func (e *events) stream(w http.ResponseWriter, r *http.Request, want stream.Want) error {
	p := endpoint.Caller(r.Context())
	leave, err := e.Streams.Enter(r.Context(), p.Org.ID, p.Key.ID, want.Account, p.Org.Limits.MaxStreamsPerAccount)
	if err != nil {
		return err
	}
	reader, start, err := e.Streams.Watch(r.Context(), want)
	if err != nil {
		leave()
		return err
	}
	opening := endpoint.Opening{Retry: between(retryMin, retryMax), Life: between(lifetime*4/5, lifetime*6/5)}
	ready := readyBody{want.Account, start.Cursor, start.Resumed, start.Gap, start.Oldest}
	err = endpoint.ServeStream(w, r, opening, func(ctx context.Context, out *endpoint.Events) {
		defer leave()
		defer reader.Close()
		if out.Event("ready", "", ready) == nil {
			e.pump(ctx, want.Org, reader, out)
		}
	})
	if err != nil {
		reader.Close()
		leave()
	}
	return err
}

func between(least, most time.Duration) time.Duration { return least + rand.N(most-least) }

// batch is what is on its way. A stream that waits has none.
type batch struct {
	events   []stream.Event
	messages []endpoint.Message
}

var batches = sync.Pool{New: func() any { return &batch{} }}

// pump sends what there is, and then what comes.
func (e *events) pump(ctx context.Context, org id.Org, from *stream.Reader, to *endpoint.Events) {
	for {
		more, err := e.pass(ctx, org, from, to)
		switch {
		case errors.Is(err, endpoint.ErrStreamEnded) || ctx.Err() != nil:
			return
		case err != nil && !postgres.Unavailable(err):
			to.Fail(err)
			return
		case err != nil: // what cannot be read now can be read later; the caller need not notice
			select {
			case <-time.After(tryAgainIn):
			case <-to.Done():
				return
			}
		case more != nil:
			select {
			case <-more:
			case <-to.Done():
				return
			}
		}
	}
}

// pass sends one batch; if there is nothing to send it returns what to wait for.
func (e *events) pass(ctx context.Context, org id.Org, from *stream.Reader, to *endpoint.Events) (<-chan struct{}, error) {
	b, _ := batches.Get().(*batch)
	defer func() {
		clear(b.events)
		clear(b.messages)
		batches.Put(b)
	}()
	list, more, err := from.Read(ctx, b.events[:0], atOnce)
	b.events, b.messages = list, b.messages[:0]
	if err != nil || len(list) == 0 {
		return more, err
	}
	if err := e.Permit(ctx, org); err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Body != nil {
			b.messages = append(b.messages, endpoint.Message{Name: list[i].Kind, ID: list[i].Cursor, Data: list[i].Body})
		}
	}
	if err := to.Send(b.messages); err != nil {
		return nil, errors.Join(endpoint.ErrStreamEnded, err)
	}
	e.Meter.Streamed(org, int64(len(b.messages)))
	if list[len(list)-1].Last {
		to.Fail(noAccount())
		return nil, endpoint.ErrStreamEnded
	}
	return nil, nil //nolint:nilnil // there may be more at once
}
