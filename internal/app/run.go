package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
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
	// Background work and operators see all organisations. A request of the public API sees its own as soon as it is
	// authenticated.
	ctx = postgres.WithAllOrgs(ctx)
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBackground()
	work, background := errgroup.WithContext(background)
	// The database's clock decides about data, so it is read before anything else.
	starting, cancel := context.WithTimeout(ctx, clockEvery)
	if err := n.clock.Read(starting, n.databaseTime); err != nil {
		n.log.LogAttrs(ctx, slog.LevelWarn, "cannot read the database's clock", slog.Any(logkey.Error, err))
	}
	cancel()
	work.Go(func() error {
		n.clock.Follow(background, clockEvery, n.databaseTime, func(err error) {
			n.log.LogAttrs(ctx, slog.LevelWarn, "cannot read the database's clock", slog.Any(logkey.Error, err))
		})
		return nil
	})
	// Operators' decisions come first, because some parts may be switched off. If the database is down, those parts do
	// not start until it can be read.
	if err := n.operators.switches.Read(ctx); err != nil {
		n.log.LogAttrs(ctx, slog.LevelWarn, "cannot read operators' decisions", slog.Any(logkey.Error, err))
	}
	for _, run := range n.loops {
		work.Go(func() error { return run(background) })
	}

	internal := server(n.internalHandler(l.Internal.Addr()), n.log, 0)
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
		public := server(n.servers.public, n.log, publicWriteTimeout)
		servers = append([]*http.Server{public}, servers...)
		serve(public, l.Public)
		n.log.LogAttrs(ctx, slog.LevelInfo, "serving", slog.String(logkey.Public, l.Public.Addr().String()),
			slog.String(logkey.Internal, l.Internal.Addr().String()), slog.Any(logkey.Roles, n.cfg.Roles), slog.String(logkey.Version, version.String()))
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
		n.operators.fleet.Leave(context.WithoutCancel(ctx))
	}
	if n.engines.tracing != nil {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		err = errors.Join(err, n.engines.tracing.Shutdown(flush))
	}
	n.log.LogAttrs(context.WithoutCancel(ctx), slog.LevelInfo, "stopped")
	return err
}

// clockEvery is how often the database's clock is read.
const clockEvery = 3 * time.Second

func (n *Node) databaseTime(ctx context.Context) (time.Time, error) {
	return n.engines.db.Now(ctx, n.engines.db)
}

func (n *Node) drain(ctx context.Context, servers []*http.Server) {
	n.draining.Store(true)
	n.log.LogAttrs(ctx, slog.LevelInfo, "draining", slog.Duration(logkey.Delay, n.cfg.DrainDelay))
	time.Sleep(n.cfg.DrainDelay)
	ctx, cancel := context.WithTimeout(ctx, shutdownGrace)
	defer cancel()
	if err := n.servers.api.EndStreams(ctx); err != nil {
		n.log.LogAttrs(ctx, slog.LevelWarn, "streams not ended in time", slog.Any(logkey.Error, err))
	}
	for _, s := range servers {
		if err := s.Shutdown(ctx); err != nil {
			n.log.LogAttrs(ctx, slog.LevelWarn, "requests not finished in time", slog.Any(logkey.Error, err))
			_ = s.Close()
		}
	}
}

// publicWriteTimeout bounds the time to produce and send a response, so that a caller that does not read cannot hold a
// connection forever. Streams and long operations set their own deadlines.
const publicWriteTimeout = 30 * time.Second

// server returns an HTTP server with the limits of both listeners. write is 0 for the internal one, where a profile
// takes as long as requested.
func server(h http.Handler, log *slog.Logger, write time.Duration) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, IdleTimeout: time.Minute,
		WriteTimeout: write, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return postgres.WithAllOrgs(context.Background()) }, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
