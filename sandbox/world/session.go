package world

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/store"
)

// Lifetime of a session, interval at which its token rotates, and how long the old token stays valid after that.
const (
	SessionLife   = 30 * 24 * time.Hour
	sessionRotate = 30 * time.Minute
	sessionGrace  = time.Minute
)

// Session is one sign-in of a creator.
type Session struct {
	ID        int64     `json:"id"`
	Login     string    `json:"login"`
	Owner     int64     `json:"owner"` // creator id; not always that of the login, see persona mismatch
	Token     string    `json:"token"`
	Previous  string    `json:"previous,omitempty"`
	Device    string    `json:"device"`
	Agent     string    `json:"agent"`
	Egress    string    `json:"egress"`
	At        time.Time `json:"at"`
	Rotated   time.Time `json:"rotated"`
	Seen      time.Time `json:"seen"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// sessions indexes the sessions by their current and previous tokens.
type sessions struct {
	mu      sync.Mutex
	byToken map[string]*Session
	last    int64
}

func (s *sessions) read(from *store.Store) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byToken, s.last = map[string]*Session{}, 0
	return from.Each([]byte{keySession}, func(_, value []byte) error {
		var one Session
		if err := json.Unmarshal(value, &one); err != nil {
			return fmt.Errorf("read session: %w", err)
		}
		s.last = max(s.last, one.ID)
		s.byToken[one.Token] = &one
		if one.Previous != "" {
			s.byToken[one.Previous] = &one
		}
		return nil
	})
}

// NewSession creates a session. The caller sets Login, Owner, Device, Agent and Egress, and optionally ExpiresAt.
func (w *World) NewSession(s Session) (Session, error) {
	now := w.Now()
	w.sessions.mu.Lock()
	w.sessions.last++
	s.ID = w.sessions.last
	s.Token = rand.Text()
	s.At, s.Rotated, s.Seen = now, now, now
	if s.ExpiresAt.IsZero() {
		s.ExpiresAt = now.Add(SessionLife)
	}
	stored := s
	w.sessions.byToken[s.Token] = &stored
	w.sessions.mu.Unlock()
	end := due{At: s.ExpiresAt, Creator: s.Owner, What: sessionEnds, ID: s.ID}
	if err := w.saveSession(&s, end.change()); err != nil {
		return s, err
	}
	w.due.add(end)
	return s, nil
}

// Good reports whether a session has not ended.
func (w *World) Good(s Session) bool {
	w.sessions.mu.Lock()
	defer w.sessions.mu.Unlock()
	found := w.sessions.byToken[s.Token]
	return found != nil && w.Now().Before(found.ExpiresAt)
}

// FindSession returns the session of a valid token. If the token is due for rotation, the session gets a new one and
// rotated is true. rotated is also true for the old token during its grace period, because the response with the new
// token may have been lost.
func (w *World) FindSession(token string) (s Session, rotated, ok bool) {
	now := w.Now()
	w.sessions.mu.Lock()
	found := w.sessions.byToken[token]
	if found == nil || !now.Before(found.ExpiresAt) || (token == found.Previous && now.After(found.Rotated.Add(sessionGrace))) {
		w.sessions.mu.Unlock()
		return Session{}, false, false
	}
	fresh := token == found.Token && now.Sub(found.Rotated) >= sessionRotate
	rotated = fresh || token == found.Previous
	if fresh {
		w.sessions.turn(found, now)
	}
	found.Seen = now
	s = *found
	w.sessions.mu.Unlock()
	if fresh && w.saveSession(&s) != nil {
		return Session{}, false, false
	}
	return s, rotated, true
}

// RotateSession rotates the token of a session early. The old token stays valid for its grace period. If another caller
// has rotated the session since s was read, RotateSession keeps that token.
func (w *World) RotateSession(s Session) (Session, bool) {
	w.sessions.mu.Lock()
	found := w.sessions.byToken[s.Token]
	if found == nil {
		w.sessions.mu.Unlock()
		return Session{}, false
	}
	if found.Token == s.Token {
		w.sessions.turn(found, w.Now())
	}
	s = *found
	w.sessions.mu.Unlock()
	return s, w.saveSession(&s) == nil
}

// turn gives a session a new token. It requires the lock.
func (s *sessions) turn(one *Session, now time.Time) {
	delete(s.byToken, one.Previous)
	one.Previous, one.Token, one.Rotated = one.Token, rand.Text(), now
	s.byToken[one.Token] = one
}

// EndSessions ends the sessions of a login for which which is true, closes their sockets, and returns how many it
// ended.
func (w *World) EndSessions(login string, which func(Session) bool) (int, error) {
	var ended []Session
	w.sessions.mu.Lock()
	for token, s := range w.sessions.byToken {
		if s.Login == login && token == s.Token && which(*s) {
			ended = append(ended, *s)
		}
	}
	var changes []store.Change
	for _, s := range ended {
		delete(w.sessions.byToken, s.Token)
		delete(w.sessions.byToken, s.Previous)
		changes = append(changes, store.Change{Key: sessionKey(s.ID)})
	}
	w.sessions.mu.Unlock()
	if len(ended) == 0 {
		return 0, nil
	}
	if c, err := w.hold(login); err == nil {
		for _, s := range ended {
			c.DropSockets(s.Device, ReasonSession)
		}
		c.users.Add(-1)
	}
	return len(ended), w.commit(changes)
}

// Sessions returns the sessions of a login, oldest first.
func (w *World) Sessions(login string) []Session {
	var list []Session
	w.sessions.mu.Lock()
	for token, s := range w.sessions.byToken {
		if s.Login == login && token == s.Token {
			list = append(list, *s)
		}
	}
	w.sessions.mu.Unlock()
	slices.SortFunc(list, func(a, b Session) int { return int(a.ID - b.ID) })
	return list
}

// Sessions returns the creator's sessions, oldest first.
func (c *Creator) Sessions() []Session { return c.w.Sessions(c.Profile.Login) }

// EndSession ends a session of the creator after the commit.
func (c *Creator) EndSession(id int64) {
	c.Later(func() {
		_, err := c.w.EndSessions(c.login, func(s Session) bool { return s.ID == id })
		if err != nil {
			c.w.deps.Log.Error("ending a session failed", slog.String("error", err.Error()))
		}
	})
}

func (w *World) saveSession(s *Session, also ...store.Change) error {
	value, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("write session: %w", err)
	}
	return w.commit(append(also, store.Change{Key: sessionKey(s.ID), Value: value}))
}

func sessionKey(id int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{keySession}, uint64(id))
}

// SessionNumber returns the session id that the platform shows.
func (s Session) SessionNumber() int64 { return row.MadeID(s.Owner, row.KindSession, s.ID) }
