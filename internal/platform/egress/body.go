package egress

import (
	"compress/gzip"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/stagedoor/stagedoor/internal/platform/egress/internal/h1"
)

// upload is the body of a request. The transport closes the body when it cannot get a connection. An upload ignores
// that Close until it is released, because another proxy may be tried with the same body.
type upload struct {
	exchange *exchange
	body     io.ReadCloser

	mu       sync.Mutex
	started  bool
	failed   error
	closing  bool // the transport has called Close
	released bool // no other proxy will be tried
	closed   bool
}

// Read reads the next part. The time spent waiting for the caller does not count against the platform, and each part
// restarts the platform's time for its response.
func (u *upload) Read(p []byte) (int, error) {
	u.exchange.setPhase(feeding)
	n, err := u.body.Read(p)
	u.mu.Lock()
	u.started = true
	if err != nil && !errors.Is(err, io.EOF) {
		u.failed = err
	}
	u.mu.Unlock()
	u.exchange.setPhase(sending)
	return n, err
}

// Close closes the body if it is released, and otherwise notes that it was called.
func (u *upload) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closing = true
	return u.closeIfDone()
}

// release allows the body to be closed. If now is true, it is closed even if the transport never called Close.
func (u *upload) release(now bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.released = true
	u.closing = u.closing || now
	_ = u.closeIfDone() // the transport ignores this error as well
}

func (u *upload) closeIfDone() error {
	if !u.released || !u.closing || u.closed {
		return nil
	}
	u.closed = true
	return u.body.Close()
}

func (u *upload) isUnread() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.started
}

func (u *upload) readError() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.failed
}

// timedBody is the raw body of a response. It runs the idle timer during reads and counts bytes.
type timedBody struct {
	exchange *exchange
	from     io.ReadCloser
	bytes    int64
}

func (w *timedBody) Read(p []byte) (int, error) {
	w.exchange.setPhase(reading)
	n, err := w.from.Read(p)
	w.exchange.setPhase(paused)
	w.bytes += int64(n)
	return n, err
}

// body is the body of a response, decompressed and bounded by the limits.
type body struct {
	exchange *exchange
	raw      timedBody
	gzipped  bool
	inflater *gzip.Reader
	bytes    int64
	err      error
	closed   atomic.Bool
}

// Read reads the next part. Once it has returned an error, it returns the same error forever.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	limit := b.exchange.limits.Bytes
	if limit > 0 && int64(len(p)) > limit-b.bytes {
		p = p[:limit-b.bytes+1] // the extra byte shows that the body is too large
	}
	n, err := b.readNext(p)
	b.bytes += int64(n)
	switch {
	case limit > 0 && b.bytes > limit:
		n, err = n-1, ErrTooLarge
	case b.gzipped && b.bytes > h1.RatioFrom && b.bytes/h1.MaxRatio > b.raw.bytes:
		n, err = 0, ErrBomb
	}
	if err == nil {
		return n, nil
	}
	switch {
	case b.closed.Load():
		err = ErrBroken // the caller closed it
	case !errors.Is(err, io.EOF):
		err = b.exchange.translateError(err)
	}
	b.finish(err)
	return n, err
}

// readNext reads the raw body, or through the inflater. It sets up the inflater at the first read, because Reset
// already reads from the body.
func (b *body) readNext(p []byte) (int, error) {
	if !b.gzipped {
		return b.raw.Read(p)
	}
	if b.inflater == nil {
		b.inflater, _ = b.exchange.egress.inflaters.Get().(*gzip.Reader)
		if b.inflater == nil {
			b.inflater = new(gzip.Reader)
		}
		if err := b.inflater.Reset(&b.raw); err != nil {
			return 0, err
		}
	}
	return b.inflater.Read(p)
}

// finish stops the timers and returns the inflater to its pool. Only Read calls it: Close may run in another
// goroutine and must not take the inflater away from Read.
func (b *body) finish(err error) {
	b.err = err
	b.exchange.end()
	if b.inflater != nil {
		b.exchange.egress.inflaters.Put(b.inflater)
		b.inflater = nil
	}
}

// Close ends the call and closes the connection if the body was not read to its end.
func (b *body) Close() error {
	b.closed.Store(true)
	b.exchange.end()
	return b.raw.from.Close()
}
