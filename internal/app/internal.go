package app

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
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

// internalHandler serves the internal listener, which customers must never reach. Only on a loopback address it serves
// metrics and profiles without a token: they reveal how much the service does, and profiles cost processor time.
func (n *Node) internalHandler(on net.Addr) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok", "version": version.String()})
	})
	mux.HandleFunc("GET /readyz", n.readyz)
	guarded := func(pattern string, h http.HandlerFunc) { mux.HandleFunc(pattern, n.requireToken(on, h)) }
	guarded("GET /metrics", promhttp.HandlerFor(n.registry, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP)
	guarded("GET /debug/pprof/", pprof.Index)
	guarded("GET /debug/pprof/cmdline", pprof.Cmdline)
	guarded("GET /debug/pprof/profile", pprof.Profile)
	guarded("GET /debug/pprof/symbol", pprof.Symbol)
	guarded("GET /debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" && !strings.HasPrefix(r.URL.Path, "/admin/") {
			mux.ServeHTTP(w, r)
			return
		}
		n.servers.admin.ServeHTTP(w, r) // It also answers unknown paths with a problem.
	})
}

// requireToken lets requests with STAGEDOOR_METRICS_TOKEN pass, and all requests if there is none and the listener is on
// a loopback address.
func (n *Node) requireToken(on net.Addr, next http.HandlerFunc) http.HandlerFunc {
	tcp, ok := on.(*net.TCPAddr)
	local := ok && tcp.IP.IsLoopback()
	want := sha256.Sum256([]byte(n.cfg.MetricsToken.Reveal()))
	return func(w http.ResponseWriter, r *http.Request) {
		token, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		have := sha256.Sum256([]byte(token))
		switch {
		case n.cfg.MetricsToken.Empty() && local:
			next(w, r)
		case n.cfg.MetricsToken.Empty():
			http.Error(w, "set STAGEDOOR_METRICS_TOKEN, or bind STAGEDOOR_INTERNAL_LISTEN to a loopback address", http.StatusForbidden)
		case !given || subtle.ConstantTimeCompare(have[:], want[:]) != 1:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "send STAGEDOOR_METRICS_TOKEN as a bearer token", http.StatusUnauthorized)
		default:
			next(w, r)
		}
	}
}

type readiness struct {
	Ready    bool             `json:"ready"`
	Draining bool             `json:"draining"`
	Checks   map[string]check `json:"checks"`
}

type check struct {
	// State is up, degraded (the service works without it, or no other node would do better) or down.
	State  string `json:"state"`
	TookMs int64  `json:"tookMs"`
	Detail string `json:"detail,omitempty"`
}

const readyTimeout = 2 * time.Second

var (
	errNoEgress = errors.New("no healthy proxy")
	errSchema   = errors.New("the schema is outdated")
	errClock    = errors.New("the clock is wrong")
	errWrites   = errors.New("the database accepts no writes")
)

// maxClockError is how far this machine's clock may differ from the database's. Data is safe at any difference, because
// n.clock decides about it; certificates and signatures are checked by the machine's clock.
const maxClockError = 2 * time.Second

// readyz reports whether this node should get traffic. It can serve without Redis, NATS or a proxy, but not with an
// outdated schema. A node that does not reach the database, whose clock is wrong or that cannot write leaves only if
// another node is healthy: what all nodes have in common does not get better when they all leave.
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
	wait.Go(func() {
		c := n.checkDatabase(ctx)
		mu.Lock()
		defer mu.Unlock()
		answer.Checks["postgres"] = c
	})
	probe("schema", "down", "the database lacks migrations of this version: run stagedoord migrate", n.schemaCurrent)
	probe("kms", "degraded", "the key management service is not responding; recently used accounts keep working for a while, new ones cannot be connected", n.sealer.Check)
	probe("redis", "degraded", "not responding; this node enforces its share of the limits on its own", n.engines.redis.Ping)
	probe("nats", "degraded", "not responding; changes reach this node a little later", n.engines.bus.Ping)
	unlessAlone := "down"
	if !n.operators.fleet.CanLeave() {
		unlessAlone = "degraded"
	}
	probe("clock", unlessAlone, fmt.Sprintf("this machine's clock is %s the database's by %s; set it with NTP",
		map[bool]string{true: "ahead of", false: "slower than"}[n.clock.Ahead() > 0], n.clock.Ahead().Abs().Round(time.Millisecond)), n.clockRight)
	probe("writes", unlessAlone, "the database has not accepted a write of this node for 20 seconds; look at its disk space", n.canWrite)
	probe("eventlog", "degraded", "the event log has not accepted a write of this node for 20 seconds, so events wait at the platforms; look at the disk of NATS",
		n.logWrites.check)
	if store := n.engines.objects; store != nil {
		probe("objects", "degraded", "the object store is not responding; jobs wait, and their results cannot be read", store.Check)
	}
	for _, region := range n.egress.Regions() {
		probe("egress_"+region, "degraded", "no proxy of the region is healthy; its accounts get 503 egress-unavailable", func(context.Context) error {
			if !n.egress.Available(region) {
				return errNoEgress
			}
			return nil
		})
	}
	wait.Wait()
	answer.Ready = !answer.Draining
	for _, c := range answer.Checks {
		answer.Ready = answer.Ready && c.State != "down"
	}
	status := http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, answer)
}

// checkDatabase checks the database. A node that has never reached it, and so does not know whether its schema is
// current, must not get traffic.
func (n *Node) checkDatabase(ctx context.Context) check {
	started := time.Now()
	inTime, cancel := context.WithTimeout(ctx, readyTimeout/2) // the others have time to answer
	defer cancel()
	err := n.engines.db.Ping(inTime)
	c := check{State: "up", TookMs: time.Since(started).Milliseconds()}
	switch {
	case err == nil:
	case !n.schemaSeen.Load():
		c.State, c.Detail = "down", "the database is not responding"
	case n.operators.fleet.OthersReachDatabase(ctx):
		c.State, c.Detail = "down", "the database is not responding to this node"
	default:
		c.State, c.Detail = "degraded", "the database is not responding to any node; calls that need it get 503 service-unavailable"
	}
	return c
}

func (n *Node) clockRight(context.Context) error {
	if n.clock.Ahead().Abs() > maxClockError {
		return errClock
	}
	return nil
}

func (n *Node) canWrite(context.Context) error {
	if !n.operators.fleet.Writing() {
		return errWrites
	}
	return nil
}

// isHealthy reports to the other nodes whether this one could take over their traffic.
func (n *Node) isHealthy() bool { return !n.draining.Load() && n.clock.Ahead().Abs() <= maxClockError }

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
