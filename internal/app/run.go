package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/bucket"
	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/version"
)

// Listeners are the open ports of a node. Public is nil without the api role.
type Listeners struct{ Public, Internal net.Listener }

// Listen opens the ports. It is called first, so that a port in use stops the start before anything else happens.
func (n *Node) Listen(ctx context.Context) (Listeners, error) {
	var (
		l   Listeners
		lc  net.ListenConfig
		err error
	)
	if l.Internal, err = lc.Listen(ctx, "tcp", n.cfg.InternalListen); err != nil {
		return l, fmt.Errorf("STAGEDOOR_INTERNAL_LISTEN: %w", err)
	}
	if n.hasRole("api") {
		if l.Public, err = lc.Listen(ctx, "tcp", n.cfg.Listen); err != nil {
			return l, errors.Join(fmt.Errorf("STAGEDOOR_LISTEN: %w", err), l.Internal.Close())
		}
	}
	return l, nil
}

// shutdownGrace is how long requests in progress may take after the ports are closed.
const shutdownGrace = 20 * time.Second

// Run serves until the context ends, then drains: it reports that it is not ready and keeps serving for the drain
// delay, while load balancers notice and clients are asked to close their connections. Then it closes the ports, lets
// requests in progress finish, and flushes its counters.
func (n *Node) Run(ctx context.Context, l Listeners) error {
	defer n.Close()
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBackground()
	work, background := errgroup.WithContext(background)
	n.readDecisions(ctx)
	n.runServices(background, work)
	n.runEvents(background, work)

	internal := server(n.internalHandler(), n.log, 0)
	servers := []*http.Server{internal}
	serve := func(s *http.Server, on net.Listener) {
		work.Go(func() error {
			if err := s.Serve(on); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve %s: %w", on.Addr(), err)
			}
			return nil
		})
	}
	serve(internal, l.Internal)
	if l.Public != nil {
		public := server(n.public(), n.log, publicWriteTimeout)
		servers = append([]*http.Server{public}, servers...)
		serve(public, l.Public)
		n.log.LogAttrs(ctx, slog.LevelInfo, "serving", slog.String("public", l.Public.Addr().String()),
			slog.String("internal", l.Internal.Addr().String()), slog.Any("roles", n.cfg.Roles), slog.String("version", version.String()))
	}

	select {
	case <-ctx.Done():
	case <-background.Done(): // A background task has failed.
	}
	n.drain(context.WithoutCancel(ctx), servers)
	stopBackground()
	err := work.Wait()
	if err == nil {
		// A node that could not flush its counters does not leave: the others must see that it died.
		n.fleet.Leave(context.WithoutCancel(ctx))
	}
	if n.tracing != nil {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		err = errors.Join(err, n.tracing.Shutdown(flush))
	}
	n.log.LogAttrs(context.WithoutCancel(ctx), slog.LevelInfo, "stopped")
	return err
}

// runServices runs the background tasks of every node, and those of workers.
func (n *Node) runServices(ctx context.Context, work *errgroup.Group) {
	work.Go(func() error { return n.control.Run(ctx) })
	work.Go(func() error { return n.suspensions.Run(ctx) })
	work.Go(func() error { return n.limits.Run(ctx) })
	work.Go(func() error { return n.usage.Run(ctx) })
	work.Go(func() error { return n.fleet.Run(ctx) })
	work.Go(func() error { return n.egress.Run(ctx) })
	work.Go(func() error { return n.bus.Subscribe(ctx, admission.EpochPattern, n.onEpoch) })
	work.Go(func() error {
		return n.bus.Subscribe(ctx, admission.AccountPattern, func(account string, _ []byte) { n.limits.ForgetAccount(id.Account(account)) })
	})
	work.Go(func() error { return n.sealer.Run(ctx) })
	work.Go(func() error { return n.journal.Run(ctx) })
	work.Go(func() error { return n.bus.Subscribe(ctx, account.SessionPattern, n.accounts.Heard) })
	work.Go(func() error { return n.bus.Subscribe(ctx, connect.Pattern, n.connects.Heard) })
	if n.jobs != nil {
		work.Go(func() error { return n.runJobs(ctx) })
		work.Go(func() error { return n.connects.Run(ctx) })
		work.Go(func() error { return n.health.Run(ctx) })
		work.Go(func() error { return n.sweep(ctx) })
	}
}

// runEvents runs the event tasks of the node's roles.
func (n *Node) runEvents(ctx context.Context, work *errgroup.Group) {
	if n.hasRole("api") {
		work.Go(func() error { return n.streams.Run(ctx) })
	}
	if n.ingest != nil {
		work.Go(func() error {
			return bucket.Run(ctx, bucket.Deps{Leases: n.buckets, Ingest: n.ingest, Webhooks: n.webhooks})
		})
	}
	if n.listen != nil {
		work.Go(func() error {
			err := n.listen.Run(ctx)
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
			defer cancel()
			return errors.Join(err, n.batcher.Close(last))
		})
	}
	if old, ok := n.eventing.log.(*eventlog.Postgres); ok {
		work.Go(func() error { return old.Run(ctx) })
	}
}

func (n *Node) drain(ctx context.Context, servers []*http.Server) {
	n.draining.Store(true)
	n.log.LogAttrs(ctx, slog.LevelInfo, "draining", slog.Duration("delay", n.cfg.DrainDelay))
	time.Sleep(n.cfg.DrainDelay)
	ctx, cancel := context.WithTimeout(ctx, shutdownGrace)
	defer cancel()
	if err := n.api.EndStreams(ctx); err != nil {
		n.log.LogAttrs(ctx, slog.LevelWarn, "streams not ended in time", slog.Any("error", err))
	}
	for _, s := range servers {
		if err := s.Shutdown(ctx); err != nil {
			n.log.LogAttrs(ctx, slog.LevelWarn, "requests not finished in time", slog.Any("error", err))
			_ = s.Close()
		}
	}
}

// runJobs runs jobs until the context ends; jobs in progress finish first.
func (n *Node) runJobs(ctx context.Context) error {
	for {
		err := n.jobs.Start(context.WithoutCancel(ctx))
		if err == nil {
			break
		}
		// The database is down. The node is not ready, and starts its workers when the database is back.
		n.log.LogAttrs(ctx, slog.LevelWarn, "workers not started", slog.Any("error", err))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := n.jobs.Stop(stop); err != nil {
		return fmt.Errorf("stop workers: %w", err)
	}
	return nil
}

// onEpoch handles the message that an org has a new epoch.
func (n *Node) onEpoch(last string, payload []byte) {
	org, err := id.Parse[id.Org](last)
	if err != nil {
		return
	}
	epoch, err := strconv.ParseInt(string(payload), 10, 64)
	if err != nil {
		return
	}
	n.suspensions.Wake()
	n.keys.Heard(org, epoch)
	n.limits.Forget(org)
	n.api.Recheck(org)
}

const (
	// sweepEvery is the interval at which expired rows are removed.
	sweepEvery = 5 * time.Second
	// thresholdEvery is the interval at which usage thresholds are checked.
	thresholdEvery = time.Minute
)

// sweep ends expired hosted sessions, deletes expired idempotency keys and browser sessions, and announces usage
// thresholds.
func (n *Node) sweep(ctx context.Context) error {
	tick, hint := time.NewTicker(sweepEvery), time.NewTicker(thresholdEvery)
	defer tick.Stop()
	defer hint.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			_, err = n.sessions.Sweep(ctx)
		case <-hint.C:
			err = errors.Join(n.limits.AnnounceThresholds(ctx, n.orgs, n.outbox), n.members.Trim(ctx))
		}
		if err == nil {
			_, err = n.idempotencyKeys.Trim(ctx)
		}
		if err != nil && ctx.Err() == nil {
			n.log.LogAttrs(ctx, slog.LevelWarn, "cannot sweep old rows", slog.Any("error", err))
		}
	}
}
