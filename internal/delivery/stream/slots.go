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
	// slotTTL is how long a slot lives without being renewed, renewEvery how often slots are renewed.
	slotTTL    = 45 * time.Second
	renewEvery = 15 * time.Second
	// redisTimeout bounds how long a caller waits for Redis; then the node's own count decides.
	redisTimeout = 500 * time.Millisecond
	// fullRetryAfter is the Retry-After, in seconds, when all slots are taken.
	fullRetryAfter = 15
	// maxRenew bounds the slots that one command renews.
	maxRenew = 500
)

var (
	//go:embed enter.lua
	enterLua string
	//go:embed renew.lua
	renewLua string
	//go:embed leave.lua
	leaveLua string
)

// streamSlots limits the streams of a key over all nodes. Each stream holds a slot in Redis. While Redis is
// unavailable, each node counts only its own streams.
type streamSlots struct {
	redis                                     scripts
	now                                       func() time.Time
	acquireScript, renewScript, releaseScript *redis.Script

	mu *sync.Mutex
	// local holds this node's streams by the name of their slots in Redis.
	local   map[string]map[string]struct{}
	renewed time.Time
}

func newStreamSlots(d Deps) streamSlots {
	return streamSlots{
		redis: d.Redis, now: d.Now, mu: &sync.Mutex{}, local: map[string]map[string]struct{}{}, renewed: d.Now(),
		acquireScript: redis.NewScript(enterLua), renewScript: redis.NewScript(renewLua),
		releaseScript: redis.NewScript(leaveLua),
	}
}

// Enter acquires one of most slots for streams of a key on an account, or on its org if account is empty. A negative
// most means no limit. It fails with quota-exceeded. leave releases the slot.
func (h *Streams) Enter(ctx context.Context, org id.Org, key id.Key, account id.Account, most int) (leave func(), err error) {
	reason := "account_streams"
	if account == "" {
		reason = "org_streams"
	}
	name := "streams:{" + string(org) + "}:" + string(key) + ":" + string(account)
	stream := string(id.New[id.Request]())
	if !h.slots.acquire(ctx, name, stream, most) {
		return nil, problem.QuotaExceeded.Newf("The limit %s is reached: this key has %d streams open here. Close one first.", reason, most).
			After(fullRetryAfter).With("reason", reason).With("limit", most).With("current", most)
	}
	h.metrics.streams.Inc()
	return func() {
		h.metrics.streams.Dec()
		h.slots.release(context.WithoutCancel(ctx), name, stream)
	}, nil
}

func (p *streamSlots) acquire(ctx context.Context, name, stream string, most int) bool {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	answer, err := p.redis.Run(ctx, p.acquireScript, []string{name}, []string{strconv.Itoa(most), ms(slotTTL), stream})
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && answer != "ok" || err != nil && most >= 0 && len(p.local[name]) >= most {
		return false
	}
	if p.local[name] == nil {
		p.local[name] = map[string]struct{}{}
	}
	p.local[name][stream] = struct{}{}
	return true
}

func (p *streamSlots) release(ctx context.Context, name, stream string) {
	p.mu.Lock()
	delete(p.local[name], stream)
	if len(p.local[name]) == 0 {
		delete(p.local, name)
	}
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	_, _ = p.redis.Run(ctx, p.releaseScript, []string{name}, []string{stream}) // on failure the slot expires
}

// renew renews this node's slots, at most once per renewEvery.
func (p *streamSlots) renew(ctx context.Context) {
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
		ctx, cancel := context.WithTimeout(ctx, redisTimeout)
		_, err := p.redis.Run(ctx, p.renewScript, []string{b.name}, b.args)
		cancel()
		if errors.Is(err, redis.ErrUnavailable) || ctx.Err() != nil {
			return // Redis is unavailable; try again next time
		}
	}
}

type batch struct {
	name string
	args []string
}

func (p *streamSlots) batches() []batch {
	var list []batch
	for name, streams := range p.local {
		b := batch{name, []string{ms(slotTTL)}}
		for stream := range streams {
			if b.args = append(b.args, stream); len(b.args) > maxRenew {
				list = append(list, b)
				b = batch{name, []string{ms(slotTTL)}}
			}
		}
		if len(b.args) > 1 {
			list = append(list, b)
		}
	}
	return list
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
