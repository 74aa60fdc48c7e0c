package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/gate"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Limits of what a browser is sent: five batches per second, and only the newest frames of a batch.
const (
	batchEvery = 200 * time.Millisecond
	batchMost  = 20
	aliveEvery = 15 * time.Second
	missedMost = 200
)

// shownFrame is a frame for the page. Text is indented on the server, because JavaScript would round ids of 19 digits.
type shownFrame struct {
	ID   string  `json:"id"`
	Type string  `json:"type"`
	At   float64 `json:"at"`
	Text string  `json:"text"`
}

// batch holds the frames of one event, oldest first.
type batch struct {
	Frames  []shownFrame `json:"frames"`
	Skipped int          `json:"skipped"`
}

// frames streams a creator's frames to the page. Like /control, it answers on loopback only.
func (p *Page) frames(w http.ResponseWriter, r *http.Request) {
	if !gate.Local(r) {
		http.Error(w, "Frames are available on this machine only.", http.StatusForbidden)
		return
	}
	login := strings.ToLower(r.URL.Query().Get("login"))
	listener, err := p.deps.World.Listen(login, "sandbox page")
	if errors.Is(err, world.ErrNoLogin) {
		http.Error(w, "A login must end in @"+world.Domain+".", http.StatusUnprocessableEntity)
		return
	}
	if err != nil {
		p.deps.Log.ErrorContext(r.Context(), "opening frames failed", slog.String("error", err.Error()))
		http.Error(w, "The creator could not be read.", http.StatusInternalServerError)
		return
	}
	defer listener.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	s := &stream{w: w, flush: http.NewResponseController(w).Flush}
	s.last, _ = strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64)
	missed, err := p.missed(login, s.last)
	if err == nil {
		err = s.open(missed)
	}
	if err == nil {
		err = s.run(r, listener)
	}
	if err != nil && r.Context().Err() == nil {
		p.deps.Log.ErrorContext(r.Context(), "sending frames failed", slog.String("error", err.Error()))
	}
}

// missed returns the frames after the last one that a reconnecting page has.
func (p *Page) missed(login string, after int64) ([][]byte, error) {
	if after == 0 {
		return nil, nil
	}
	var missed [][]byte
	err := p.deps.World.Do(login, func(c *world.Creator) error {
		list, _, _, err := c.Frames(after, missedMost)
		for _, frame := range list {
			missed = append(missed, frame)
		}
		return err
	})
	return missed, err
}

// stream writes server-sent events.
type stream struct {
	w     http.ResponseWriter
	flush func() error
	last  int64 // id of the newest frame that was sent
}

func (s *stream) open(missed [][]byte) error {
	// The first line makes the browser reconnect after a second.
	if _, err := fmt.Fprint(s.w, "retry: 1000\n\n"); err != nil {
		return fmt.Errorf("open the stream: %w", err)
	}
	if err := s.send(missed); err != nil {
		return err
	}
	return s.flush()
}

func (s *stream) run(r *http.Request, listener *world.Listener) error {
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	pace := time.NewTimer(0)
	defer pace.Stop()
	var ready <-chan struct{} // nil for batchEvery after each batch
	for {
		var err error
		select {
		case <-r.Context().Done():
			return nil
		case <-listener.Dropped:
			_, err = fmt.Fprintf(s.w, "event: dropped\ndata: %q\n\n", listener.Reason())
			return errors.Join(err, s.flush())
		case <-alive.C:
			_, err = fmt.Fprint(s.w, ": alive\n\n")
		case <-pace.C:
			ready = listener.Ready
		case <-ready:
			err = s.send(listener.Take())
			ready = nil
			pace.Reset(batchEvery)
		}
		if err = errors.Join(err, s.flush()); err != nil {
			return fmt.Errorf("write to the browser: %w", err)
		}
	}
}

// send writes the newest of the frames, and how many it skipped.
func (s *stream) send(frames [][]byte) error {
	var out batch
	for _, text := range frames {
		one, id, err := show(text)
		if err != nil {
			return err
		}
		if id > s.last {
			s.last = id
			out.Frames = append(out.Frames, one)
		}
	}
	if len(out.Frames) == 0 {
		return nil
	}
	out.Skipped = max(0, len(out.Frames)-batchMost)
	out.Frames = out.Frames[out.Skipped:]
	data, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("encode frames: %w", err)
	}
	_, err = fmt.Fprintf(s.w, "event: frames\nid: %d\ndata: %s\n\n", s.last, data)
	return err
}

func show(text []byte) (shownFrame, int64, error) {
	var frame struct {
		ID   int64   `json:"id"`
		Type string  `json:"type"`
		At   float64 `json:"ts"`
	}
	var indented bytes.Buffer
	if err := errors.Join(json.Unmarshal(text, &frame), json.Indent(&indented, text, "", "  ")); err != nil {
		return shownFrame{}, 0, fmt.Errorf("read a frame: %w", err)
	}
	return shownFrame{ID: strconv.FormatInt(frame.ID, 10), Type: frame.Type, At: frame.At, Text: indented.String()}, frame.ID, nil
}
