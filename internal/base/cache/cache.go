// Package cache holds values in memory, so many or so much of them, and for a time.
//
// It is otter, behind an interface. Otter's types are generic, and Go compiles all methods of such a type again in every package that can
// see it, even deep inside of another type: with otter's own types in our structs that was most of what a build did. This way only the
// package that makes a cache compiles it.
package cache

import (
	"context"
	"time"

	"github.com/maypok86/otter/v2"
)

// Cache holds values by keys. It is made by one of the functions below, and may be used by many at once.
type Cache[K comparable, V any] struct{ held held[K, V] }

// held is what is used of otter.
type held[K comparable, V any] interface {
	GetIfPresent(key K) (V, bool)
	Get(ctx context.Context, key K, loader otter.Loader[K, V]) (V, error)
	Set(key K, value V) (V, bool)
	Compute(key K, change func(old V, found bool) (V, otter.ComputeOp)) (V, bool)
	ComputeIfAbsent(key K, make func() (V, bool)) (V, bool)
	Invalidate(key K) (V, bool)
}

// New makes a cache of so many values, for as long as there is room.
func New[K comparable, V any](size int) Cache[K, V] {
	return of(&otter.Options[K, V]{MaximumSize: size})
}

// NewFor makes a cache that forgets a value so long after it was written.
func NewFor[K comparable, V any](size int, age time.Duration) Cache[K, V] {
	return of(&otter.Options[K, V]{MaximumSize: size, ExpiryCalculator: otter.ExpiryWriting[K, V](age)})
}

// NewUsed makes a cache that forgets a value which nobody has asked for so long.
func NewUsed[K comparable, V any](size int, idle time.Duration) Cache[K, V] {
	return of(&otter.Options[K, V]{MaximumSize: size, ExpiryCalculator: otter.ExpiryAccessing[K, V](idle)})
}

// NewBytes makes a cache of so many bytes, which forgets a value so long after it was written; never with an age of 0.
func NewBytes[K comparable, V any](bytes uint64, age time.Duration, weigh func(K, V) uint32) Cache[K, V] {
	o := &otter.Options[K, V]{MaximumWeight: bytes, Weigher: weigh}
	if age > 0 {
		o.ExpiryCalculator = otter.ExpiryWriting[K, V](age)
	}
	return of(o)
}

func of[K comparable, V any](o *otter.Options[K, V]) Cache[K, V] { return Cache[K, V]{otter.Must(o)} }

// Get finds a value.
func (c Cache[K, V]) Get(key K) (V, bool) { return c.held.GetIfPresent(key) }

// Load finds a value, or reads it, once for all who wait for it. One that failed is not held.
func (c Cache[K, V]) Load(ctx context.Context, key K, read func(context.Context, K) (V, error)) (V, error) {
	return c.held.Get(ctx, key, otter.LoaderFunc[K, V](read))
}

// GetOrMake finds a value, or makes it; where two make one at once, both have the same.
func (c Cache[K, V]) GetOrMake(key K, value func() V) V {
	v, _ := c.held.ComputeIfAbsent(key, func() (V, bool) { return value(), false })
	return v
}

// Put holds a value.
func (c Cache[K, V]) Put(key K, value V) { c.held.Set(key, value) }

// Drop forgets a value.
func (c Cache[K, V]) Drop(key K) { c.held.Invalidate(key) }

// Outcome is what becomes of a value.
type Outcome = otter.ComputeOp

// The outcomes of a change.
const (
	Keep    = otter.CancelOp
	Replace = otter.WriteOp
	Forget  = otter.InvalidateOp
)

// Change decides about a value, while nobody else changes it.
func (c Cache[K, V]) Change(key K, decide func(old V, found bool) (V, Outcome)) {
	c.held.Compute(key, decide)
}
