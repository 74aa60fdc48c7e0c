package usage

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/stagedoor/stagedoor/internal/tenant/usage/internal/db"
)

// sums collects counts by key in memory until a flush writes them.
type sums[K comparable, V any] struct {
	// compare is the order in which all nodes lock the rows.
	compare func(a, b K) int
	plus    func(sum, more *V)
	write   func(ctx context.Context, q db.DBTX, keys []K, values map[K]*V) error

	mu     sync.Mutex
	values map[K]*V
}

// maxSums bounds the keys of a sums while the database is away. Beyond it, only existing keys are counted.
const maxSums = 100_000

// update changes the value of a key.
func (s *sums[K, V]) update(key K, change func(*V)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[key]
	if !ok {
		if len(s.values) >= maxSums {
			return
		}
		if s.values == nil {
			s.values = map[K]*V{}
		}
		v = new(V)
		s.values[key] = v
	}
	change(v)
}

// flush writes the values. Values that cannot be written are kept for the next flush.
func (s *sums[K, V]) flush(ctx context.Context, q db.DBTX) error {
	s.mu.Lock()
	values := s.values
	s.values = nil
	s.mu.Unlock()
	if len(values) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	err := s.write(ctx, q, slices.SortedFunc(maps.Keys(values), s.compare), values)
	if err != nil {
		for key, more := range values {
			s.update(key, func(sum *V) { s.plus(sum, more) })
		}
	}
	return err
}
