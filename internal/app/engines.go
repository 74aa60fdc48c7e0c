package app

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/base/tracing"
	"github.com/stagedoor/stagedoor/internal/engine/objects"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/engine/redis"
	"github.com/stagedoor/stagedoor/internal/engine/telemetry"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
	"github.com/stagedoor/stagedoor/version"
)

// engines are the connections to the systems that a node needs.
type engines struct {
	// tracing is nil unless traces are exported.
	tracing *sdktrace.TracerProvider
	db      *postgres.DB
	keyring *postgres.DB // The same as db unless STAGEDOOR_KEYRING_URL is set.
	redis   *redis.Client
	bus     *pubsub.Bus
	// objects is nil unless STAGEDOOR_OBJECTS is set.
	objects *objects.Store
	// jobs adds jobs to the queue. It does not run them.
	jobs *river.Client[pgx.Tx]
}

func openEngines(ctx context.Context, n *Node) (eng engines, err error) {
	var tracer pgx.QueryTracer
	if n.cfg.ExportsTraces() {
		if eng.tracing, err = telemetry.Traces(ctx, n.cfg.Node, version.String()); err != nil {
			return eng, err
		}
		tracer = otelpgx.NewTracer(otelpgx.WithTracerProvider(eng.tracing))
	}
	for _, link := range n.cfg.ClearText() {
		n.log.LogAttrs(ctx, slog.LevelWarn, "connections to an engine on another machine may be unencrypted",
			slog.String(logkey.Setting, link.Setting), slog.String(logkey.Host, link.Host))
	}
	name := "stagedoord " + n.cfg.Node
	eng.db, err = postgres.Open(ctx, postgres.Config{
		URL: n.cfg.Database, MaxConns: n.cfg.MaxConns, Name: name, Tracer: tracer, RequireOrg: true, PgBouncer: n.cfg.PgBouncer,
	})
	if err != nil {
		return eng, err
	}
	n.onClose(eng.db.Close)
	pools := map[string]*postgres.DB{"main": eng.db}
	eng.keyring = eng.db
	if n.cfg.Keyring.Reveal() != n.cfg.Database.Reveal() && !n.cfg.Keyring.Empty() {
		eng.keyring, err = postgres.Open(ctx, postgres.Config{URL: n.cfg.Keyring, MaxConns: n.cfg.MaxConns, Name: name, PgBouncer: n.cfg.PgBouncer})
		if err != nil {
			return eng, fmt.Errorf("STAGEDOOR_KEYRING_URL: %w", err)
		}
		pools["keyring"] = eng.keyring
		n.onClose(eng.keyring.Close)
	}
	n.registry.MustRegister(postgres.Metrics(pools))
	if eng.redis, err = redis.Open(redis.Config{
		URL: n.cfg.Redis, Name: "stagedoord", CAFile: n.cfg.RedisCA, CertFile: n.cfg.RedisCert, KeyFile: n.cfg.RedisKey, Registry: n.registry,
	}); err != nil {
		return eng, err
	}
	n.onClose(eng.redis.Close)
	if eng.bus, err = pubsub.Open(pubsub.Config{URL: n.cfg.NATS, Name: name, Access: n.cfg.NATSAccess(), Log: n.log}); err != nil {
		return eng, err
	}
	n.onClose(eng.bus.Close)
	if n.cfg.Objects != "" {
		if eng.objects, err = objects.Open(ctx, n.cfg.ObjectStore()); err != nil {
			return eng, fmt.Errorf("STAGEDOOR_OBJECTS: %w", err)
		}
	}
	eng.jobs, err = river.NewClient(riverpgxv5.New(eng.db.Pool()), &river.Config{Logger: quiet(n.log), Middleware: jobTraces(eng.tracer())})
	if err != nil {
		return eng, fmt.Errorf("set up job queue: %w", err)
	}
	return eng, nil
}

// tracer returns nil unless traces are exported.
func (e engines) tracer() trace.Tracer {
	if e.tracing == nil {
		return nil
	}
	return e.tracing.Tracer(tracing.Name)
}

// newVault opens the key management service and returns what seals customer secrets.
func newVault(ctx context.Context, n *Node, eng engines) (*seal.Sealer, error) {
	var (
		now kms.Wrapper = noKMS{}
		old []kms.Wrapper
		err error
	)
	if n.cfg.KMS != "" {
		wraps, before := n.cfg.KMSSettings()
		if now, old, err = openKMS(ctx, wraps, before); err != nil {
			return nil, err
		}
	}
	sealer := seal.New(seal.Deps{
		Config: seal.Config{}, DB: eng.keyring.ForAllOrgs(), Separate: eng.keyringSeparate, KMS: now, OldKMS: old, Bus: eng.bus,
		Registry: n.registry, Log: n.log, Now: n.clock.Now,
	})
	eng.bus.OnConnect(sealer.Distrust)
	n.loop("seal", sealer.Run)
	return sealer, nil
}

// noKMS is used if no key management service is set. It can neither encrypt nor decrypt, which is enough to print
// documents.
type noKMS struct{}

func (noKMS) ID() string { return "none:none" }

func (noKMS) Wrap(context.Context, secret.String, []byte) (kms.Wrapped, error) {
	return kms.Wrapped{}, kms.ErrUnavailable
}

func (noKMS) Unwrap(context.Context, kms.Wrapped, []byte) (secret.String, error) {
	return secret.String{}, kms.ErrUnavailable
}

func (noKMS) Check(context.Context) (kms.Ref, error) { return kms.Ref{}, kms.ErrUnavailable }

// quiet returns a logger that drops everything below warnings, for the verbose job queue.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(atLeast{log.Handler(), slog.LevelWarn}) }

type atLeast struct {
	slog.Handler
	level slog.Level
}

func (h atLeast) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

func (h atLeast) WithAttrs(a []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(a), h.level}
}

func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.level}
}
