package world

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"

	"github.com/stagedoor/stagedoor/sandbox/store"
)

// The store keeps at least the last keptFrames frames of a creator. Older ones are deleted trimEvery at a time.
const (
	keptFrames = 20_000
	trimEvery  = 1_000
)

// Reasons for closing a socket.
const (
	ReasonReset   = "reset"
	ReasonSlow    = "slow"
	ReasonSession = "session"
	ReasonFault   = "fault"
)

// Emit sends a frame to the creator's sockets after the commit. The frame is stored and can be listed later.
func (c *Creator) Emit(kind string, body any) { c.emit(kind, body, true) }

// Flash is like Emit, but does not store the frame.
func (c *Creator) Flash(kind string, body any) { c.emit(kind, body, false) }

// Alone calls do and suppresses all frames except those of one kind.
func (c *Creator) Alone(kind string, do func() error) error {
	c.only = kind
	defer func() { c.only = "" }()
	return do()
}

func (c *Creator) emit(kind string, body any, keep bool) {
	if c.only != "" && kind != c.only {
		return
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Errorf("encode a %s frame: %w", kind, err))
	}
	// Ids use the machine's clock, which a reset does not set back, so an id is never used twice.
	id := max(c.lastFrame+1, c.w.deps.Now().UnixMicro())
	c.lastFrame = id
	now := c.Now()
	text := append([]byte(`{"id":`), strconv.FormatInt(id, 10)...)
	text = append(text, `,"type":"`...)
	text = append(text, kind...)
	text = append(text, `","ts":`...)
	text = strconv.AppendFloat(text, float64(now.UnixMilli())/1000, 'f', 3, 64)
	text = append(text, `,"body":`...)
	text = append(text, encoded...)
	text = append(text, '}')
	c.frames = append(c.frames, text)
	if !keep {
		return
	}
	c.changes = append(c.changes, store.Change{Key: frameKey(c.Profile.ID, id), Value: text})
	c.kept++
	if c.kept >= keptFrames+trimEvery {
		c.trim()
	}
}

// trim deletes the oldest frames. It starts after those it deleted before, because their deletion may still be queued
// in the store.
func (c *Creator) trim() {
	prefix := own(c.Profile.ID, ownFrame)
	n := 0
	_ = c.w.deps.Store.From(prefix, frameKey(c.Profile.ID, c.trimmed+1), func(key, _ []byte) error {
		if n == trimEvery {
			return errEnough
		}
		n++
		c.trimmed = int64(binary.BigEndian.Uint64(key[len(prefix):]))
		c.changes = append(c.changes, store.Change{Key: append([]byte(nil), key...)})
		return nil
	})
	c.kept -= n
}

// Frames returns the stored frames after a given one, oldest first, and whether there are more. complete is false if
// frames after the given one may have been deleted.
func (c *Creator) Frames(after int64, limit int) (list []json.RawMessage, more, complete bool, err error) {
	// Earlier changes may still be queued in the store.
	if err := c.w.commit(nil); err != nil {
		return nil, false, false, err
	}
	prefix := own(c.Profile.ID, ownFrame)
	complete, err = c.remembers(after)
	if err != nil {
		return nil, false, false, err
	}
	err = c.w.deps.Store.From(prefix, frameKey(c.Profile.ID, after), func(key, value []byte) error {
		id := int64(binary.BigEndian.Uint64(key[len(prefix):]))
		switch {
		case id == after:
			complete = true
			return nil
		case len(list) == limit:
			more = true
			return errEnough
		}
		list = append(list, append(json.RawMessage(nil), value...))
		return nil
	})
	if more {
		err = nil
	}
	return list, more, complete, err
}

// remembers reports whether all frames after a given one are still stored. It reports false for a frame from before a
// reset. The oldest frames are deleted first, so nothing is missing if a stored frame is not newer than the given one.
func (c *Creator) remembers(after int64) (bool, error) {
	switch {
	case after == 0:
		return true, nil
	case after < c.Profile.Born:
		return false, nil
	case c.kept < keptFrames:
		return true, nil
	}
	oldest := int64(math.MaxInt64)
	prefix := own(c.Profile.ID, ownFrame)
	err := c.w.deps.Store.From(prefix, frameKey(c.Profile.ID, c.trimmed+1), func(key, _ []byte) error {
		oldest = int64(binary.BigEndian.Uint64(key[len(prefix):]))
		return errEnough
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return oldest <= after, err
}

// LastFrame returns the id of the newest frame, or 0.
func (c *Creator) LastFrame() int64 { return c.lastFrame }

var errEnough = errors.New("enough")

// readFrames reads the number of stored frames and the newest id.
func (c *Creator) readFrames() error {
	prefix := own(c.Profile.ID, ownFrame)
	return c.w.deps.Store.Each(prefix, func(key, _ []byte) error {
		c.kept++
		c.lastFrame = int64(binary.BigEndian.Uint64(key[len(prefix):]))
		return nil
	})
}

func frameKey(creator, id int64) []byte {
	return binary.BigEndian.AppendUint64(own(creator, ownFrame), uint64(id))
}

// hub holds the sockets of a creator.
type hub struct {
	mu        sync.Mutex
	listeners map[*Listener]struct{}
}

// maxWaiting limits how many frames may wait for a socket.
const maxWaiting = 4096

// Listener receives the frames of a creator for one socket. When Ready fires, Take returns new frames. Dropped is
// closed when the socket must close.
type Listener struct {
	Ready   chan struct{}
	Dropped chan struct{}
	Device  string
	creator *Creator

	waiting [][]byte // this and below: guarded by the hub's lock
	reason  string
}

// Listen opens a Listener. The caller must close it.
func (w *World) Listen(login, device string) (*Listener, error) {
	c, err := w.hold(login)
	if err != nil {
		return nil, err
	}
	l := &Listener{Ready: make(chan struct{}, 1), Dropped: make(chan struct{}), Device: device, creator: c}
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	c.hub.listeners[l] = struct{}{}
	return l, nil
}

func (l *Listener) Close() {
	l.creator.hub.mu.Lock()
	l.creator.hub.drop(l, "")
	l.creator.hub.mu.Unlock()
	l.creator.users.Add(-1)
}

// Take returns the frames since the last call.
func (l *Listener) Take() [][]byte {
	l.creator.hub.mu.Lock()
	defer l.creator.hub.mu.Unlock()
	frames := l.waiting
	l.waiting = nil
	return frames
}

// Reason returns why the listener was dropped.
func (l *Listener) Reason() string {
	l.creator.hub.mu.Lock()
	defer l.creator.hub.mu.Unlock()
	return l.reason
}

// publish passes frames to all listeners. A listener that is too slow is dropped; its client can list the frames later.
func (h *hub) publish(frames [][]byte) {
	if len(frames) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		if len(l.waiting)+len(frames) > maxWaiting {
			h.drop(l, ReasonSlow)
			continue
		}
		l.waiting = append(l.waiting, frames...)
		select {
		case l.Ready <- struct{}{}:
		default:
		}
	}
}

// drop requires the lock.
func (h *hub) drop(l *Listener, reason string) {
	if _, there := h.listeners[l]; there {
		delete(h.listeners, l)
		l.reason = reason
		close(l.Dropped)
	}
}

func (h *hub) dropAll(reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		h.drop(l, reason)
	}
}

// DropSockets closes the creator's sockets, or only those of one device if device is not empty.
func (c *Creator) DropSockets(device, reason string) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	for l := range c.hub.listeners {
		if device == "" || l.Device == device {
			c.hub.drop(l, reason)
		}
	}
}

// Sockets returns the number of open sockets.
func (c *Creator) Sockets() int {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	return len(c.hub.listeners)
}
