package app

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/migrations"
	"github.com/stagedoor/stagedoor/migrations/keyring"
	"github.com/stagedoor/stagedoor/version"
)

// internalHandler serves the internal listener, which customers must never reach.
func (n *Node) internalHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok", "version": version.String()})
	})
	mux.HandleFunc("GET /readyz", n.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(n.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" && !strings.HasPrefix(r.URL.Path, "/admin/") {
			mux.ServeHTTP(w, r)
			return
		}
		n.servers.admin.ServeHTTP(w, r) // It also answers unknown paths with a problem.
	})
}

type readiness struct {
	Ready    bool             `json:"ready"`
	Draining bool             `json:"draining"`
	Checks   map[string]check `json:"checks"`
}

type check struct {
	// State is up, degraded (the service works without it) or down.
	State  string `json:"state"`
	TookMs int64  `json:"tookMs"`
	Detail string `json:"detail,omitempty"`
}

const readyTimeout = 2 * time.Second

var (
	errNoEgress = errors.New("no healthy proxy")
	errSchema   = errors.New("the schema is outdated")
)

// readyz reports whether this node should get traffic. It can serve without Redis, NATS or a proxy, but not without the
// database or with an outdated schema.
func (n *Node) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	answer := readiness{Draining: n.draining.Load(), Checks: map[string]check{}}
	var (
		mu   sync.Mutex
		wait sync.WaitGroup
	)
	probe := func(name, whenDown, detail string, do func(context.Context) error) {
		wait.Go(func() {
			started := time.Now()
			err := do(ctx)
			c := check{State: "up", TookMs: time.Since(started).Milliseconds()}
			if err != nil {
				c.State, c.Detail = whenDown, detail
			}
			mu.Lock()
			defer mu.Unlock()
			answer.Checks[name] = c
		})
	}
	probe("postgres", "down", "the database is not responding", n.engines.db.Ping)
	probe("schema", "down", "the database lacks migrations of this version: run stagedoord migrate", n.schemaCurrent)
	probe("kms", "degraded", "the key management service is not responding; recently used accounts keep working for a while, new ones cannot be connected", n.sealer.Check)
	probe("redis", "degraded", "not responding; this node enforces its share of the limits on its own", n.engines.redis.Ping)
	probe("nats", "degraded", "not responding; changes reach this node a little later", n.engines.bus.Ping)
	for _, region := range n.egress.Regions() {
		probe("egress_"+region, "degraded", "no proxy of the region is healthy; its accounts get 503 egress-unavailable", func(context.Context) error {
			if !n.egress.Available(region) {
				return errNoEgress
			}
			return nil
		})
	}
	wait.Wait()
	answer.Ready = !answer.Draining && answer.Checks["postgres"].State == "up" && answer.Checks["schema"].State == "up"
	status := http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, answer)
}

func (n *Node) schemaCurrent(ctx context.Context) error {
	if n.schemaSeen.Load() {
		return nil // Migrations only move forward.
	}
	current, err := postgres.Current(ctx, n.engines.db, migrations.Files)
	if err != nil {
		return err
	}
	if current {
		current, err = postgres.CurrentSchema(ctx, n.engines.keyring, keyring.Files, keyring.Schema)
	}
	if err != nil {
		return err
	}
	if !current {
		return errSchema
	}
	n.schemaSeen.Store(true)
	return nil
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// The caller may have disconnected.
	_ = json.NewEncoder(w).Encode(body)
}
