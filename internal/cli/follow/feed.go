package follow

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/cli/shell"
)

const (
	// silence is how long a stream may say nothing before it counts as dead; there is a heartbeat every fifteen seconds.
	silence = 45 * time.Second
	// waitFirst and waitMost are how long to wait before connecting again: after the first failure, and after many.
	waitFirst = 250 * time.Millisecond
	waitMost  = 5 * time.Second
	// frameMost is more than an event can have.
	frameMost = 4 << 20
)

// ready is what a stream says first.
type ready struct {
	Cursor  string `json:"cursor"`
	Resumed bool   `json:"resumed"`
	Gap     bool   `json:"gap"`
}

// feed is the organisation's events in their order, across broken connections.
type feed struct {
	app  *shell.App
	want which
	// cursor is the place behind which to go on; empty begins now. It moves on once an event has been handled.
	cursor string
	// onReady is called at each connect, onDrop when one was lost and another will be tried.
	onReady func(ready)
	onDrop  func(err error)
}

// errDropped is a connection that ended; the stream can be taken up again.
var errDropped = errors.New("the connection ended")

// run hands every event to handle until that fails, the context ends, or the service says that it is no use to try again.
func (f *feed) run(ctx context.Context, handle func(*envelope) error) error {
	failures, reached := 0, false
	for {
		connected, err := f.once(ctx, handle)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		reached = reached || connected
		if !reached || !temporary(err) {
			return err // a first connect that fails is a wrong address or key, and waiting would hide that
		}
		if connected {
			failures = 0
		}
		wait := backoff(failures, err)
		failures++
		f.onDrop(err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// temporary says whether a stream that failed can be taken up again.
func temporary(err error) bool {
	if p, ok := errors.AsType[*shell.Problem](err); ok {
		return p.Retryable
	}
	if f, ok := errors.AsType[*shell.Fault](err); ok {
		return f.Code == shell.ExitOther
	}
	return errors.Is(err, errDropped)
}

// backoff doubles from a quarter of a second up to five, and spreads clients that lost the same server. A service that names a time
// gets it.
func backoff(failures int, err error) time.Duration {
	if p, ok := errors.AsType[*shell.Problem](err); ok && p.RetryAfterSec != nil && *p.RetryAfterSec > 0 {
		return min(time.Duration(*p.RetryAfterSec)*time.Second, time.Minute)
	}
	wait := min(waitFirst<<min(failures, 10), waitMost)
	return wait/2 + rand.N(wait/2+1)
}

// once opens the stream and reads it to its end; connected says that the service answered.
func (f *feed) once(ctx context.Context, handle func(*envelope) error) (connected bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A laptop that slept, or a network that went away, leaves a connection on which nothing comes and nothing fails.
	watch := time.AfterFunc(silence, func() { cancel(fmt.Errorf("%w: nothing was heard for %s", errDropped, silence)) })
	defer watch.Stop()

	body, err := f.open(ctx)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errDropped) {
			return false, cause
		}
		return false, err
	}
	defer body.Close()
	frames := bufio.NewReaderSize(body, 64<<10)
	for {
		one, err := readFrame(frames, func() { watch.Reset(silence) })
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return true, cause
			}
			return true, fmt.Errorf("%w: %w", errDropped, err)
		}
		watch.Stop() // a receiver that takes its time is not a silent service
		if err := f.take(one, handle); err != nil {
			return true, err
		}
		watch.Reset(silence)
	}
}

func (f *feed) open(ctx context.Context) (io.ReadCloser, error) {
	p, err := f.app.Identity()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.BaseURL+"/v1/events?"+f.want.query().Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+p.Key.Reveal())
	req.Header.Set("User-Agent", "stagedoor-cli/"+shell.Version)
	req.Header.Set("Accept", "text/event-stream")
	if f.cursor != "" {
		req.Header.Set("Last-Event-ID", f.cursor)
	}
	res, err := (&http.Client{Transport: f.app.HTTP}).Do(req)
	if err != nil {
		return nil, shell.Unreachable(ctx, p.BaseURL, err)
	}
	if res.StatusCode == http.StatusOK {
		return res.Body, nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, frameMost))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDropped, err)
	}
	return nil, readProblem(res.StatusCode, text)
}

func readProblem(status int, text []byte) error {
	p := &shell.Problem{Raw: text}
	if json.Unmarshal(text, p) != nil || p.Code == "" {
		// Something in between answered, such as a proxy in front of a server that restarts.
		return fmt.Errorf("%w: something that is not the service answered %d", errDropped, status)
	}
	return p
}

// take does what a frame asks for.
func (f *feed) take(one frame, handle func(*envelope) error) error {
	switch one.kind {
	case "heartbeat":
		return nil
	case "ready":
		var r ready
		if err := json.Unmarshal(one.data, &r); err != nil {
			return fmt.Errorf("read how the stream begins: %w", err)
		}
		f.onReady(r)
		if f.cursor == "" {
			f.cursor = r.Cursor // from here on a lost connection loses nothing, even before the first event
		}
		return nil
	case "problem":
		p := &shell.Problem{}
		if err := json.Unmarshal(one.data, p); err != nil {
			return fmt.Errorf("%w: %w", errDropped, err)
		}
		p.Raw = one.data
		return p
	}
	e, err := readEnvelope(one.data, one.id)
	if err != nil {
		return err
	}
	if err := handle(&e); err != nil {
		return err
	}
	if e.Cursor != "" {
		f.cursor = e.Cursor
	}
	return nil
}

// frame is one message of a stream.
type frame struct {
	id, kind string
	data     []byte
}

// readFrame reads up to an empty line. heard is called for every line, so that a long frame counts as a sign of life.
func readFrame(from *bufio.Reader, heard func()) (frame, error) {
	var one frame
	for {
		line, err := readLine(from)
		if err != nil {
			return frame{}, err // what there is of it is not all of it; it comes again
		}
		heard()
		if len(line) == 0 {
			if one.kind == "" && one.data == nil {
				continue // a comment, or the time to wait before connecting again
			}
			return one, nil
		}
		name, value, _ := strings.Cut(string(line), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			one.id = value
		case "event":
			one.kind = value
		case "data":
			if one.data != nil {
				one.data = append(one.data, '\n')
			}
			one.data = append(one.data, value...)
		}
		if len(one.data) > frameMost {
			return frame{}, errors.New("a message of the stream is too long")
		}
	}
}

func readLine(from *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, more, err := from.ReadLine()
		if err != nil {
			return nil, err
		}
		line = append(line, part...)
		if len(line) > frameMost {
			return nil, errors.New("a line of the stream is too long")
		}
		if !more {
			return bytes.TrimSuffix(line, []byte("\r")), nil
		}
	}
}
