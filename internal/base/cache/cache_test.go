package cache_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/cache"
)

func TestAValueIsKeptUntilItIsDropped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]cache.Cache[string, int]{
		"New":      cache.New[string, int](10),
		"NewFor":   cache.NewFor[string, int](10, time.Hour),
		"NewUsed":  cache.NewUsed[string, int](10, time.Hour),
		"NewBytes": cache.NewBytes(1000, 0, func(string, int) uint32 { return 8 }),
	} {
		if _, found := c.Get("a"); found {
			t.Errorf("%s: found before it was put", name)
		}
		c.Put("a", 1)
		c.Put("a", 2)
		if v, found := c.Get("a"); !found || v != 2 {
			t.Errorf("%s: Get = %d, %t; want 2, true", name, v, found)
		}
		c.Drop("a")
		if _, found := c.Get("a"); found {
			t.Errorf("%s: found after it was dropped", name)
		}
	}
}

func TestChangeAppliesTheOutcome(t *testing.T) {
	t.Parallel()
	c := cache.New[string, int](10)
	for _, one := range []struct {
		outcome cache.Outcome
		old     int
		found   bool
		stored  bool
		value   int
	}{
		{cache.Keep, 0, false, false, 0},
		{cache.Replace, 0, false, true, 7},
		{cache.Keep, 7, true, true, 7},
		{cache.Forget, 7, true, false, 0},
	} {
		c.Change("a", func(old int, found bool) (int, cache.Outcome) {
			if old != one.old || found != one.found {
				t.Errorf("%v: decide got %d, %t", one, old, found)
			}
			return 7, one.outcome
		})
		if v, found := c.Get("a"); found != one.stored || v != one.value {
			t.Errorf("%v: Get = %d, %t", one, v, found)
		}
	}
}

func TestConcurrentLoadsShareOneRead(t *testing.T) {
	t.Parallel()
	c := cache.New[string, int](10)
	fault := errors.New("unavailable")
	if _, err := c.Load(t.Context(), "a", func(context.Context, string) (int, error) { return 0, fault }); !errors.Is(err, fault) {
		t.Fatal(err)
	}
	var reads atomic.Int32
	release := make(chan struct{})
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			v, err := c.Load(t.Context(), "a", func(context.Context, string) (int, error) {
				reads.Add(1)
				<-release
				return 5, nil
			})
			if v != 5 || err != nil {
				t.Error(v, err)
			}
		})
	}
	close(release)
	all.Wait()
	if n := reads.Load(); n != 1 {
		t.Errorf("read %d times", n)
	}
	if v := c.GetOrMake("a", func() int { return 6 }); v != 5 {
		t.Errorf("GetOrMake = %d, want the stored 5", v)
	}
	if v := c.GetOrMake("b", func() int { return 6 }); v != 6 {
		t.Errorf("GetOrMake = %d, want 6", v)
	}
}

// Values that do not fit are evicted.
func TestTheSizeIsBounded(t *testing.T) {
	t.Parallel()
	c := cache.NewBytes(100, 0, func(int, []byte) uint32 { return 10 })
	for i := range 10_000 {
		c.Put(i, nil)
	}
	held := 0
	for range 100 { // eviction runs in the background
		held = 0
		for i := range 10_000 {
			if _, found := c.Get(i); found {
				held++
			}
		}
		if held <= 10 {
			return
		}
	}
	t.Errorf("%d values are in the cache, where 10 fit", held)
}
