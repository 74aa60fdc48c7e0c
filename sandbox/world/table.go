package world

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/store"
)

// gone is stored in place of a row that was deleted, so that the seed does not bring it back.
var gone = []byte("-")

// keyed is a pointer to a row.
type keyed[T any] interface {
	*T
	Key() int64
}

// Table holds the rows of one kind of one creator (and of one parent, for messages and comments), by id. It is read and written
// inside Do only.
type Table[T any, P keyed[T]] struct {
	c      *Creator
	kind   row.Kind
	parent int64
	rows   []P
}

// open makes a table from its seed and from what the store has.
func open[T any, P keyed[T]](c *Creator, kind row.Kind, parent int64, seeded []P) *Table[T, P] {
	t := &Table[T, P]{c: c, kind: kind, parent: parent, rows: seeded}
	prefix := rowKey(c.Profile.ID, kind, parent)
	err := c.w.Store.Each(prefix, func(key, value []byte) error {
		id := int64(binary.BigEndian.Uint64(key[len(prefix):]))
		at, found := t.find(id)
		switch {
		case bytes.Equal(value, gone):
			if found {
				t.rows = slices.Delete(t.rows, at, at+1)
			}
			return nil
		case !found:
			t.rows = slices.Insert(t.rows, at, P(new(T)))
		default:
			t.rows[at] = P(new(T))
		}
		return json.Unmarshal(value, t.rows[at])
	})
	if err != nil {
		// The file is ours and was written by this code: going on would show a creator without a part of its life.
		panic(fmt.Errorf("read table %d of creator %d: %w", kind, c.Profile.ID, err))
	}
	return t
}

func (t *Table[T, P]) find(id int64) (int, bool) {
	return slices.BinarySearchFunc(t.rows, id, func(r P, id int64) int { return cmp.Compare(r.Key(), id) })
}

// Get finds a row; nil if there is none.
func (t *Table[T, P]) Get(id int64) P {
	if at, found := t.find(id); found {
		return t.rows[at]
	}
	return nil
}

// All are the rows, oldest id first. The slice must not be changed.
func (t *Table[T, P]) All() []P { return t.rows }

// Len counts them.
func (t *Table[T, P]) Len() int { return len(t.rows) }

// NextID is an id for a new row.
func (t *Table[T, P]) NextID() int64 { return t.c.nextID(t.kind) }

// Put inserts a row, or notes that it was changed.
func (t *Table[T, P]) Put(r P) {
	if at, found := t.find(r.Key()); found {
		t.rows[at] = r
	} else {
		t.rows = slices.Insert(t.rows, at, r)
	}
	value, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Errorf("a row of kind %d cannot be written: %w", t.kind, err))
	}
	t.c.changes = append(t.c.changes, store.Change{Key: t.key(r.Key()), Value: value})
}

// Delete removes a row and says whether it was there.
func (t *Table[T, P]) Delete(id int64) bool {
	at, found := t.find(id)
	if !found {
		return false
	}
	t.rows = slices.Delete(t.rows, at, at+1)
	t.c.changes = append(t.c.changes, store.Change{Key: t.key(id), Value: gone})
	return true
}

func (t *Table[T, P]) key(id int64) []byte {
	return binary.BigEndian.AppendUint64(rowKey(t.c.Profile.ID, t.kind, t.parent), uint64(id))
}

// rowKey is what the keys of a table start with.
func rowKey(creator int64, kind row.Kind, parent int64) []byte {
	key := append(creatorKey(keyRow, creator), byte(kind))
	return binary.BigEndian.AppendUint64(key, uint64(parent))
}
