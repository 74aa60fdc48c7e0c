package world

import (
	"encoding/json"
	"fmt"

	"github.com/stagedoor/stagedoor/sandbox/store"
)

// keyKept is the first byte of the keys of Keep.
const keyKept byte = 'k' // + shelf, 0, name

// Keep stores a value that does not belong to a creator yet, such as a sign-in that waits for a code. A shelf is a
// namespace.
func (w *World) Keep(shelf, name string, thing any) error {
	value, err := json.Marshal(thing)
	if err != nil {
		return fmt.Errorf("write %s: %w", shelf, err)
	}
	return w.commit([]store.Change{{Key: keptKey(shelf, name), Value: value}})
}

// Recall reads a value that Keep stored and reports whether it exists.
func (w *World) Recall(shelf, name string, into any) (bool, error) {
	value, err := w.deps.Store.Get(keptKey(shelf, name))
	if err != nil || value == nil {
		return false, err
	}
	return true, json.Unmarshal(value, into)
}

// Kept calls visit with every value of a shelf.
func (w *World) Kept(shelf string, visit func(name string, value json.RawMessage) error) error {
	prefix := keptKey(shelf, "")
	return w.deps.Store.Each(prefix, func(key, value []byte) error {
		return visit(string(key[len(prefix):]), append(json.RawMessage(nil), value...))
	})
}

// Discard deletes a value that Keep stored.
func (w *World) Discard(shelf, name string) error {
	return w.commit([]store.Change{{Key: keptKey(shelf, name)}})
}

func keptKey(shelf, name string) []byte {
	key := append([]byte{keyKept}, shelf...)
	return append(append(key, 0), name...)
}
