// Package sandbox implements a creator platform for development and tests. It keeps real state, and a driver manifest
// describes it to the product like any other platform. It imports nothing from the product and talks to it only over
// HTTP and WebSocket.
//
// Start reading at New. A request passes the gate (package gate) and reaches one of the parts of the platform (people,
// messages, publish, library, money, settings), which changes the world (package world) and answers with views (package
// view). Package auth signs creators in, live sends frames, control injects faults, and page serves the browser pages.
// Package mailbox is apart from the platform: it receives the mail of other programs on a developer's machine.
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
	"github.com/stagedoor/stagedoor/sandbox/mailbox"
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

// Base is the path prefix of the platform's API.
const Base = "/api/v2"

// Config configures a Platform. Data, Now and Log are required.
type Config struct {
	// Data is the path of the state file.
	Data string
	// Origin is the base URL that clients use, such as http://127.0.0.1:18200.
	Origin string
	// Regions maps source addresses to region names for the request log.
	Regions map[string]string
	// PerMinute limits the calls per minute of a session. Zero means no limit.
	PerMinute int
	// NoSince simulates a platform that cannot list missed frames.
	NoSince bool
	// Loaded limits how many creators stay in memory. Zero means the default of package world.
	Loaded int
	// Slow is how long a sign-in of the persona slow takes. Zero means 20 s.
	Slow time.Duration
	// Clients are the OAuth clients. None means auth.DefaultClient.
	Clients []auth.Client
	Now     func() time.Time
	Log     *slog.Logger
}

// Platform is a running sandbox.
type Platform struct {
	World *world.World
	Gate  *gate.Gate
	// Mails receives mail if the caller serves it.
	Mails   *mailbox.Mailbox
	control *control.Control
	store   *store.Store
	mux     *http.ServeMux
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// New opens the state file and starts the platform's timers. The caller serves the Platform with an HTTP server and
// closes it.
func New(ctx context.Context, cfg Config) (*Platform, error) {
	if cfg.Data == "" || cfg.Now == nil || cfg.Log == nil {
		return nil, errors.New("sandbox: Data, Now and Log are required")
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
		Gate:  gate.New(gate.Deps{World: w, Log: cfg.Log, Regions: cfg.Regions, PerMinute: cfg.PerMinute, Now: cfg.Now}),
		Mails: mailbox.New(mailbox.Deps{Now: cfg.Now, Log: cfg.Log}),
	}
	for _, route := range Routes() {
		method, path, _ := strings.Cut(route.Pattern, " ")
		p.mux.HandleFunc(method+" "+Base+path, p.Gate.Handle(route))
	}
	living, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	signIn := &auth.Auth{World: w, Gate: p.Gate, Slow: cmp.Or(cfg.Slow, 20*time.Second), Clients: cfg.Clients}
	if len(cfg.Clients) == 0 {
		signIn.Clients = []auth.Client{auth.DefaultClient}
	}
	p.Gate.Bearer = signIn.Bearer
	signIn.Mount(p.mux, Base)
	(&live.Live{World: w, Gate: p.Gate, NoSince: cfg.NoSince}).Mount(p.mux, Base)
	p.control = control.New(control.Deps{
		World: w, Gate: p.Gate, Auth: signIn, Mails: p.Mails, Happenings: Happenings(), Log: cfg.Log, Life: living,
	})
	p.control.Mount(p.mux)
	page.New(page.Deps{World: w, Auth: signIn, Mails: p.Mails, Log: cfg.Log}).Mount(p.mux)
	p.mux.Handle("/media/", library.Media(w))
	p.mux.Handle("/upload/", library.Upload(w))
	p.mux.HandleFunc("/", p.Gate.NoRoute)
	p.done.Go(func() { w.Run(living, dues()) })
	return p, nil
}

// Routes returns all operations of a signed-in creator.
func Routes() []wire.Route {
	return slices.Concat(people.Routes(), messages.Routes(), publish.Routes(), library.Routes(), money.Routes(), settings.Routes())
}

// Happenings returns everything that can be triggered from outside, such as a fan's tip, keyed by the frame it sends.
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

func (p *Platform) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// Close stops the platform and flushes its state. It must not serve requests afterwards.
func (p *Platform) Close() error {
	p.stop()
	p.control.Close()
	p.done.Wait()
	return p.store.Close()
}
