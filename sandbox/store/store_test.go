package store_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
	"github.com/stagedoor/stagedoor/sandbox/store"
)

func open(t *testing.T, path string) *store.Store {
	t.Helper()
	s, err := store.Open(path)
	sandboxtest.OK(t, err)
	return s
}

func put(t *testing.T, s *store.Store, changes ...store.Change) {
	t.Helper()
	done := make(chan error, 1)
	s.Commit(changes, func(err error) { done <- err })
	sandboxtest.OK(t, <-done)
}

func TestWhatWasCommittedIsThereAfterReopening(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.db")
	s := open(t, path)
	put(t, s, store.Change{Key: []byte("a1"), Value: []byte("x")}, store.Change{Key: []byte("a2"), Value: []byte("y")}, store.Change{Key: []byte("b"), Value: []byte("z")})
	put(t, s, store.Change{Key: []byte("a1")})
	sandboxtest.OK(t, s.Close())
	s = open(t, path)
	defer s.Close()
	var keys []string
	sandboxtest.OK(t, s.Each([]byte("a"), func(k, _ []byte) error { keys = append(keys, string(k)); return nil }))
	if fmt.Sprint(keys) != "[a2]" {
		t.Fatalf("keys %v", keys)
	}
	sandboxtest.OK(t, s.Wipe())
	if value, err := s.Get([]byte("b")); err != nil || value != nil {
		t.Fatalf("after a wipe: %s, %v", value, err)
	}
}

func TestACommitAfterTheEndIsAnError(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "s.db"))
	sandboxtest.OK(t, s.Close())
	done := make(chan error, 1)
	s.Commit(nil, func(err error) { done <- err })
	if err := <-done; !errors.Is(err, store.ErrClosed) {
		t.Fatal(err)
	}
}

func TestASecondProcessIsToldWhatToDo(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.db")
	s := open(t, path)
	defer s.Close()
	if _, err := store.Open(path); err == nil {
		t.Fatal("the file was opened twice")
	}
}

func TestCommitsOfManyAreAllDoneInOrder(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "s.db"))
	defer s.Close()
	var all sync.WaitGroup
	for writer := range 8 {
		all.Go(func() {
			var order []int
			done := make(chan int, 200)
			for i := range 200 {
				s.Commit([]store.Change{{Key: fmt.Appendf(nil, "%d/%d", writer, i), Value: []byte("v")}}, func(error) { done <- i })
			}
			for range 200 {
				order = append(order, <-done)
			}
			for i, n := range order {
				if i != n {
					t.Errorf("writer %d: commit %d was done in position %d", writer, n, i)
					return
				}
			}
		})
	}
	all.Wait()
	n := 0
	if err := s.Each(nil, func(_, _ []byte) error { n++; return nil }); err != nil || n != 1600 {
		t.Fatalf("%d keys, %v", n, err)
	}
}
