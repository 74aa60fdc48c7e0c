package lock_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stagedoor/stagedoor/internal/command/cli/lock"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

func TestFileIsLockedUntilItIsClosed(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		must.OK(t, err)
		return file
	}
	first, second := open(), open()
	defer second.Close()
	must.OK(t, lock.File(first))
	if err := lock.File(second); !errors.Is(err, lock.ErrTaken) {
		t.Errorf("locked twice: %v", err)
	}
	must.OK(t, first.Close())
	if err := lock.File(second); err != nil {
		t.Errorf("still locked after it was closed: %v", err)
	}
}

func TestPathStaysLockedAfterGarbageCollection(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	must.OK(t, lock.Path(name))
	runtime.GC()
	runtime.GC()
	if err := lock.Path(name); !errors.Is(err, lock.ErrTaken) {
		t.Errorf("locked twice: %v", err)
	}
	if err := lock.Path(filepath.Join(name, "below")); err == nil || errors.Is(err, lock.ErrTaken) {
		t.Errorf("a path that cannot be opened: %v", err)
	}
}
