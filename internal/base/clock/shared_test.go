package clock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// server is a database whose clock is ahead of this machine's, and which takes a while to answer.
type server struct {
	ahead, request, response time.Duration
	err                      error
}

func (s *server) now() time.Time { return time.Now().Add(s.ahead) }

func (s *server) read(context.Context) (time.Time, error) {
	time.Sleep(s.request)
	now := s.now()
	time.Sleep(s.response)
	return now, s.err
}

// The clock follows the database's, however wrong this machine's is. It lags by at most the duration of a reading and
// never runs ahead.
func TestSharedFollowsTheDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock.Shared
		if got := c.Now(); !got.Equal(time.Now()) || c.Ahead() != 0 {
			t.Errorf("before the first reading: %v, want this machine's time", got)
		}
		for _, ahead := range []time.Duration{0, 34 * 24 * time.Hour, -time.Hour, -time.Hour + 50*time.Millisecond, -time.Hour - 50*time.Millisecond} {
			db := &server{ahead: ahead, request: 10 * time.Millisecond, response: 5 * time.Millisecond}
			must.OK(t, c.Read(t.Context(), db.read))
			for range 3 {
				if lag := db.now().Sub(c.Now()); lag < 0 || lag > 15*time.Millisecond {
					t.Errorf("a database %v ahead: the clock lags by %v", ahead, lag)
				}
				if wrong := c.Ahead() + ahead; wrong < 0 || wrong > 15*time.Millisecond {
					t.Errorf("a database %v ahead: this machine is %v ahead", ahead, c.Ahead())
				}
				time.Sleep(time.Hour)
			}
		}
	})
}

// A reading that took long, or that confirms the clock, does not move it. A failed one is reported and changes nothing.
func TestSharedDoesNotWaver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock.Shared
		db := &server{ahead: time.Minute, response: time.Millisecond}
		must.OK(t, c.Read(t.Context(), db.read))
		want := db.now().Sub(c.Now())
		for _, slow := range []*server{{ahead: time.Minute, request: time.Second}, {ahead: time.Minute, response: time.Second}, {ahead: time.Hour, err: errors.New("gone")}} {
			if err := c.Read(t.Context(), slow.read); !errors.Is(err, slow.err) {
				t.Error(err)
			}
			if got := db.now().Sub(c.Now()); got != want {
				t.Errorf("%+v moved the clock: it lagged by %v and now lags by %v", slow, want, got)
			}
		}
	})
}

// Follow goes on after errors, until its context ends.
func TestSharedFollowsUntilTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock.Shared
		db := &server{ahead: time.Hour, err: errors.New("gone")}
		failures := 0
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		c.Follow(ctx, 3*time.Second, db.read, func(error) {
			if failures++; failures == 2 {
				db.err = nil
			}
		})
		if failures != 2 || db.now().Sub(c.Now()) != 0 {
			t.Errorf("%d failures, a lag of %v", failures, db.now().Sub(c.Now()))
		}
	})
}
