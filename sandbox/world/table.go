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

// gone is stored in place of a deleted row, so that it is not loaded from the seed again.
var gone = []byte("-")

// keyed is a pointer to a row.
type keyed[T any] interface {
	*T
	Key() int64
}

// Table holds the rows of one kind of one creator (and of one parent, for messages and comments), by id. It may be used
// only inside Do.
//
// All loads the whole table from the seed and the store. Until then, Get loads single rows, so that a message loads one
// chat and one person instead of two thousand.
type Table[T any, P keyed[T]] struct {
	c *Creator
	tableKey
	// all generates the seeded rows, or below those of the parent. one generates the seeded row with an id, or returns
	// nil; it may be nil.
	all   func(row.Origin) []P
	below func(o row.Origin, parent int64) []P
	one   func(o row.Origin, id int64) P

	full bool
	rows []P         // if full
	near map[int64]P // rows read or changed before that; nil for a deleted row
}

// load loads the whole table.
func (t *Table[T, P]) load() {
	if t.full {
		return
	}
	if t.full = true; t.below != nil {
		t.rows = t.below(t.c.Profile.Origin, t.parent)
	} else {
		t.rows = t.all(t.c.Profile.Origin)
	}
	prefix := rowKey(t.c.Profile.ID, t.kind, t.parent)
	err := t.c.w.deps.Store.Each(prefix, func(key, value []byte) error {
		r, err := decode[T, P](value)
		t.place(int64(binary.BigEndian.Uint64(key[len(prefix):])), r)
		return err
	})
	if err != nil {
		t.broken(err)
	}
	for id, r := range t.near {
		t.place(id, r)
	}
	t.near = nil
}

// decode decodes a stored row, or returns nil for a deleted one.
func decode[T any, P keyed[T]](value []byte) (P, error) {
	if bytes.Equal(value, gone) {
		return nil, nil
	}
	r := P(new(T))
	return r, json.Unmarshal(value, r)
}

// broken panics. This code wrote the file, so an unreadable row is a bug, and continuing would lose data of the
// creator.
func (t *Table[T, P]) broken(err error) {
	panic(fmt.Errorf("read table %d of creator %d: %w", t.kind, t.c.Profile.ID, err))
}

// place inserts or replaces a row of the full table. A nil row deletes it.
func (t *Table[T, P]) place(id int64, r P) {
	at, found := t.find(id)
	switch {
	case r == nil && found:
		t.rows = slices.Delete(t.rows, at, at+1)
	case r == nil:
	case found:
		t.rows[at] = r
	default:
		t.rows = slices.Insert(t.rows, at, r)
	}
}

func (t *Table[T, P]) find(id int64) (int, bool) {
	return slices.BinarySearchFunc(t.rows, id, func(r P, id int64) int { return cmp.Compare(r.Key(), id) })
}

// Get returns a row, or nil.
func (t *Table[T, P]) Get(id int64) P {
	if !t.full && t.one != nil {
		return t.single(id)
	}
	t.load()
	if at, found := t.find(id); found {
		return t.rows[at]
	}
	return nil
}

// single loads one row and caches it.
func (t *Table[T, P]) single(id int64) P {
	if r, known := t.near[id]; known {
		return r
	}
	value, err := t.c.w.deps.Store.Get(t.key(id))
	if err != nil {
		t.broken(err)
	}
	var r P
	if value == nil {
		r = t.one(t.c.Profile.Origin, id)
	} else if r, err = decode[T, P](value); err != nil {
		t.broken(err)
	}
	if r != nil {
		t.keep(id, r)
	}
	return r
}

func (t *Table[T, P]) keep(id int64, r P) {
	if t.near == nil {
		t.near = map[int64]P{}
	}
	t.near[id] = r
}

// All returns all rows, sorted by id. The caller must not modify the slice.
func (t *Table[T, P]) All() []P {
	t.load()
	return t.rows
}

// Len returns the number of rows.
func (t *Table[T, P]) Len() int { return len(t.All()) }

// NextID returns an id for a new row.
func (t *Table[T, P]) NextID() int64 { return t.c.nextID(t.kind) }

// Put inserts a row, or marks it as changed.
func (t *Table[T, P]) Put(r P) {
	if t.full {
		t.place(r.Key(), r)
	} else {
		t.keep(r.Key(), r)
	}
	value, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Errorf("encode a row of kind %d: %w", t.kind, err))
	}
	t.c.changes = append(t.c.changes, store.Change{Key: t.key(r.Key()), Value: value})
}

// Delete deletes a row and reports whether it existed.
func (t *Table[T, P]) Delete(id int64) bool {
	if t.Get(id) == nil {
		return false
	}
	if t.full {
		t.place(id, nil)
	} else {
		t.keep(id, nil)
	}
	t.c.changes = append(t.c.changes, store.Change{Key: t.key(id), Value: gone})
	return true
}

func (t *Table[T, P]) key(id int64) []byte {
	return binary.BigEndian.AppendUint64(rowKey(t.c.Profile.ID, t.kind, t.parent), uint64(id))
}

// rowKey returns the key prefix of a table.
func rowKey(creator int64, kind row.Kind, parent int64) []byte {
	key := append(own(creator, ownRow), byte(kind))
	return binary.BigEndian.AppendUint64(key, uint64(parent))
}
