// Package cache keeps values in memory, bounded by their number or size, and optionally by age.
//
// It wraps otter in an interface. Otter's types are generic, and Go compiles all methods of a generic type again in
// every package that can see it, even inside another type. With otter's own types in our structs, that was most of
// the build time. With the interface, only the package that creates a cache compiles it.
package cache

import (
	"context"
	"time"

	"github.com/maypok86/otter/v2"
)

// Cache maps keys to values. Create it with New, NewFor, NewUsed or NewBytes; the zero value is not usable.
// It is safe for concurrent use, and copies share their values.
type Cache[K comparable, V any] struct{ store store[K, V] }

// store is the part of otter.Cache that this package uses.
type store[K comparable, V any] interface {
	GetIfPresent(key K) (V, bool)
	Get(ctx context.Context, key K, loader otter.Loader[K, V]) (V, error)
	Set(key K, value V) (V, bool)
	Compute(key K, change func(old V, found bool) (V, otter.ComputeOp)) (V, bool)
	ComputeIfAbsent(key K, make func() (V, bool)) (V, bool)
	Invalidate(key K) (V, bool)
}

// New makes a cache of at most size values. It evicts values only when it is full.
func New[K comparable, V any](size int) Cache[K, V] {
	return newCache(&otter.Options[K, V]{MaximumSize: size})
}

// NewFor makes a cache of at most size values that drops a value when age has passed since it was written.
func NewFor[K comparable, V any](size int, age time.Duration) Cache[K, V] {
	return newCache(&otter.Options[K, V]{MaximumSize: size, ExpiryCalculator: otter.ExpiryWriting[K, V](age)})
}

// NewUsed makes a cache of at most size values that drops a value when it was not read or written for idle.
func NewUsed[K comparable, V any](size int, idle time.Duration) Cache[K, V] {
	return newCache(&otter.Options[K, V]{MaximumSize: size, ExpiryCalculator: otter.ExpiryAccessing[K, V](idle)})
}

// NewBytes makes a cache whose values weigh at most bytes in total, as weigh counts them. It drops a value when age has
// passed since it was written; with an age of 0, values do not expire.
func NewBytes[K comparable, V any](bytes uint64, age time.Duration, weigh func(K, V) uint32) Cache[K, V] {
	o := &otter.Options[K, V]{MaximumWeight: bytes, Weigher: weigh}
	if age > 0 {
		o.ExpiryCalculator = otter.ExpiryWriting[K, V](age)
	}
	return newCache(o)
}

func newCache[K comparable, V any](o *otter.Options[K, V]) Cache[K, V] {
	return Cache[K, V]{otter.Must(o)}
}

// Get returns the value of a key, and whether there is one. It never loads.
func (c Cache[K, V]) Get(key K) (V, bool) { return c.store.GetIfPresent(key) }

// Load returns the value of a key and calls read if there is none. Concurrent callers for the same key wait for a
// single read and get its result. An error is returned to all of them and is not cached.
func (c Cache[K, V]) Load(ctx context.Context, key K, read func(context.Context, K) (V, error)) (V, error) {
	return c.store.Get(ctx, key, otter.LoaderFunc[K, V](read))
}

// GetOrMake returns the value of a key and stores the result of value if there is none. Concurrent callers for the same
// key get the same value.
func (c Cache[K, V]) GetOrMake(key K, value func() V) V {
	v, _ := c.store.ComputeIfAbsent(key, func() (V, bool) { return value(), false })
	return v
}

// Put stores a value, replacing any previous one.
func (c Cache[K, V]) Put(key K, value V) { c.store.Set(key, value) }

func (c Cache[K, V]) Drop(key K) { c.store.Invalidate(key) }

// Outcome is the decision of a function passed to Change.
type Outcome = otter.ComputeOp

// Keep leaves the entry, or its absence, as it is and ignores the returned value. Replace stores the returned value.
// Forget removes the entry.
const (
	Keep    = otter.CancelOp
	Replace = otter.WriteOp
	Forget  = otter.InvalidateOp
)

// Change calls decide with the current value and applies its outcome. The two are one atomic step for the key: other
// changes of the key wait, so decide must be short and must not use the cache.
func (c Cache[K, V]) Change(key K, decide func(old V, found bool) (V, Outcome)) {
	c.store.Compute(key, decide)
}
