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

// keptFrames is how many frames of a creator can be asked for again; some more are kept for a while.
const (
	keptFrames = 20_000
	trimEvery  = 1_000
)

// Reasons why the platform closes a socket.
const (
	ReasonReset   = "reset"
	ReasonSlow    = "slow"
	ReasonSession = "session"
	ReasonFault   = "fault"
)

// Emit tells the creator's sockets that something happened, once it is committed. The frame can be listed later.
func (c *Creator) Emit(kind string, body any) { c.emit(kind, body, true) }

// Flash tells those who listen now; the frame is not kept.
func (c *Creator) Flash(kind string, body any) { c.emit(kind, body, false) }

// Alone does something of which one kind of frame is told, whatever else comes of it.
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
		panic(fmt.Errorf("a %s frame cannot be written: %w", kind, err))
	}
	// By the machine's clock, which a reset does not set back: a frame id is never used twice.
	id := max(c.lastFrame+1, c.w.Deps.Now().UnixMicro())
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

// trim forgets the oldest frames, going on behind those it forgot before: their removal may still be on its way to the store.
func (c *Creator) trim() {
	prefix := own(c.Profile.ID, ownFrame)
	n := 0
	_ = c.w.Store.From(prefix, frameKey(c.Profile.ID, c.trimmed+1), func(key, _ []byte) error {
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

// Frames lists what came after a frame, oldest first, and says whether there is more. complete is false when older frames than the
// first were forgotten, so that some may be missing.
func (c *Creator) Frames(after int64, limit int) (list []json.RawMessage, more, complete bool, err error) {
	// What others have just done may be in memory and on its way to the store.
	if err := c.w.commit(nil); err != nil {
		return nil, false, false, err
	}
	prefix := own(c.Profile.ID, ownFrame)
	complete, err = c.remembers(after)
	if err != nil {
		return nil, false, false, err
	}
	err = c.w.Store.From(prefix, frameKey(c.Profile.ID, after), func(key, value []byte) error {
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

// remembers says whether nothing that came behind a frame was forgotten. A frame of another life says nothing; in this one the oldest
// are forgotten first, so all is there if one is that is not newer.
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
	err := c.w.Store.From(prefix, frameKey(c.Profile.ID, c.trimmed+1), func(key, _ []byte) error {
		oldest = int64(binary.BigEndian.Uint64(key[len(prefix):]))
		return errEnough
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return oldest <= after, err
}

// LastFrame is the id of the newest frame; 0 if there was none.
func (c *Creator) LastFrame() int64 { return c.lastFrame }

var errEnough = errors.New("enough")

// readFrames finds where the numbering stands.
func (c *Creator) readFrames() error {
	prefix := own(c.Profile.ID, ownFrame)
	return c.w.Store.Each(prefix, func(key, _ []byte) error {
		c.kept++
		c.lastFrame = int64(binary.BigEndian.Uint64(key[len(prefix):]))
		return nil
	})
}

func frameKey(creator, id int64) []byte {
	return binary.BigEndian.AppendUint64(own(creator, ownFrame), uint64(id))
}

// hub are the sockets of a creator.
type hub struct {
	mu        sync.Mutex
	listeners map[*Listener]struct{}
}

// maxWaiting is how many frames a socket may be behind.
const maxWaiting = 4096

// Listener is one socket's view of a creator. When Ready fires there are frames to Take, until Dropped is closed.
type Listener struct {
	Ready   chan struct{}
	Dropped chan struct{}
	Device  string
	creator *Creator

	waiting [][]byte // this and below under the hub's lock
	reason  string
}

// Listen opens one. Close it.
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

// Close ends it.
func (l *Listener) Close() {
	l.creator.hub.mu.Lock()
	l.creator.hub.drop(l, "")
	l.creator.hub.mu.Unlock()
	l.creator.users.Add(-1)
}

// Take gives the frames that came since.
func (l *Listener) Take() [][]byte {
	l.creator.hub.mu.Lock()
	defer l.creator.hub.mu.Unlock()
	frames := l.waiting
	l.waiting = nil
	return frames
}

// Reason says why it was dropped.
func (l *Listener) Reason() string {
	l.creator.hub.mu.Lock()
	defer l.creator.hub.mu.Unlock()
	return l.reason
}

// publish hands frames to everyone; who does not keep up is dropped and asks for the rest later.
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

// drop is called with the lock.
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

// DropSockets closes the creator's sockets; of one device only, if it is named.
func (c *Creator) DropSockets(device, reason string) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	for l := range c.hub.listeners {
		if device == "" || l.Device == device {
			c.hub.drop(l, reason)
		}
	}
}

// Sockets counts who listens.
func (c *Creator) Sockets() int {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	return len(c.hub.listeners)
}
