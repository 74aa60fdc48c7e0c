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

// actionNames are the actions of fans, mostly messages. Each but typing produces one durable frame or more.
var actionNames = []string{"chat.message", "chat.message", "chat.message", "chat.typing", "chat.message", "chat.message", "post.liked", "chat.message", "fan.tip", "chat.message"}

// generators is the number of goroutines that perform actions, each on its own accounts.
const generators = 4

// generate performs actions on all accounts at a rate, until the context has ended and there were at least atLeast.
func (s *eventsFixture) generate(ctx context.Context, atLeast int) *sync.WaitGroup {
	s.written.Store(0)
	done := &sync.WaitGroup{}
	for n := range generators {
		var own []*creator
		for i := n; i < len(s.creators); i += generators {
			own = append(own, s.creators[i])
		}
		if len(own) > 0 {
			done.Go(func() { s.generateFor(ctx, own, atLeast) })
		}
	}
	return done
}

// maxBurst is the highest number of actions in a burst.
const maxBurst = 8

func (s *eventsFixture) generateFor(ctx context.Context, own []*creator, atLeast int) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	rate := float64(s.scale.perSecond) * float64(len(own)) / float64(len(s.creators))
	began, made := time.Now(), 0
	for s.t.Context().Err() == nil && (ctx.Err() == nil || s.written.Load() < int64(atLeast)) {
		<-tick.C
		for want := int(rate * time.Since(began).Seconds()); made < want; {
			n := min(want-made, 1+rand.IntN(maxBurst))
			if err := s.burst(own[rand.IntN(len(own))], n); err != nil {
				s.t.Error(err)
				return
			}
			made += n
		}
	}
}

// burst performs several actions on one creator together.
func (s *eventsFixture) burst(c *creator, n int) error {
	return s.platform.World.Do(c.login, func(w *world.Creator) error {
		for range n {
			number := s.written.Add(1)
			in := fanaction.Input{Text: fmt.Sprintf("%s%s number %d of %s", canaryMark, c.org.canary, number, c.login)}
			if err := s.actions[actionNames[rand.IntN(len(actionNames))]](w, in); err != nil {
				return err
			}
		}
		return nil
	})
}
