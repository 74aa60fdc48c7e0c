// Package world holds the platform's state: the creators and all their data.
//
// A creator (creator.go) has a lock, tables (table.go) that combine the seed with what writes changed, and frames
// (frames.go) for its sockets. Everything that changes a creator runs inside Do, which commits before it returns.
// Timers are in due.go. The package is independent of HTTP.
package world

import (
	"container/list"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/store"
)

// Domain is the mail domain of every login.
const Domain = "sandbox.test"

// First bytes of the keys in the store.
const (
	keyCreator byte = 'c' // + login -> creator
	keySession byte = 's' // + session
	keyDue     byte = 'd' // + time, creator, id, what
	keyClock   byte = 't'
	keyOwn     byte = 'o' // + creator, section: a creator's data is adjacent, so that a write touches few pages
)

// Sections of a creator's data.
const (
	ownProfile byte = 'p'
	ownRow     byte = 'r' // + kind, parent, id
	ownFrame   byte = 'f' // + frame
	ownBlob    byte = 'b' // + media, part
)

// Deps holds the dependencies of a World.
type Deps struct {
	Store *store.Store
	Log   *slog.Logger
	// Now returns the machine's time. Advance moves the platform's clock ahead of it.
	Now func() time.Time
	// Origin is the base URL of the platform and of media URLs.
	Origin string
	// Tick updates a creator to the current time, for example ends subscriptions, and returns when it must run again.
	// It runs at the start of Do. It may be nil.
	Tick func(*Creator) time.Time
	// Loaded limits how many creators stay in memory. The others are loaded on demand. Default: 400.
	Loaded int
}

// World is the platform's state. Its methods are safe for concurrent use.
type World struct {
	deps     Deps
	ahead    atomic.Int64 // nanoseconds
	sessions sessions
	due      dueQueue

	// mu is acquired before a creator's lock, never while holding one.
	mu       sync.Mutex
	creators map[string]*list.Element // of *Creator, by login
	recent   *list.List               // most recently used first
}

// Origin returns the base URL of the platform and of media URLs.
func (w *World) Origin() string { return w.deps.Origin }

// New returns a World with the state of the store.
func New(d Deps) (*World, error) {
	if d.Loaded <= 0 {
		d.Loaded = 400
	}
	w := &World{deps: d}
	w.due.wake = make(chan struct{}, 1)
	if err := w.read(); err != nil {
		return nil, err
	}
	return w, nil
}

// read discards the state in memory and reads it from the store again.
func (w *World) read() error {
	w.creators, w.recent = map[string]*list.Element{}, list.New()
	clock, err := w.deps.Store.Get([]byte{keyClock})
	if err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	w.ahead.Store(0)
	if len(clock) == 8 {
		w.ahead.Store(int64(binary.BigEndian.Uint64(clock)))
	}
	return errors.Join(w.sessions.read(w.deps.Store), w.due.read(w.deps.Store))
}

// Now returns the platform's time.
func (w *World) Now() time.Time {
	return w.deps.Now().Add(time.Duration(w.ahead.Load())).UTC().Truncate(time.Millisecond)
}

// Advance moves the platform's clock forward and wakes Run for the timers that became due.
func (w *World) Advance(by time.Duration) error {
	if by < 0 {
		return errors.New("the clock only goes forward")
	}
	value := binary.BigEndian.AppendUint64(nil, uint64(w.ahead.Add(int64(by))))
	if err := w.commit([]store.Change{{Key: []byte{keyClock}, Value: value}}); err != nil {
		return err
	}
	w.due.poke()
	return nil
}

// Reset deletes everything that was written and resets the clock. Every login starts again from its seed.
func (w *World) Reset() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for e := w.recent.Front(); e != nil; e = e.Next() {
		e.Value.(*Creator).retire()
	}
	if err := w.deps.Store.Wipe(); err != nil {
		return fmt.Errorf("wipe the state: %w", err)
	}
	if err := w.read(); err != nil {
		return err
	}
	w.due.poke()
	return nil
}

// commit writes changes and waits until they, and all changes queued before, are in the store.
func (w *World) commit(changes []store.Change) error {
	done := make(chan error, 1)
	w.deps.Store.Commit(changes, func(err error) { done <- err })
	return <-done
}

// ErrNoLogin means that a login is invalid or that a creator does not exist.
var ErrNoLogin = errors.New("no such login")

// Persona returns the persona of a login: the part before + or @. It decides how the creator behaves.
func Persona(login string) (string, error) {
	local, domain, ok := strings.Cut(strings.ToLower(login), "@")
	if !ok || domain != Domain || local == "" || len(login) > 120 {
		return "", ErrNoLogin
	}
	persona, _, _ := strings.Cut(local, "+")
	return persona, nil
}

// Do calls f with exclusive access to the creator of a login, which it creates on first use. When Do returns, the
// changes are committed and the frames sent. If f fails, nothing is changed. f must not keep the creator.
func (w *World) Do(login string, f func(*Creator) error) error {
	for {
		c, err := w.hold(login)
		if err != nil {
			return err
		}
		if err = c.use(f); !errors.Is(err, errRetired) {
			return err
		}
	}
}

// use calls f with a creator that hold returned, and releases it.
func (c *Creator) use(f func(*Creator) error) error {
	defer c.users.Add(-1)
	return c.do(func() error { return f(c) })
}

// DoID is like Do, for the id of an existing creator.
func (w *World) DoID(id int64, f func(*Creator) error) error {
	profile, err := w.profile(id)
	if err != nil {
		return err
	}
	return w.Do(profile.Login, f)
}

// hold returns the creator of a login and prevents its eviction until the caller decrements users.
func (w *World) hold(login string) (*Creator, error) {
	login = strings.ToLower(strings.TrimSpace(login))
	persona, err := Persona(login)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if e, ok := w.creators[login]; ok {
		w.recent.MoveToFront(e)
		c := e.Value.(*Creator)
		c.users.Add(1)
		return c, nil
	}
	c, err := w.load(login, persona)
	if err != nil {
		return nil, err
	}
	c.users.Add(1)
	w.creators[login] = w.recent.PushFront(c)
	w.evict()
	return c, nil
}

// Logins returns the logins of all creators so far.
func (w *World) Logins() ([]string, error) {
	var all []string
	err := w.deps.Store.Each([]byte{keyCreator}, func(key, _ []byte) error {
		all = append(all, string(key[1:]))
		return nil
	})
	return all, err
}

// load reads a creator from the store, or creates it.
func (w *World) load(login, persona string) (*Creator, error) {
	name := append([]byte{keyCreator}, login...)
	number, err := w.deps.Store.Get(name)
	if err != nil {
		return nil, fmt.Errorf("read creator: %w", err)
	}
	c := &Creator{w: w, login: login}
	c.hub.listeners = map[*Listener]struct{}{}
	if number != nil {
		if c.Profile, err = w.profile(int64(binary.BigEndian.Uint64(number))); err != nil {
			return nil, err
		}
		return c, c.readFrames()
	}
	id := seed.CreatorID(login)
	for {
		if _, err := w.profile(id); errors.Is(err, ErrNoLogin) {
			break
		} else if err != nil {
			return nil, err
		}
		id++ // another login already has this id
	}
	origin := row.Origin{ID: id, Login: login, Anchor: w.Now().Truncate(24 * time.Hour)}
	c.Profile = *seed.Creator(origin, persona)
	c.Profile.Born = w.deps.Now().UnixMicro()
	return c, w.commit([]store.Change{{Key: name, Value: binary.BigEndian.AppendUint64(nil, uint64(id))}, c.profileChange()})
}

func (w *World) profile(id int64) (row.Creator, error) {
	var profile row.Creator
	value, err := w.deps.Store.Get(own(id, ownProfile))
	if err != nil {
		return profile, fmt.Errorf("read creator: %w", err)
	}
	if value == nil {
		return profile, ErrNoLogin
	}
	if err := json.Unmarshal(value, &profile); err != nil {
		return profile, fmt.Errorf("read creator: %w", err)
	}
	return profile, nil
}

// evict removes the least recently used creators that have no request and no socket from memory.
func (w *World) evict() {
	for e := w.recent.Back(); e != nil && w.recent.Len() > w.deps.Loaded; {
		older := e.Prev()
		if c := e.Value.(*Creator); c.users.Load() == 0 {
			w.recent.Remove(e)
			delete(w.creators, c.login)
		}
		e = older
	}
}

// own returns the key prefix of a section of a creator's data.
func own(creator int64, section byte) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{keyOwn}, uint64(creator)), section)
}
