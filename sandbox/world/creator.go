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

// Creator is one account of the platform with everything in it, for use inside World.Do.
type Creator struct {
	// Profile is the creator's own row; call SaveProfile after a change.
	Profile row.Creator

	login string // never changes, and can be read without a lock
	w     *World
	users atomic.Int64 // requests and sockets that hold it
	// tickAt is when Tick wants to look again, in milliseconds.
	tickAt atomic.Int64
	hub    hub

	mu           sync.Mutex // all below
	tables       tables
	opened       time.Time // when the oldest table may have been made
	changes      []store.Change
	frames       [][]byte
	only         string // the kind of frame that is announced; all if empty
	lastFrame    int64
	kept         int   // frames in the store
	keptBefore   int   // when Do began
	trimmed      int64 // the last frame that was forgotten
	afterwards   []func()
	profileDirty bool
	retired      bool
	turn         int64
}

var errRetired = errors.New("the creator was forgotten meanwhile")

func (c *Creator) do(f func() error) error {
	c.mu.Lock()
	held := true
	c.keptBefore = c.kept
	defer func() {
		if held { // refused, or a panic that somebody above survives: this creator must survive it too
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
	if now := c.Now(); c.w.Tick != nil && now.UnixMilli() >= c.tickAt.Load() {
		c.tickAt.Store(c.w.Tick(c).UnixMilli())
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
	// Handed over under the lock, so that frames go out in the order of their ids.
	c.w.Store.Commit(changes, func(err error) {
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

// undo forgets what a failed change did in memory; the tables are made again when asked for.
func (c *Creator) undo() {
	if len(c.changes) == 0 && !c.profileDirty {
		c.frames, c.afterwards = nil, nil
		return
	}
	c.drop()
	// What was done before may still be on its way to the store.
	err := c.w.commit(nil)
	if err == nil {
		c.Profile, err = c.w.profile(c.Profile.ID)
	}
	if err != nil {
		panic(fmt.Errorf("a creator cannot be read back: %w", err))
	}
}

// drop forgets what was changed and not committed.
func (c *Creator) drop() {
	c.changes, c.frames, c.afterwards, c.profileDirty = nil, nil, nil, false
	c.kept, c.tables = c.keptBefore, tables{}
}

// tablesLife is how long tables are kept in memory. They are made again from the seed and the store, a row at a time where that will
// do, so that ten thousand creators who are listened to do not fill the memory with all they ever touched.
const tablesLife = 30 * time.Second

// refresh lets go of tables that were made long ago. What was done before must have reached the store.
func (c *Creator) refresh() error {
	now := c.w.Deps.Now()
	if now.Sub(c.opened) < tablesLife {
		return nil
	}
	c.opened, c.tables = now, tables{}
	return c.w.commit(nil)
}

// Now is the platform's time.
func (c *Creator) Now() time.Time { return c.w.Now() }

// Origin is where the platform is reached.
func (c *Creator) Origin() string { return c.w.Origin }

// SaveProfile notes that the profile was changed.
func (c *Creator) SaveProfile() { c.profileDirty = true }

func (c *Creator) profileChange() store.Change {
	value, err := json.Marshal(&c.Profile)
	if err != nil {
		panic(fmt.Errorf("the profile of creator %d cannot be written: %w", c.Profile.ID, err))
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

// Later runs something after the commit, outside the lock.
func (c *Creator) Later(f func()) { c.afterwards = append(c.afterwards, f) }

// SaveBlob keeps the bytes of an uploaded medium.
func (c *Creator) SaveBlob(id int64, part int, data []byte) {
	c.changes = append(c.changes, store.Change{Key: binary.BigEndian.AppendUint32(blobKey(c.Profile.ID, id), uint32(part)), Value: data})
}

// Blob reads the bytes of an uploaded medium, all parts together.
func (c *Creator) Blob(id int64) ([]byte, error) {
	var all []byte
	err := c.w.Store.Each(blobKey(c.Profile.ID, id), func(_, value []byte) error {
		all = append(all, value...)
		return nil
	})
	return all, err
}

// retire makes a creator that is about to be forgotten useless, and closes its sockets.
func (c *Creator) retire() {
	c.mu.Lock()
	c.retired = true
	c.mu.Unlock()
	c.hub.dropAll(ReasonReset)
}

func blobKey(creator, id int64) []byte {
	return binary.BigEndian.AppendUint64(own(creator, ownBlob), uint64(id))
}

// Turn is the next number below n, going round; it is not kept over a restart.
func (c *Creator) Turn(n int) int {
	c.turn++
	return int(c.turn % int64(n))
}
