package world

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/store"
)

// Creator is an account of the platform with all its data. It may be used only inside World.Do.
type Creator struct {
	// Profile is the creator's own record. Call SaveProfile after changing it.
	Profile row.Creator

	login string // never changes, so it can be read without a lock
	w     *World
	users atomic.Int64 // requests and sockets that hold it
	// tickAt is when Tick must run again, in Unix milliseconds.
	tickAt atomic.Int64
	hub    hub

	mu           sync.Mutex // guards everything below
	tables       tables
	opened       time.Time // no table was created before this time
	changes      []store.Change
	frames       [][]byte
	only         string // the kind of frame that may be sent; if empty, all
	lastFrame    int64
	kept         int   // frames in the store
	keptBefore   int   // kept at the start of Do
	trimmed      int64 // the last frame that was deleted
	afterwards   []func()
	profileDirty bool
	retired      bool
	turn         int64
}

var errRetired = errors.New("the creator was reset")

func (c *Creator) do(f func() error) error {
	c.mu.Lock()
	held := true
	c.keptBefore = c.kept
	defer func() {
		if held { // an early return, or a panic that a caller may recover
			c.drop()
			c.mu.Unlock()
		}
	}()
	if c.retired {
		return errRetired
	}
	if err := c.refresh(); err != nil {
		return err
	}
	if now := c.Now(); c.w.deps.Tick != nil && now.UnixMilli() >= c.tickAt.Load() {
		c.tickAt.Store(c.w.deps.Tick(c).UnixMilli())
	}
	err := f()
	if err != nil {
		c.undo()
	}
	if c.profileDirty {
		c.profileDirty = false
		c.changes = append(c.changes, c.profileChange())
	}
	changes, frames, afterwards := c.changes, c.frames, c.afterwards
	c.changes, c.frames, c.afterwards = nil, nil, nil
	if len(changes) == 0 {
		c.hub.publish(frames)
		held = false
		c.mu.Unlock()
		run(afterwards)
		return err
	}
	done := make(chan error, 1)
	// Commit is called under the lock, so that frames are sent in the order of their ids.
	c.w.deps.Store.Commit(changes, func(err error) {
		if err == nil {
			c.hub.publish(frames)
		}
		done <- err
	})
	held = false
	c.mu.Unlock()
	if failed := <-done; failed != nil {
		return fmt.Errorf("write the state: %w", failed)
	}
	run(afterwards)
	return err
}

func run(all []func()) {
	for _, f := range all {
		f()
	}
}

// undo discards what a failed change did in memory. The tables are loaded again when needed.
func (c *Creator) undo() {
	if len(c.changes) == 0 && !c.profileDirty {
		c.frames, c.afterwards = nil, nil
		return
	}
	c.drop()
	// Earlier changes may still be queued in the store.
	err := c.w.commit(nil)
	if err == nil {
		c.Profile, err = c.w.profile(c.Profile.ID)
	}
	if err != nil {
		panic(fmt.Errorf("reload a creator: %w", err))
	}
}

// drop discards uncommitted changes.
func (c *Creator) drop() {
	c.changes, c.frames, c.afterwards, c.profileDirty = nil, nil, nil, false
	c.kept, c.tables = c.keptBefore, tables{}
}

// tablesLife is how long tables stay in memory. They are loaded again from the seed and the store, by single rows where
// possible, so that ten thousand creators with sockets do not fill the memory with every row they ever used.
const tablesLife = 30 * time.Second

// refresh drops tables that are older than tablesLife. It waits until earlier changes are in the store.
func (c *Creator) refresh() error {
	now := c.w.deps.Now()
	if now.Sub(c.opened) < tablesLife {
		return nil
	}
	c.opened, c.tables = now, tables{}
	return c.w.commit(nil)
}

// Now returns the platform's time.
func (c *Creator) Now() time.Time { return c.w.Now() }

// Origin returns the base URL of the platform.
func (c *Creator) Origin() string { return c.w.deps.Origin }

// SaveProfile marks the profile as changed, so that it is committed.
func (c *Creator) SaveProfile() { c.profileDirty = true }

func (c *Creator) profileChange() store.Change {
	value, err := json.Marshal(&c.Profile)
	if err != nil {
		panic(fmt.Errorf("encode the profile of creator %d: %w", c.Profile.ID, err))
	}
	return store.Change{Key: own(c.Profile.ID, ownProfile), Value: value}
}

func (c *Creator) nextID(kind row.Kind) int64 {
	if c.Profile.Sequence == nil {
		c.Profile.Sequence = map[row.Kind]int64{}
	}
	c.Profile.Sequence[kind]++
	c.SaveProfile()
	return row.MadeID(c.Profile.ID, kind, c.Profile.Sequence[kind])
}

// Later calls f after the commit, outside the lock. If Do fails, f is not called.
func (c *Creator) Later(f func()) { c.afterwards = append(c.afterwards, f) }

// SaveBlob stores one part of the bytes of an upload. Nil data deletes the part.
func (c *Creator) SaveBlob(id int64, part int, data []byte) {
	c.changes = append(c.changes, store.Change{Key: binary.BigEndian.AppendUint32(blobKey(c.Profile.ID, id), uint32(part)), Value: data})
}

// Blob returns the bytes of an upload, all parts joined.
func (c *Creator) Blob(id int64) ([]byte, error) {
	var all []byte
	err := c.w.deps.Store.Each(blobKey(c.Profile.ID, id), func(_, value []byte) error {
		all = append(all, value...)
		return nil
	})
	return all, err
}

// retire makes further calls of do fail and closes the sockets. World.Reset calls it before it wipes the state.
func (c *Creator) retire() {
	c.mu.Lock()
	c.retired = true
	c.mu.Unlock()
	c.hub.dropAll(ReasonReset)
}

func blobKey(creator, id int64) []byte {
	return binary.BigEndian.AppendUint64(own(creator, ownBlob), uint64(id))
}

// Turn returns the next number below n, in a cycle. The cycle is not stored.
func (c *Creator) Turn(n int) int {
	c.turn++
	return int(c.turn % int64(n))
}
