package app

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river/rivertype"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Writable is writable, for tests.
type Writable struct{ writable }

const MaxUnwritable = maxUnwritable

func (w *Writable) Record(err error) { w.record(err) }

func (w *Writable) Check(ctx context.Context) error { return w.check(ctx) }

// Registry returns the registry of all metrics.
func (n *Node) Registry() *prometheus.Registry { return n.registry }

// CheckKeyring checks where the keys of live organisations are.
func CheckKeyring(ctx context.Context, main, keyring *postgres.DB) error {
	return engines{db: main, keyring: keyring}.checkKeyring(ctx, org.New(org.Deps{DB: main}))
}

// Server returns the HTTP server of the public listener.
func Server(h http.Handler, log *slog.Logger) *http.Server { return server(h, log, publicWriteTimeout) }

// JobTraces returns the middleware that traces jobs.
func JobTraces(tracer trace.Tracer) []rivertype.Middleware { return jobTraces(tracer) }
