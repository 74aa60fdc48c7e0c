package control

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// generated is the cycle of happenings that a generator runs: mostly messages, as on a real platform.
var generated = []string{
	"chat.message", "chat.message", "chat.message", "chat.message", "chat.typing", "chat.message", "fan.tip", "chat.message", "post.liked", "fan.joined",
}

// Limits of a generator.
const (
	maxPerSecond = 10_000
	maxFor       = time.Hour
	generateStep = 20 * time.Millisecond
	generateMost = 500 * time.Millisecond
	// mostAtOnce limits the events per commit, so that a generator that is catching up does not block the creator.
	mostAtOnce = 100
	// mostLogins limits the logins in one request.
	mostLogins = 10_000
)

// generator runs event streams, one for each login.
type generator struct {
	mu   sync.Mutex
	stop map[string]context.CancelFunc
	runs sync.WaitGroup
}

func (g *generator) start(life context.Context, login string, run func(context.Context)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stop == nil {
		g.stop = map[string]context.CancelFunc{}
	}
	if stop := g.stop[login]; stop != nil {
		stop()
	}
	ctx, stop := context.WithCancel(life)
	g.stop[login] = stop
	g.runs.Go(func() { run(ctx) })
}

// stopAll stops all streams and waits until they have ended.
func (g *generator) stopAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, stop := range g.stop {
		stop()
	}
	g.stop = nil
	g.runs.Wait()
}

// Close stops all generators and waits until they have ended.
func (c *Control) Close() { c.generator.stopAll() }

// stopOne stops the stream of a login and reports whether there was one. It does not wait for the stream to end.
func (g *generator) stopOne(login string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	stop := g.stop[login]
	if stop == nil {
		return false
	}
	stop()
	delete(g.stop, login)
	return true
}

// stopGenerate stops the stream of one login or creator, or all streams.
func (c *Control) stopGenerate(r *http.Request) (any, error) {
	if query := r.URL.Query(); query.Has("login") || query.Has("user_id") {
		login, err := c.login(query.Get("login"), query.Get("user_id"))
		if err != nil {
			return nil, err
		}
		return map[string]bool{"stopped": c.generator.stopOne(login)}, nil
	}
	c.generator.stopAll()
	return wire.OK, nil
}

// generate runs happenings on one or more creators, at a rate that applies to each, for a limited time. A second
// request for the same login replaces the first.
func (c *Control) generate(r *http.Request) (any, error) {
	var in struct {
		Login  string   `json:"login"`
		User   string   `json:"user_id"`
		Logins []string `json:"logins"`
		Rate   float64  `json:"events_per_sec"`
		For    float64  `json:"for_sec"`
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if in.User != "" {
		login, err := c.login("", in.User)
		if err != nil {
			return nil, err
		}
		in.Login = login
	}
	if len(in.Logins) > mostLogins || in.Login != "" && len(in.Logins) > 0 {
		return nil, wire.Invalid("logins", "Give either one login or at most 10000 logins.")
	}
	if len(in.Logins) == 0 {
		in.Logins = []string{in.Login}
	}
	for i, one := range in.Logins {
		login, err := c.login(one, "")
		if err != nil {
			return nil, err
		}
		in.Logins[i] = login
	}
	lasting := time.Duration(in.For * float64(time.Second))
	if in.Rate <= 0 || in.Rate > maxPerSecond {
		return nil, wire.Invalid("events_per_sec", "Must be more than 0 and at most 10000.")
	}
	if lasting <= 0 || lasting > maxFor {
		return nil, wire.Invalid("for_sec", "Must be more than 0 and at most 3600.")
	}
	for _, login := range in.Logins {
		c.generator.start(c.deps.Life, login, func(ctx context.Context) { c.run(ctx, login, in.Rate, lasting) })
	}
	answer := map[string]any{"logins": len(in.Logins), "events_per_sec": in.Rate, "for_sec": in.For}
	if len(in.Logins) == 1 {
		answer["login"] = in.Logins[0]
	}
	return answer, nil
}

// every returns the tick interval of a generator: one event's time, but at most generateMost.
func every(rate float64) time.Duration {
	one := time.Duration(float64(time.Second) / rate)
	if one > generateStep {
		return min(one, generateMost)
	}
	return one
}

// run generates events until lasting has passed. It counts from the start, so it catches up after a delay.
func (c *Control) run(ctx context.Context, login string, rate float64, lasting time.Duration) {
	tick := time.NewTicker(every(rate))
	defer tick.Stop()
	started := c.deps.Gate.Now()
	done := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		passed := min(c.deps.Gate.Now().Sub(started), lasting)
		for want := int(rate * passed.Seconds()); done < want && ctx.Err() == nil; {
			until := min(want, done+mostAtOnce)
			if err := c.burst(login, done, until); err != nil {
				c.deps.Log.ErrorContext(ctx, "generator stopped", slog.String("error", err.Error()))
				return
			}
			done = until
		}
		if passed == lasting {
			return
		}
	}
}

// burst runs the happenings from up to to in one commit.
func (c *Control) burst(login string, from, to int) error {
	return c.deps.World.Do(login, func(creator *world.Creator) error {
		for n := from; n < to; n++ {
			do := c.deps.Happenings[generated[n%len(generated)]]
			if do != nil && do(creator, fanaction.Input{}) == nil {
				continue
			}
			// No fan can do that any more, for example because all have liked every post. Any fan can send a message.
			if err := c.deps.Happenings["chat.message"](creator, fanaction.Input{}); err != nil {
				return err
			}
		}
		return nil
	})
}
