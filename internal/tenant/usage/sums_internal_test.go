package usage

import (
	"cmp"
	"context"
	"errors"
	"testing"

	"github.com/stagedoor/stagedoor/internal/tenant/usage/internal/db"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

func TestFailedFlushKeepsItsSumsWithinTheBound(t *testing.T) {
	t.Parallel()
	var written int64
	s := sums[int, int64]{
		compare: cmp.Compare[int],
		plus:    func(sum, more *int64) { *sum += *more },
	}
	add := func(n *int64) { *n++ }
	s.write = func(context.Context, db.DBTX, []int, map[int]*int64) error {
		s.update(-1, add) // a call that is counted while the flush runs
		return errors.New("the database is away")
	}
	for key := range maxSums {
		s.update(key, add)
	}
	if s.flush(t.Context(), nil) == nil {
		t.Fatal("the flush did not fail")
	}
	if len(s.values) != maxSums {
		t.Errorf("%d keys are kept, want %d", len(s.values), maxSums)
	}
	s.write = func(_ context.Context, _ db.DBTX, keys []int, values map[int]*int64) error {
		for _, key := range keys {
			written += *values[key]
		}
		return nil
	}
	must.OK(t, s.flush(t.Context(), nil))
	if written != maxSums { // the last key that did not fit is lost
		t.Errorf("%d counts are written, want %d", written, maxSums)
	}
}
