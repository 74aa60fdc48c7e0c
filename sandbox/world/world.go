// Package world is the platform's state: creators, what they have, and what happens to it.
//
// A creator (creator.go) is one lock, a set of tables (table.go) made from the seed and from what writes changed, and the frames
// (frames.go) that its sockets see. Everything that changes a creator runs inside Do, which commits before it returns.
// What happens later by itself is in due.go. The package knows nothing of HTTP.
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
	keyOwn     byte = 'o' // + creator, section: everything of a creator lies together, so that a write touches few pages
)

// Sections of what a creator has.
const (
	ownProfile byte = 'p'
	ownRow     byte = 'r' // + kind, parent, id
	ownFrame   byte = 'f' // + frame
	ownBlob    byte = 'b' // + media, part
)

// Deps are what the world stands on.
type Deps struct {
	Store *store.Store
	Log   *slog.Logger
	// Now is the machine's clock; the platform's own runs ahead of it by what was advanced.
	Now func() time.Time
	// Origin is where the platform is reached; addresses of media start with it.
	Origin string
	// Tick deals with what happened to a creator since it was last looked at (subscriptions that ended), and says when to look
	// again. It runs at the start of Do.
	Tick func(*Creator) time.Time
	// Loaded is how many creators are kept in memory; the others are made again when asked for.
	Loaded int
}

// World is the platform's state. Its methods may be called at the same time.
type World struct {
	Deps
	ahead    atomic.Int64 // nanoseconds
	sessions sessions
	due      dueQueue

	// mu is taken before a creator's lock, never inside it.
	mu       sync.Mutex
	creators map[string]*list.Element // of *Creator, by login
	recent   *list.List               // the most recently used first
}

// New reads what the store has.
func New(d Deps) (*World, error) {
	if d.Loaded <= 0 {
		d.Loaded = 400
	}
	w := &World{Deps: d}
	w.due.wake = make(chan struct{}, 1)
	if err := w.read(); err != nil {
		return nil, err
	}
	return w, nil
}

// read drops what is in memory and reads the store again.
func (w *World) read() error {
	w.creators, w.recent = map[string]*list.Element{}, list.New()
	clock, err := w.Store.Get([]byte{keyClock})
	if err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	w.ahead.Store(0)
	if len(clock) == 8 {
		w.ahead.Store(int64(binary.BigEndian.Uint64(clock)))
	}
	return errors.Join(w.sessions.read(w.Store), w.due.read(w.Store))
}

// Now is the platform's time.
func (w *World) Now() time.Time {
	return w.Deps.Now().Add(time.Duration(w.ahead.Load())).UTC().Truncate(time.Millisecond)
}

// Advance moves the platform's clock, which runs what became due.
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

// Reset forgets everything that was written: the next request of a login finds its seed.
func (w *World) Reset() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for e := w.recent.Front(); e != nil; e = e.Next() {
		e.Value.(*Creator).retire()
	}
	if err := w.Store.Wipe(); err != nil {
		return fmt.Errorf("wipe the state: %w", err)
	}
	if err := w.read(); err != nil {
		return err
	}
	w.due.poke()
	return nil
}

// commit waits until changes are in the store.
func (w *World) commit(changes []store.Change) error {
	done := make(chan error, 1)
	w.Store.Commit(changes, func(err error) { done <- err })
	return <-done
}

// ErrNoLogin means that a text is not the address of a creator of this platform.
var ErrNoLogin = errors.New("no such login")

// Persona is what a login's creator is like: the part before + or @.
func Persona(login string) (string, error) {
	local, domain, ok := strings.Cut(strings.ToLower(login), "@")
	if !ok || domain != Domain || local == "" || len(login) > 120 {
		return "", ErrNoLogin
	}
	persona, _, _ := strings.Cut(local, "+")
	return persona, nil
}

// Do runs something that reads or changes a login's creator, alone; the creator is made on first sight. What it changed is
// committed when Do returns, and then its frames go out; if it fails, nothing has happened. A creator must not be kept for later.
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

// use runs something on a creator that is held, and lets it go.
func (c *Creator) use(f func(*Creator) error) error {
	defer c.users.Add(-1)
	return c.do(func() error { return f(c) })
}

// DoID is Do for a creator that was seen before.
func (w *World) DoID(id int64, f func(*Creator) error) error {
	profile, err := w.profile(id)
	if err != nil {
		return err
	}
	return w.Do(profile.Login, f)
}

// hold finds a creator and keeps it from being let go of.
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

// Logins lists the creators seen so far.
func (w *World) Logins() ([]string, error) {
	var all []string
	err := w.Store.Each([]byte{keyCreator}, func(key, _ []byte) error {
		all = append(all, string(key[1:]))
		return nil
	})
	return all, err
}

// load reads a creator from the store, or makes it.
func (w *World) load(login, persona string) (*Creator, error) {
	name := append([]byte{keyCreator}, login...)
	number, err := w.Store.Get(name)
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
		id++ // another login has it already
	}
	origin := row.Origin{ID: id, Login: login, Anchor: w.Now().Truncate(24 * time.Hour)}
	c.Profile = *seed.Creator(origin, persona)
	c.Profile.Born = w.Deps.Now().UnixMicro()
	return c, w.commit([]store.Change{{Key: name, Value: binary.BigEndian.AppendUint64(nil, uint64(id))}, c.profileChange()})
}

// profile reads a creator's own row.
func (w *World) profile(id int64) (row.Creator, error) {
	var profile row.Creator
	value, err := w.Store.Get(own(id, ownProfile))
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

// evict lets go of the creators that were not used for the longest time and have no socket.
func (w *World) evict() {
	for e := w.recent.Back(); e != nil && w.recent.Len() > w.Loaded; {
		older := e.Prev()
		if c := e.Value.(*Creator); c.users.Load() == 0 {
			w.recent.Remove(e)
			delete(w.creators, c.login)
		}
		e = older
	}
}

// own is what the keys of a section of a creator start with.
func own(creator int64, section byte) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{keyOwn}, uint64(creator)), section)
}
