// Package live serves the platform's WebSocket, which sends a creator's frames, and the list of missed frames.
package live

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"github.com/stagedoor/stagedoor/sandbox/gate"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

const (
	writeTimeout = 10 * time.Second
	pingEvery    = 30 * time.Second
	// maxHold limits how long the fault reorder holds a frame back when no other follows.
	maxHold    = 5 * time.Second
	mostFrames = 500
)

// Close codes of the platform, in addition to the standard ones.
const (
	closeSession = websocket.StatusCode(4001) // sign in again
	closeSlow    = websocket.StatusCode(4008) // read faster, and fetch the missed frames
)

// Live serves frames.
type Live struct {
	World *world.World
	Gate  *gate.Gate
	// NoSince disables the list of missed frames.
	NoSince bool
}

// Mount adds the routes of Live below the path base.
func (l *Live) Mount(mux *http.ServeMux, base string) {
	mux.HandleFunc("GET "+base+"/live", l.socket)
	if !l.NoSince {
		mux.HandleFunc("GET "+base+"/live/frames", l.Gate.Handle(wire.Route{Pattern: "GET /live/frames", Handle: since, Live: true}))
	}
}

// since lists the frames after a given one.
func since(c *wire.Call) (any, error) {
	after, err := strconv.ParseInt(c.Query("after"), 10, 64)
	if err != nil && c.Query("after") != "" {
		return nil, wire.Invalid("after", "This is not a frame id.")
	}
	limit := mostFrames
	if n, err := strconv.Atoi(c.Query("limit")); err == nil && n > 0 {
		limit = min(n, mostFrames)
	}
	frames, more, complete, err := c.Frames(after, limit)
	if err != nil {
		return nil, err
	}
	if frames == nil {
		frames = []json.RawMessage{}
	}
	return map[string]any{"frames": frames, "has_more": more, "is_complete": complete, "last_id": c.LastFrame()}, nil
}

// socket upgrades the connection and sends frames until one side closes it.
func (l *Live) socket(w http.ResponseWriter, r *http.Request) {
	s, err := l.Gate.Session(w, r)
	status := 0
	if l.Gate.LiveTrouble(w, r, s.Login, &status) {
		l.Gate.Record(r, s.Login, status)
		return
	}
	if err == nil {
		err = l.allowed(s)
	}
	if err != nil {
		l.Gate.Record(r, s.Login, l.Gate.Write(w, nil, err))
		return
	}
	listener, err := l.World.Listen(s.Login, s.Device)
	if err != nil {
		l.Gate.Record(r, s.Login, l.Gate.Write(w, nil, err))
		return
	}
	defer listener.Close()
	if !l.World.Good(s) { // the session ended before Listen, so the listener would never be dropped
		l.Gate.Record(r, s.Login, l.Gate.Write(w, nil, gate.ErrExpired))
		return
	}
	l.Gate.Record(r, s.Login, http.StatusSwitchingProtocols)
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return
	}
	defer conn.CloseNow() //nolint:errcheck // there is nothing to do about a socket that fails to close
	l.pump(conn.CloseRead(r.Context()), conn, listener, s.Login)
}

// allowed returns a refusal if the creator is banned.
func (l *Live) allowed(s world.Session) error {
	return l.World.Do(s.Login, gate.Allowed)
}

// pump sends frames and applies the faults of the login, until the socket closes.
func (l *Live) pump(ctx context.Context, conn *websocket.Conn, listener *world.Listener, login string) {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	var held []byte // the frame that the fault reorder holds back
	alone := time.NewTimer(maxHold)
	defer alone.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-alone.C:
			if held != nil && write(ctx, conn, held) != nil {
				return
			}
			held = nil
		case <-ping.C:
			if alive(ctx, conn) != nil {
				return
			}
		case <-listener.Dropped:
			closeFor(conn, listener.Reason())
			return
		case <-listener.Ready:
			for _, frame := range listener.Take() {
				if _, cut := l.Gate.Faults.Take(login, gate.DropSocket); cut {
					return
				}
				var err error
				if held, err = l.send(ctx, conn, login, frame, held); err != nil {
					return
				}
			}
			alone.Reset(maxHold)
		}
	}
}

// send writes a frame once or twice, or holds it back until the next one was sent. It returns the frame that is held.
func (l *Live) send(ctx context.Context, conn *websocket.Conn, login string, frame, held []byte) ([]byte, error) {
	if held == nil {
		if _, swap := l.Gate.Faults.Take(login, gate.Reorder); swap {
			return frame, nil
		}
	}
	err := write(ctx, conn, frame)
	if _, twice := l.Gate.Faults.Take(login, gate.Duplicate); twice && err == nil {
		err = write(ctx, conn, frame)
	}
	if held != nil && err == nil {
		err = write(ctx, conn, held)
	}
	return nil, err
}

func write(ctx context.Context, conn *websocket.Conn, frame []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return conn.Write(ctx, websocket.MessageText, frame)
}

func alive(ctx context.Context, conn *websocket.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return conn.Ping(ctx)
}

func closeFor(conn *websocket.Conn, reason string) {
	code := websocket.StatusGoingAway
	switch reason {
	case world.ReasonSession:
		code = closeSession
	case world.ReasonSlow:
		code = closeSlow
	}
	if err := conn.Close(code, reason); err != nil && !errors.Is(err, context.Canceled) {
		return
	}
}
