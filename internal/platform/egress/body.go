package egress

import (
	"compress/gzip"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/stagedoor/stagedoor/internal/platform/egress/internal/h1"
)

// upload is the body of a request. The transport closes a body when it finds no connection; this one stays open until
// it is known that no other proxy will be tried.
type upload struct {
	exchange *exchange
	body     io.ReadCloser

	mu       sync.Mutex
	begun    bool
	failed   error
	closing  bool // the transport has no more use for it
	released bool // neither have we
	closed   bool
}

// Read gives the next part. The platform is not late with its answer while it takes the request in, or while the caller
// is slow to give more.
func (u *upload) Read(p []byte) (int, error) {
	u.exchange.await(feeding)
	n, err := u.body.Read(p)
	u.mu.Lock()
	u.begun = true
	if err != nil && !errors.Is(err, io.EOF) {
		u.failed = err
	}
	u.mu.Unlock()
	u.exchange.await(sending)
	return n, err
}

// Close closes the body once it is released.
func (u *upload) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closing = true
	return u.settle()
}

// release gives the body up. now closes it even if the transport never took it.
func (u *upload) release(now bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.released = true
	u.closing = u.closing || now
	_ = u.settle() // the transport does not look at this error either
}

func (u *upload) settle() error {
	if !u.released || !u.closing || u.closed {
		return nil
	}
	u.closed = true
	return u.body.Close()
}

func (u *upload) untouched() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.begun
}

func (u *upload) failure() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.failed
}

// wire is the body as it comes, on the clock.
type wire struct {
	exchange *exchange
	from     io.ReadCloser
	bytes    int64
}

func (w *wire) Read(p []byte) (int, error) {
	w.exchange.await(reading)
	n, err := w.from.Read(p)
	w.exchange.await(paused)
	w.bytes += int64(n)
	return n, err
}

// body is the body of an answer within its limits.
type body struct {
	exchange *exchange
	wire     wire
	zipped   bool
	inflater *gzip.Reader
	bytes    int64
	err      error
	closed   atomic.Bool
}

// Read gives the next part, or the error that ended the body; the same one ever after.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	limit := b.exchange.limits.Bytes
	if limit > 0 && int64(len(p)) > limit-b.bytes {
		p = p[:limit-b.bytes+1] // one more byte than allowed tells that there is more
	}
	n, err := b.next(p)
	b.bytes += int64(n)
	switch {
	case limit > 0 && b.bytes > limit:
		n, err = n-1, ErrTooLarge
	case b.zipped && b.bytes > h1.RatioFrom && b.bytes/h1.MaxRatio > b.wire.bytes:
		n, err = 0, ErrBomb
	}
	if err == nil {
		return n, nil
	}
	switch {
	case b.closed.Load():
		err = ErrBroken // by the caller
	case !errors.Is(err, io.EOF):
		err = b.exchange.explain(err)
	}
	b.finish(err)
	return n, err
}

// next reads from the wire or through the inflater, which is taken at the first read because it reads at once itself.
func (b *body) next(p []byte) (int, error) {
	if !b.zipped {
		return b.wire.Read(p)
	}
	if b.inflater == nil {
		b.inflater, _ = b.exchange.egress.inflaters.Get().(*gzip.Reader)
		if b.inflater == nil {
			b.inflater = new(gzip.Reader)
		}
		if err := b.inflater.Reset(&b.wire); err != nil {
			return 0, err
		}
	}
	return b.inflater.Read(p)
}

// finish stops the clocks. The inflater goes back only from here, the reader's own goroutine: Close may come from another.
func (b *body) finish(err error) {
	b.err = err
	b.exchange.end()
	if b.inflater != nil {
		b.exchange.egress.inflaters.Put(b.inflater)
		b.inflater = nil
	}
}

// Close ends the call. A body that was not read to its end costs the connection.
func (b *body) Close() error {
	b.closed.Store(true)
	b.exchange.end()
	return b.wire.from.Close()
}
