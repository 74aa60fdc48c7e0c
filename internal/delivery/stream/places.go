package stream

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/redis"
)

const (
	// placeFor is how long a place is kept without being renewed, renewEvery how often it is.
	placeFor   = 45 * time.Second
	renewEvery = 15 * time.Second
	// askAtMost bounds how long a caller waits for the shared count; then the node's own decides.
	askAtMost = 500 * time.Millisecond
	// fullFor is what a caller is told to wait who has all places taken.
	fullFor = 15
	// renewAtOnce bounds how many places are renewed with one command.
	renewAtOnce = 500
)

var (
	//go:embed enter.lua
	enterScript string
	//go:embed renew.lua
	renewScript string
	//go:embed leave.lua
	leaveScript string
)

// places counts the streams of keys, over all nodes. While the shared server is away each node counts its own.
type places struct {
	redis               scripts
	now                 func() time.Time
	enter, renewal, out *redis.Script

	mu *sync.Mutex
	// here are this node's streams by the places' name.
	here    map[string]map[string]struct{}
	renewed time.Time
}

func newPlaces(d Deps) places {
	return places{
		redis: d.Redis, now: d.Now, mu: &sync.Mutex{}, here: map[string]map[string]struct{}{}, renewed: d.Now(),
		enter: redis.NewScript(enterScript), renewal: redis.NewScript(renewScript), out: redis.NewScript(leaveScript),
	}
}

// Enter takes a place among the streams that a key may have of an account, or of its org if that is empty. leave gives it back.
func (h *Streams) Enter(ctx context.Context, org id.Org, key id.Key, account id.Account, most int) (leave func(), err error) {
	reason := "account_streams"
	if account == "" {
		reason = "org_streams"
	}
	name := "streams:{" + string(org) + "}:" + string(key) + ":" + string(account)
	stream := string(id.New[id.Request]())
	if !h.places.take(ctx, name, stream, most) {
		return nil, problem.QuotaExceeded.Newf("The limit %s is reached: this key has %d streams open here. Close one first.", reason, most).
			After(fullFor).With("reason", reason).With("limit", most).With("current", most)
	}
	h.metrics.streams.Inc()
	return func() {
		h.metrics.streams.Dec()
		h.places.leave(context.WithoutCancel(ctx), name, stream)
	}, nil
}

func (p *places) take(ctx context.Context, name, stream string, most int) bool {
	ctx, cancel := context.WithTimeout(ctx, askAtMost)
	defer cancel()
	answer, err := p.redis.Run(ctx, p.enter, []string{name}, []string{strconv.Itoa(most), ms(placeFor), stream})
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && answer != "ok" || err != nil && most >= 0 && len(p.here[name]) >= most {
		return false
	}
	if p.here[name] == nil {
		p.here[name] = map[string]struct{}{}
	}
	p.here[name][stream] = struct{}{}
	return true
}

func (p *places) leave(ctx context.Context, name, stream string) {
	p.mu.Lock()
	delete(p.here[name], stream)
	if len(p.here[name]) == 0 {
		delete(p.here, name)
	}
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askAtMost)
	defer cancel()
	_, _ = p.redis.Run(ctx, p.out, []string{name}, []string{stream}) // otherwise it runs out by itself
}

// renew keeps this node's places, when it is time to.
func (p *places) renew(ctx context.Context) {
	now := p.now()
	p.mu.Lock()
	if now.Sub(p.renewed) < renewEvery {
		p.mu.Unlock()
		return
	}
	p.renewed = now
	batches := p.batches()
	p.mu.Unlock()
	for _, b := range batches {
		ctx, cancel := context.WithTimeout(ctx, askAtMost)
		_, err := p.redis.Run(ctx, p.renewal, []string{b.name}, b.args)
		cancel()
		if errors.Is(err, redis.ErrUnavailable) || ctx.Err() != nil {
			return // the server is away; the next time is soon enough
		}
	}
}

type batch struct {
	name string
	args []string
}

func (p *places) batches() []batch {
	var list []batch
	for name, streams := range p.here {
		b := batch{name, []string{ms(placeFor)}}
		for stream := range streams {
			if b.args = append(b.args, stream); len(b.args) > renewAtOnce {
				list = append(list, b)
				b = batch{name, []string{ms(placeFor)}}
			}
		}
		if len(b.args) > 1 {
			list = append(list, b)
		}
	}
	return list
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
