package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// kinds are what happens on the platform: mostly messages. Each but typing is one durable frame or more.
var kinds = []string{"chat.message", "chat.message", "chat.message", "chat.typing", "chat.message", "chat.message", "post.liked", "chat.message", "fan.tip", "chat.message"}

// workers make things happen, each to accounts of its own.
const workers = 4

// load makes things happen to all accounts at a rate until the context ends and at least so many have happened.
func (s *stage) load(ctx context.Context, atLeast int) *sync.WaitGroup {
	s.written.Store(0)
	done := &sync.WaitGroup{}
	for n := range workers {
		var own []*creator
		for i := n; i < len(s.creators); i += workers {
			own = append(own, s.creators[i])
		}
		if len(own) > 0 {
			done.Go(func() { s.work(ctx, own, atLeast) })
		}
	}
	return done
}

// most is how much happens to one creator at once.
const most = 8

func (s *stage) work(ctx context.Context, own []*creator, atLeast int) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	rate := float64(s.scale.perSecond) * float64(len(own)) / float64(len(s.creators))
	began, made := time.Now(), 0
	for s.t.Context().Err() == nil && (ctx.Err() == nil || s.written.Load() < int64(atLeast)) {
		<-tick.C
		for want := int(rate * time.Since(began).Seconds()); made < want; {
			n := min(want-made, 1+rand.IntN(most))
			if err := s.burst(own[rand.IntN(len(own))], n); err != nil {
				s.t.Error(err)
				return
			}
			made += n
		}
	}
}

// burst makes several things happen to a creator together.
func (s *stage) burst(c *creator, n int) error {
	return s.platform.World.Do(c.login, func(w *world.Creator) error {
		for range n {
			number := s.written.Add(1)
			in := fanaction.Input{Text: fmt.Sprintf("%s%s number %d of %s", canaryMark, c.org.canary, number, c.login)}
			if err := s.happens[kinds[rand.IntN(len(kinds))]](w, in); err != nil {
				return err
			}
		}
		return nil
	})
}
