package world_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
	"github.com/stagedoor/stagedoor/sandbox/store"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

const ada = "ok+ada@sandbox.test"

// start opens a world with the state file path. The returned function closes it.
func start(t *testing.T, path string, change func(*world.Deps)) (*world.World, func()) {
	t.Helper()
	s, err := store.Open(path)
	sandboxtest.OK(t, err)
	d := world.Deps{Store: s, Log: slog.New(slog.DiscardHandler), Now: time.Now, Origin: "http://sandbox.test"}
	if change != nil {
		change(&d)
	}
	w, err := world.New(d)
	sandboxtest.OK(t, err)
	return w, func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func file(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "w.db")
}

func do(t *testing.T, w *world.World, login string, f func(*world.Creator)) {
	t.Helper()
	sandboxtest.OK(t, w.Do(login, func(c *world.Creator) error { f(c); return nil }))
}

// addList makes a small write.
func addList(c *world.Creator, name string) int64 {
	l := &row.List{Rec: row.Rec{ID: c.Lists().NextID()}, Name: name}
	c.Lists().Put(l)
	c.Emit("list.changed", map[string]string{"name": name})
	return l.ID
}

func lists(c *world.Creator) (names []string) {
	for _, l := range c.Lists().All() {
		names = append(names, l.Name)
	}
	return names
}

func TestTheSeedIsTheSameForALoginAndAnotherForTheNext(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return time.Date(2026, 11, 15, 9, 0, 0, 0, time.UTC) }
	past := func(login string) string {
		w, stop := start(t, file(t), func(d *world.Deps) { d.Now = now })
		defer stop()
		var text []byte
		err := w.Do(login, func(c *world.Creator) (err error) {
			text, err = json.Marshal([]any{c.Profile, c.People().All(), c.Txs().All(), c.Chats().All(), c.Messages(c.Chats().All()[0].ID).All()})
			return err
		})
		sandboxtest.OK(t, err)
		return string(text)
	}
	if first, second := past(ada), past(ada); first != second {
		t.Error("the same login has two different seeds")
	}
	if past(ada) == past("ok+bob@sandbox.test") {
		t.Error("two logins have the same seed")
	}
}

func TestWritesSurviveARestartAndAResetForgetsThem(t *testing.T) {
	t.Parallel()
	path := file(t)
	w, stop := start(t, path, nil)
	var id int64
	var seeded int
	do(t, w, ada, func(c *world.Creator) {
		seeded = c.Lists().Len()
		id = addList(c, "Kept")
		c.Lists().Delete(c.Lists().All()[0].ID)
		c.Profile.Bio = "changed"
		c.SaveProfile()
	})
	stop()
	w, stop = start(t, path, nil)
	defer stop()
	do(t, w, ada, func(c *world.Creator) {
		if l := c.Lists().Get(id); l == nil || l.Name != "Kept" || c.Lists().Len() != seeded || c.Profile.Bio != "changed" {
			t.Errorf("after a restart: %v, bio %q", lists(c), c.Profile.Bio)
		}
		if next := addList(c, "Next"); next <= id {
			t.Errorf("id %d follows %d", next, id)
		}
	})
	sandboxtest.OK(t, w.Reset())
	do(t, w, ada, func(c *world.Creator) {
		if c.Lists().Get(id) != nil || c.Lists().Len() != seeded || c.Profile.Bio == "changed" {
			t.Errorf("after a reset: %v", lists(c))
		}
	})
}

func TestAFailedChangeLeavesNoTrace(t *testing.T) {
	t.Parallel()
	w, stop := start(t, file(t), nil)
	defer stop()
	l, err := w.Listen(ada, "device")
	sandboxtest.OK(t, err)
	defer l.Close()
	no := errors.New("no")
	err = w.Do(ada, func(c *world.Creator) error {
		addList(c, "Never")
		c.Profile.Name = "Never"
		c.SaveProfile()
		c.Lists().All()[0].Name = "Never"
		return no
	})
	if !errors.Is(err, no) {
		t.Fatal(err)
	}
	do(t, w, ada, func(c *world.Creator) {
		for _, name := range append(lists(c), c.Profile.Name) {
			if name == "Never" {
				t.Error("a failed change is visible")
			}
		}
	})
	if frames := l.Take(); len(frames) != 0 {
		t.Errorf("a failed change sent %d frames", len(frames))
	}
}

func TestAPanicLeavesTheCreatorAsItWas(t *testing.T) {
	t.Parallel()
	w, stop := start(t, file(t), nil)
	defer stop()
	func() {
		defer func() { _ = recover() }()
		_ = w.Do(ada, func(c *world.Creator) error {
			addList(c, "Never")
			panic("a bug")
		})
	}()
	do(t, w, ada, func(c *world.Creator) {
		if slices.Contains(lists(c), "Never") {
			t.Error("the change of a call that panicked is visible")
		}
	})
	sandboxtest.OK(t, w.Reset())
}

func TestOldFramesAreForgottenAndNewOnesKept(t *testing.T) {
	t.Parallel()
	w, stop := start(t, file(t), nil)
	defer stop()
	for range 12 {
		do(t, w, ada, func(c *world.Creator) {
			for range 4000 {
				c.Emit("tick", map[string]int{})
			}
		})
	}
	do(t, w, ada, func(c *world.Creator) {
		n, after := 0, int64(0)
		for {
			list, more, _, err := c.Frames(after, 5000)
			sandboxtest.OK(t, err)
			n += len(list)
			if !more {
				break
			}
			var last struct{ ID int64 }
			sandboxtest.OK(t, json.Unmarshal(list[len(list)-1], &last))
			after = last.ID
		}
		if n < 20_000 || n > 26_000 {
			t.Errorf("%d frames are stored", n)
		}
		if _, _, complete, err := c.Frames(c.Profile.Born, 1); err != nil || complete {
			t.Errorf("a list with deleted frames is reported as complete: %v", err)
		}
		c.Flash("chat.typing", map[string]any{}) // not stored, and newer than all stored frames
		if list, _, complete, err := c.Frames(c.LastFrame(), 1); err != nil || !complete || len(list) != 0 {
			t.Errorf("the list after a frame that was not stored is not complete and empty: %d frames, %v", len(list), err)
		}
	})
}

func TestFramesComeInOrderAndCanBeListedAcrossARestart(t *testing.T) {
	t.Parallel()
	path := file(t)
	w, stop := start(t, path, nil)
	l, err := w.Listen(ada, "device")
	sandboxtest.OK(t, err)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 25 {
				do(t, w, ada, func(c *world.Creator) { addList(c, "L") })
			}
		})
	}
	all.Wait()
	live := l.Take()
	l.Close()
	stop()
	w, stop = start(t, path, nil)
	defer stop()
	do(t, w, ada, func(c *world.Creator) {
		listed, more, complete, err := c.Frames(0, 1000)
		if err != nil || more || !complete || len(listed) != 200 || len(live) != 200 {
			t.Fatalf("%d live, %d listed, more %v, complete %v, %v", len(live), len(listed), more, complete, err)
		}
		for i := range live {
			if string(live[i]) != string(listed[i]) {
				t.Fatalf("frame %d was %s live and %s listed", i, live[i], listed[i])
			}
		}
	})
}

func TestCreatorsAreLetGoOfAndComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	w, stop := start(t, file(t), func(d *world.Deps) { d.Loaded = 4 })
	defer stop()
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 100 {
				do(t, w, fmt.Sprintf("ok+%d@sandbox.test", (worker+i)%10), func(c *world.Creator) { addList(c, "More") })
			}
		})
	}
	all.Wait()
	total := 0
	for n := range 10 {
		do(t, w, fmt.Sprintf("ok+%d@sandbox.test", n), func(c *world.Creator) {
			for _, name := range lists(c) {
				if name == "More" {
					total++
				}
			}
		})
	}
	if total != 400 {
		t.Fatalf("%d of 400 writes survived", total)
	}
}

func TestWhatIsDueHappensWhenTheClockIsAdvancedAndAfterARestart(t *testing.T) {
	t.Parallel()
	path := file(t)
	w, stop := start(t, path, nil)
	do(t, w, ada, func(c *world.Creator) { c.At(c.Now().Add(48*time.Hour), "ring", 7) })
	stop()
	w, stop = start(t, path, nil)
	rang := make(chan int64, 10)
	done := make(chan struct{})
	ctx, cancel := contextOf(t)
	go func() {
		defer close(done)
		w.Run(ctx, map[string]world.Handler{"ring": func(_ *world.Creator, id int64) { rang <- id }})
	}()
	sandboxtest.OK(t, w.Advance(47*time.Hour))
	if len(rang) != 0 {
		t.Fatal("the timer fired early")
	}
	sandboxtest.OK(t, w.Advance(2*time.Hour))
	if id := <-rang; id != 7 {
		t.Fatalf("the timer fired with id %d", id)
	}
	cancel()
	<-done
	stop()
	w, stop = start(t, path, nil)
	defer stop()
	if ahead := time.Until(w.Now()); ahead < 48*time.Hour {
		t.Errorf("the clock is %s ahead after a restart", ahead)
	}
}

func TestANewCreatorIsCheap(t *testing.T) { //nolint:paralleltest // measures the heap
	w, stop := start(t, file(t), func(d *world.Deps) { d.Loaded = 10_000 })
	defer stop()
	before := heap()
	const n = 2000
	for i := range n {
		do(t, w, fmt.Sprintf("ok+cheap%d@sandbox.test", i), func(*world.Creator) {})
	}
	bytes := (heap() - before) / n
	runtime.KeepAlive(w)
	t.Logf("a new creator takes %d bytes", bytes)
	if bytes > 64<<10 {
		t.Errorf("a new creator takes %d bytes", bytes)
	}
}

// Two calls with the same token get the same new one. Whichever response is lost, the old token is still valid.
func TestSessionThatTwoCallersRotateChangesOnce(t *testing.T) {
	t.Parallel()
	w, stop := start(t, file(t), nil)
	defer stop()
	s, err := w.NewSession(world.Session{Login: ada, Owner: 1, Device: "d"})
	sandboxtest.OK(t, err)
	first, _ := w.RotateSession(s)
	second, ok := w.RotateSession(s)
	if !ok || first.Token == s.Token || second.Token != first.Token {
		t.Errorf("rotated from %s to %s, then to %s", s.Token, first.Token, second.Token)
	}
	if _, _, ok := w.FindSession(s.Token); !ok {
		t.Error("the first token is no longer valid")
	}
}

func TestASessionsTokenRotatesAndEnds(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	w, stop := start(t, file(t), func(d *world.Deps) {
		d.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	defer stop()
	s, err := w.NewSession(world.Session{Login: ada, Owner: 1, Device: "d"})
	sandboxtest.OK(t, err)
	ahead.Store(int64(31 * time.Minute))
	next, rotated, ok := w.FindSession(s.Token)
	if !ok || !rotated || next.Token == s.Token {
		t.Fatalf("rotated %v, ok %v", rotated, ok)
	}
	if again, rotated, ok := w.FindSession(s.Token); !ok || !rotated || again.Token != next.Token {
		t.Fatal("the old token is not valid in its grace period, or the new one is not returned")
	}
	ahead.Add(int64(2 * time.Minute))
	if _, _, ok := w.FindSession(s.Token); ok {
		t.Fatal("the old token is valid after its grace period")
	}
	if n, err := w.EndSessions(ada, func(world.Session) bool { return true }); n != 1 || err != nil {
		t.Fatalf("%d ended, %v", n, err)
	}
	if _, _, ok := w.FindSession(next.Token); ok {
		t.Fatal("an ended session is valid")
	}
}
