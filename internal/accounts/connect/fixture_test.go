package connect_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/engine/redis"
	"github.com/stagedoor/stagedoor/internal/engine/smtp"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/operate/fleet"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/platform/sandboxapi"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testmail"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testplatform"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

// fixture is a Connects on real engines and the sandbox platform, with a worker.
type fixture struct {
	t        *testing.T
	db       *postgres.DB
	platform *sandboxtest.Platform
	control  *sandboxapi.Client
	connects *connect.Connects
	accounts *account.Accounts
	orgs     *org.Orgs
	outbox   *outbox.Outbox
	hosted   *link.Sessions
	mails    *mail.Outbox
	org      org.Org
	seal     *seal.Sealer
	metrics  *prometheus.Registry
}

var by = audit.By{Kind: audit.ActorKey, ID: "key_1", Label: "test", Action: "connect.start", Request: "req_1", IPHash: "ab"}

// options change a fixture before it is built.
type options struct {
	idle  bool // do not start a worker
	guard registry.Guard
	// sites is a second platform on which every creator has a site; nil for none.
	sites registry.Sites
	slow  time.Duration
	// beside is a node that shares its database and platform with this one. ahead is how far this node's clock is ahead.
	beside *fixture
	ahead  time.Duration
	// mail is the mail server; nil for none.
	mail *testmail.Server
}

func newFixture(t *testing.T, o options) *fixture {
	t.Helper()
	r := &fixture{t: t, metrics: prometheus.NewRegistry()}
	now := func() time.Time { return time.Now().UTC().Add(o.ahead) }
	o.slow = cmp.Or(o.slow, 300*time.Millisecond)
	process := "p1"
	if o.beside != nil {
		r.db, r.platform, process = o.beside.db, o.beside.platform, "p2"
	} else {
		r.db = testenv.Postgres(t)
	}
	reached := testplatform.New(t, testplatform.Setup{
		Running: r.platform, Sandbox: func(cfg *sandbox.Config) { cfg.Slow = o.slow },
	})
	r.platform, r.control = reached.Platform, sandboxapi.New(reached.URL)
	t.Cleanup(r.control.Close)
	drv, out, sandboxed := reached.Driver, reached.Egress, reached.Catalog
	log := slog.New(slog.DiscardHandler)
	bus, err := pubsub.Open(pubsub.Config{URL: testenv.NATS(t), Name: "test"})
	must.OK(t, err)
	t.Cleanup(bus.Close)
	client, err := redis.Open(redis.Config{URL: testenv.Redis(t), Name: "test"})
	must.OK(t, err)
	t.Cleanup(client.Close)
	if o.beside != nil {
		r.seal = o.beside.seal
	} else {
		r.seal = sealtest.New(t, r.db, bus)
	}
	auditLog := audit.New(r.db, r.seal, now)
	r.outbox = outbox.New(r.db, now)
	nodes := fleet.New(fleet.Deps{DB: r.db, Log: log, Now: now, Self: fleet.Node{ID: process, Name: process}})
	limits := admission.New(admission.Deps{Config: admission.Config{Timeout: time.Second, Process: process},
		Redis: client, DB: r.db, Bus: bus, Fleet: nodes, Log: log, Now: now})
	jobs, err := river.NewClient(riverpgxv5.New(r.db.Pool()), &river.Config{Logger: log})
	must.OK(t, err)
	r.orgs = org.New(org.Deps{DB: r.db, Audit: auditLog, Jobs: jobs, Announce: limits, Now: now})
	limits.SetEpochs(r.orgs)
	host, err := url.Parse(r.platform.URL)
	must.OK(t, err)
	regions := []string{"us", "uk"}
	platforms := registry.Of(registry.Platform{Driver: drv, Catalog: sandboxed, Guard: o.guard, IsSandbox: true}.WithHost(host.Host))
	if o.sites != nil {
		second := *sandboxed
		second.ID, second.Site = "tiny", &catalog.Site{Example: "https://maya.example.com"}
		platforms = registry.Of(append(platforms.All(), registry.Platform{Driver: drv, Catalog: &second, Sites: o.sites})...)
	}
	r.accounts = account.New(account.Deps{
		Config: account.Config{Regions: func() []string { return regions }, SignOutTimeout: time.Second}, DB: r.db, Orgs: r.orgs, Audit: auditLog, Outbox: r.outbox,
		Seal: r.seal, Limits: limits, Bus: bus, Platforms: platforms.Get,
		ReconnectURL: func(_ id.Org, a id.Account) string { return "https://api.test/reconnect/" + string(a) }, Log: log, Now: now,
	})
	letters := mail.Deps{DB: r.db, Audit: auditLog, Seal: r.seal, Queue: jobs, Log: log}
	if o.mail != nil {
		s, err := smtp.Parse(o.mail.URL)
		must.OK(t, err)
		letters.Sender = smtp.New(smtp.Deps{Settings: s, Dial: egress.DialDirect(s.Address(), s.Implicit, nil)})
	}
	r.mails = mail.New(letters)
	r.hosted = link.New(link.Deps{
		DB: r.db, Audit: auditLog, Outbox: r.outbox, Keys: r.seal, Seal: r.seal, Mail: r.mails, ConnectURL: "https://connect.test",
		Regions: func() []string { return regions }, Now: now,
	})
	r.connects = connect.New(connect.Deps{
		Config: connect.Config{PublicURL: "https://api.test", ConnectURL: "https://connect.test", Process: process, Regions: func() []string { return regions }},
		DB:     r.db, Orgs: r.orgs, Accounts: r.accounts, Seal: r.seal, Limits: limits, Audit: auditLog, Outbox: r.outbox,
		Jobs: jobs, Bus: bus,
		Egress: out, Hosted: r.hosted, Events: event.New(event.Deps{DB: r.db, Sealer: r.seal, Seals: sealtest.Always, Log: log, Now: now}), Platforms: platforms,
		Registry: r.metrics, Log: log, Now: now,
	})
	r.accounts.OnDisconnect(r.connects.Leave)
	if o.beside != nil {
		r.org = o.beside.org
	} else {
		r.org = r.newOrg()
	}
	if !o.idle {
		r.startWorker(jobs)
	}
	return r
}

func (r *fixture) newOrg() org.Org {
	r.t.Helper()
	var made org.Org
	must.OK(r.t, r.db.Tx(r.t.Context(), func(tx postgres.Tx) (err error) {
		made, err = r.orgs.Create(r.t.Context(), tx, by, org.Draft{Name: "Acme", Plan: "scale", Environment: environment.Sandbox, ContactEmail: "a@b.test"})
		return err
	}))
	return made
}

// startWorker runs a worker until the test ends.
func (r *fixture) startWorker(_ *river.Client[pgx.Tx]) {
	r.t.Helper()
	workers := river.NewWorkers()
	connect.Register(workers, r.connects)
	client, err := river.NewClient(riverpgxv5.New(r.db.Pool()), &river.Config{
		Workers: workers, Logger: slog.New(slog.DiscardHandler), FetchCooldown: 5 * time.Millisecond, FetchPollInterval: 50 * time.Millisecond,
		Queues: map[string]river.QueueConfig{connect.Queue: {MaxWorkers: 20}},
	})
	must.OK(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	must.OK(r.t, client.Start(ctx))
	done := make(chan error, 1)
	go func() { done <- r.connects.Run(ctx) }()
	r.t.Cleanup(func() {
		stop, end := context.WithTimeout(context.Background(), 2*time.Minute)
		defer end()
		_ = client.StopAndCancel(stop)
		cancel()
		<-done
	})
}

var logins atomic.Int64

func login(persona string) string { return fmt.Sprintf("%s+%d@sandbox.test", persona, logins.Add(1)) }

func (r *fixture) start(email, password string, change func(*connect.Start)) connect.Found {
	r.t.Helper()
	f, err := r.tryStart(email, password, change)
	must.OK(r.t, err)
	return f
}

func (r *fixture) tryStart(email, password string, change func(*connect.Start)) (connect.Found, error) {
	s := connect.Start{Org: r.org, By: by, Kind: attempt.Credentials, Email: secret.New(email), Password: secret.New(password)}
	if change != nil {
		change(&s)
	}
	return r.connects.Start(r.t.Context(), s)
}

// waitFor waits until the attempt has one of the states. It fails if the attempt ends in another one.
func (r *fixture) waitFor(at id.Attempt, states ...attempt.State) connect.Found {
	r.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	f, err := r.connects.Get(r.t.Context(), r.org.ID, at)
	for {
		must.OK(r.t, err)
		for _, s := range states {
			if f.State == string(s) {
				return f
			}
		}
		if time.Now().After(deadline) || strings.HasPrefix(f.State, "completed_") {
			r.t.Fatalf("attempt is %s (%+v), want %v", f.State, f.Failure, states)
		}
		f, err = r.connects.Changed(r.t.Context(), r.org.ID, at, f.Version, time.Second)
	}
}

func (r *fixture) submit(at id.Attempt, code string) connect.Found {
	r.t.Helper()
	_, err := r.connects.Submit(r.t.Context(), r.org.ID, at, connect.Submission{Code: secret.New(code)})
	must.OK(r.t, err)
	f, err := r.connects.Verdict(r.t.Context(), r.org.ID, at, 10*time.Second)
	must.OK(r.t, err)
	return f
}

func (r *fixture) wantFailure(at id.Attempt, code string) {
	r.t.Helper()
	if f := r.waitFor(at, attempt.Failed); f.Failure.Code != code {
		r.t.Errorf("failed with %s, want %s", f.Failure.Code, code)
	}
}
