package test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// balancer picks nodes whose readiness check succeeds, like a load balancer.
type balancer struct {
	nodes []*testnode.Node
	ready []atomic.Bool
	next  atomic.Int64
}

func newBalancer(ctx context.Context, wait *sync.WaitGroup, nodes []*testnode.Node) *balancer {
	b := &balancer{nodes: nodes, ready: make([]atomic.Bool, len(nodes))}
	for i, n := range nodes {
		b.ready[i].Store(true)
		wait.Go(func() {
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					r, err := testnode.Do(ctx, http.MethodGet, n.Internal+"/readyz", "", nil)
					b.ready[i].Store(err == nil && r.Status == http.StatusOK)
				}
			}
		})
	}
	return b
}

func (b *balancer) pick() *testnode.Node {
	for {
		i := int(b.next.Add(1)) % len(b.nodes)
		if b.ready[i].Load() {
			return b.nodes[i]
		}
	}
}

// Nodes are restarted one after the other under load. No request fails, neither a read nor a write.
func TestRollingRestartFailsNoRequest(t *testing.T) {
	// Not parallel: its load would slow down other tests.
	nodes := testnode.Processes(t, 3, testnode.Setup{DrainDelay: time.Second})
	owner := nodes[0].NewOrg(t, unlimited)
	ctx, stop := context.WithCancel(t.Context())
	var (
		wait    sync.WaitGroup
		balance = newBalancer(ctx, &wait, nodes)
		reads   atomic.Int64
		writes  atomic.Int64
		failed  = make(chan string, 100_000)
	)
	for i := range 8 {
		wait.Go(func() {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				method, body, count := http.MethodGet, any(nil), &reads
				if i%4 == 0 { // the HTTP client does not silently retry writes
					method, body, count = http.MethodPatch, map[string]any{"name": fmt.Sprint("Name ", n)}, &writes
				}
				r, err := testnode.Do(context.WithoutCancel(ctx), method, balance.pick().URL+"/v1/me", owner.Key, body)
				if err != nil || r.Status != http.StatusOK {
					failed <- fmt.Sprintf("%s: %d %s %v", method, r.Status, r.Body, err)
				}
				count.Add(1)
				<-tick.C
			}
		})
	}
	rounds := proof.Scale(1, 2)
	for range rounds {
		for _, n := range nodes {
			n.Process.Signal(syscall.SIGTERM)
			select {
			case <-n.Process.Exited():
			case <-time.After(2 * time.Minute):
				t.Fatal("a node does not stop")
			}
			n.Restart(t)
		}
	}
	stop()
	wait.Wait()
	close(failed)
	for f := range failed {
		t.Error(f)
	}
	t.Logf("%d restarts under load: %d reads and %d writes", rounds*len(nodes), reads.Load(), writes.Load())
}
