// Package sandbox is a creator platform that one can sign in to: real, stateful, and described to the product by a driver manifest
// like any other. It imports nothing of the product; the two meet over the wire.
//
// Start reading at New. A request passes the gate (package gate), is answered by a part of the platform (people, talk, publish,
// library, money, desk), which changes the world (package world) and speaks in views (package view). Signing in is package auth,
// live frames are package live, ordering trouble is package control, and what a person sees in a browser is package page.
package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/auth"
	"github.com/stagedoor/stagedoor/sandbox/control"
	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/gate"
	"github.com/stagedoor/stagedoor/sandbox/library"
	"github.com/stagedoor/stagedoor/sandbox/live"
	"github.com/stagedoor/stagedoor/sandbox/messages"
	"github.com/stagedoor/stagedoor/sandbox/money"
	"github.com/stagedoor/stagedoor/sandbox/page"
	"github.com/stagedoor/stagedoor/sandbox/people"
	"github.com/stagedoor/stagedoor/sandbox/publish"
	"github.com/stagedoor/stagedoor/sandbox/settings"
	"github.com/stagedoor/stagedoor/sandbox/store"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Base is where the platform's own API begins.
const Base = "/api/v2"

// Config says how the platform runs.
type Config struct {
	// Data is the file of its state.
	Data string
	// Origin is where it is reached, as in http://127.0.0.1:18200.
	Origin string
	// Regions are the names of source addresses, by which it records where a request came from.
	Regions map[string]string
	// PerMinute is its own rate limit for a session; 0 for none.
	PerMinute int
	// NoSince makes it a platform that cannot list missed frames.
	NoSince bool
	// Loaded is how many creators it keeps in memory; 0 for the usual number.
	Loaded int
	// Slow is how long a sign-in of the persona slow takes; 0 for 20 s.
	Slow time.Duration
	Now  func() time.Time
	Log  *slog.Logger
}

// Platform is a running sandbox.
type Platform struct {
	World   *world.World
	Gate    *gate.Gate
	control *control.Control
	store   *store.Store
	mux     *http.ServeMux
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// New opens the state and starts the platform's own life. Serve it with any HTTP server, and Close it.
func New(ctx context.Context, cfg Config) (*Platform, error) {
	if cfg.Data == "" || cfg.Now == nil || cfg.Log == nil {
		return nil, errors.New("sandbox: Data, Now and Log are needed")
	}
	kept, err := store.Open(cfg.Data)
	if err != nil {
		return nil, err
	}
	w, err := world.New(world.Deps{Store: kept, Log: cfg.Log, Now: cfg.Now, Origin: cfg.Origin, Tick: people.Tick, Loaded: cfg.Loaded})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the state: %w", err), kept.Close())
	}
	p := &Platform{
		World: w, store: kept, mux: http.NewServeMux(),
		Gate: gate.New(gate.Deps{World: w, Log: cfg.Log, Regions: cfg.Regions, PerMinute: cfg.PerMinute, Now: cfg.Now}),
	}
	for _, route := range Routes() {
		method, path, _ := strings.Cut(route.Pattern, " ")
		p.mux.HandleFunc(method+" "+Base+path, p.Gate.Handle(route))
	}
	living, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	signIn := &auth.Auth{World: w, Gate: p.Gate, Slow: cmp.Or(cfg.Slow, 20*time.Second)}
	signIn.Mount(p.mux, Base)
	(&live.Live{World: w, Gate: p.Gate, NoSince: cfg.NoSince}).Mount(p.mux, Base)
	p.control = control.New(control.Deps{World: w, Gate: p.Gate, Auth: signIn, Happenings: Happenings(), Log: cfg.Log, Life: living})
	p.control.Mount(p.mux)
	page.New(page.Deps{World: w, Auth: signIn, Log: cfg.Log}).Mount(p.mux)
	p.mux.Handle("/media/", library.Media(w))
	p.mux.Handle("/upload/", library.Upload(w))
	p.mux.HandleFunc("/", p.Gate.NoRoute)
	p.done.Go(func() { w.Run(living, dues()) })
	return p, nil
}

// Routes are all operations of a signed-in creator.
func Routes() []wire.Route {
	return slices.Concat(people.Routes(), messages.Routes(), publish.Routes(), library.Routes(), money.Routes(), settings.Routes())
}

// Happenings are all that the world outside can do, by the frame it causes.
func Happenings() map[string]fanaction.Func {
	all := map[string]fanaction.Func{}
	for _, part := range []map[string]fanaction.Func{
		people.Happenings(), messages.Happenings(), publish.Happenings(), library.Happenings(), money.Happenings(), settings.Happenings(),
	} {
		maps.Copy(all, part)
	}
	return all
}

func dues() map[string]world.Handler {
	all := map[string]world.Handler{}
	for _, part := range []map[string]world.Handler{
		auth.Dues(), people.Dues(), messages.Dues(), publish.Dues(), library.Dues(), money.Dues(), settings.Dues(),
	} {
		maps.Copy(all, part)
	}
	return all
}

// ServeHTTP answers.
func (p *Platform) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// Close ends the platform's life and writes what is waiting. Nothing may be served afterwards.
func (p *Platform) Close() error {
	p.stop()
	p.control.Close()
	p.done.Wait()
	return p.store.Close()
}
