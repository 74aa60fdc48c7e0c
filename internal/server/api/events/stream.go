package events

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/tracing"
	"github.com/stagedoor/stagedoor/internal/delivery/stream"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
)

const (
	eventStream = "text/event-stream"
	// lifetime of a stream, plus or minus a fifth, so that connections spread over nodes that were started later.
	lifetime = 30 * time.Minute
	// The reconnect delay is random between these: many clients may have been disconnected together.
	retryMin, retryMax = 2 * time.Second, 5 * time.Second
	// batchSize bounds the events that are sent together.
	batchSize = 64
	// retryIn is the delay before the store is read again after a failure.
	retryIn = time.Second
)

// readyBody is the first event of a stream.
type readyBody struct {
	AccountID id.Account `json:"accountId,omitempty" doc:"The account whose events follow; absent in the organisation's stream."`
	Cursor    string     `json:"cursor" doc:"The position at which the stream begins."`
	Resumed   bool       `json:"resumed" doc:"Whether the stream continues after the cursor that was sent."`
	Gap       bool       `json:"gap" doc:"Whether events between the cursor and the stream are lost."`
	Oldest    string     `json:"oldest,omitempty" doc:"The oldest position that can be read."`
}

// stream sends events until either side ends the stream.
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
	opening := endpoint.Opening{Retry: randomBetween(retryMin, retryMax), Life: randomBetween(lifetime*4/5, lifetime*6/5)}
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

func randomBetween(least, most time.Duration) time.Duration { return least + rand.N(most-least) }

// batch is what is being sent. An idle stream holds none.
type batch struct {
	events   []stream.Event
	messages []endpoint.Message
}

var batches = sync.Pool{New: func() any { return &batch{} }}

// pump sends the stored events, then new ones as they come.
func (e *events) pump(ctx context.Context, org id.Org, from *stream.Reader, to *endpoint.Events) {
	for {
		more, err := e.sendBatch(ctx, org, from, to)
		switch {
		case errors.Is(err, endpoint.ErrStreamEnded) || ctx.Err() != nil:
			return
		case err != nil && !postgres.Unavailable(err):
			to.Fail(err)
			return
		case err != nil: // The database is away. Retry; the caller does not notice.
			select {
			case <-time.After(retryIn):
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

// sendBatch sends one batch. If there is nothing to send, it returns a channel that signals new events.
func (e *events) sendBatch(ctx context.Context, org id.Org, from *stream.Reader, to *endpoint.Events) (<-chan struct{}, error) {
	b, _ := batches.Get().(*batch)
	defer func() {
		clear(b.events)
		clear(b.messages)
		batches.Put(b)
	}()
	list, more, err := from.Read(ctx, b.events[:0], batchSize)
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
	spans := e.startSpans(ctx, list)
	err = to.Send(b.messages)
	for _, span := range spans {
		tracing.End(span, err, "the connection ended")
	}
	if err != nil {
		return nil, errors.Join(endpoint.ErrStreamEnded, err)
	}
	e.Meter.Streamed(org, int64(len(b.messages)))
	if list[len(list)-1].Last {
		to.Fail(endpoint.AccountNotFound())
		return nil, endpoint.ErrStreamEnded
	}
	return nil, nil //nolint:nilnil // there may be more events already
}
