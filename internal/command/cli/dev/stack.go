package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/profile"
)

// public names the port of the API and the dashboard.
const public = "public"

// defaultPorts are the preferred ports by name. They are those of scripts/up, so that the documentation
// is right here too.
var defaultPorts = map[string]int{
	public: 18080, "internal": 18081, "postgres": 15432, "redis": 16379, "nats": 14222,
	"sandbox": 18200, "proxy-us": 18301, "proxy-uk": 18302,
}

// regions are the egress regions and the loopback address that each proxy connects from.
var regions = []struct{ name, source string }{{"us", "127.0.1.1"}, {"uk", "127.0.2.1"}}

// runStack starts all programs, shows the server's log, and stops everything when the context ends or a program exits.
func (d *dev) runStack(ctx context.Context) (err error) {
	found, err := findPrograms()
	if err != nil {
		return err
	}
	dir, err := d.dataDir()
	if err != nil {
		return err
	}
	db, err := openDatabase(found.postgres, dir)
	if err != nil {
		return err
	}
	if err := d.deleteData(ctx, dir, db); err != nil {
		return err
	}
	saved, err := openState(dir)
	if err != nil {
		return err
	}
	if err := saved.choosePorts(defaultPorts, d.port); err != nil {
		return err
	}
	s := newStack(dir)
	defer func() {
		d.app.Out.Say("Stopping…")
		s.stop()
		d.app.Out.Say("Stopped. The data is in %s. Delete it with --reset.", dir)
	}()
	r := &run{dev: d, stack: s, state: saved, found: found, db: db}
	spin := d.app.Out.Spin("Starting…")
	defer spin.Stop()
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"Starting PostgreSQL, Redis and NATS…", r.startEngines}, {"Starting the sandbox platform…", r.startPlatform},
		{"Migrating the database…", r.migrate}, {"Starting the server…", r.startServer},
		{"Creating an organisation…", r.createOrganisation},
	} {
		spin.Text(step.what)
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	spin.Stop()
	if err := d.announce(ctx, endpoint{URL: r.url(), APIKey: saved.APIKey}); err != nil {
		return err
	}
	r.log.setVisible(true)
	defer r.log.setVisible(false) // the shutdown is in the log file only
	select {
	case <-ctx.Done():
		return ctx.Err()
	case c := <-s.crashed:
		return s.fault(c, "exited")
	}
}

// deleteData deletes all data for --reset, after confirmation. It deletes only what stagedoor dev creates, and nothing
// in a directory that has no state.json.
func (d *dev) deleteData(ctx context.Context, dir string, db *database) error {
	if !d.reset {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, "state.json")); err != nil {
		return nil //nolint:nilerr // nothing to delete, or not a data directory of this command
	}
	consequence := "This deletes all data of stagedoor dev in " + dir + "."
	if err := d.app.Confirm(ctx, consequence, filepath.Base(dir), d.confirm); err != nil {
		return err
	}
	if _, err := openState(dir); err != nil { // fails while another run uses the directory
		return err
	}
	if err := db.remove(); err != nil {
		return err
	}
	for _, name := range []string{"log", "nats", "redis", "sandbox.db", "sandbox.db-wal", "sandbox.db-shm", "keyset.json", "nats.conf", "state.json", "lock"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("delete the data: %w", err)
		}
	}
	return nil
}

// run holds the parts of one run outside a clone.
type run struct {
	dev   *dev
	stack *stack
	state *state
	found programs
	db    *database
	log   *logView
}

func (r *run) url() string      { return "http://" + r.state.address(public) }
func (r *run) internal() string { return "http://" + r.state.address("internal") }

// command returns a program that the end of ctx does not kill; the stack stops it in order.
func (r *run) command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, args...)
	cmd.Dir = r.stack.dir
	return cmd
}

func (r *run) startEngines(ctx context.Context) error {
	if err := r.db.prepare(ctx); err != nil {
		return err
	}
	// SIGINT is PostgreSQL's fast shutdown, which does not wait for clients to disconnect.
	if err := r.stack.start("postgres", r.db.server(ctx, r.state.Ports["postgres"]), syscall.SIGINT, nil); err != nil {
		return err
	}
	// Redis persists nothing: old counters of the current minute would be worse than none.
	redis := r.command(ctx, r.found.redis, "--bind", "127.0.0.1", "--port", strconv.Itoa(r.state.Ports["redis"]), "--save", "", "--appendonly", "no")
	if err := r.stack.start("redis", redis, syscall.SIGTERM, nil); err != nil {
		return err
	}
	conf := fmt.Sprintf("server_name: stagedoor-dev\nlisten: %q\njetstream {\n  store_dir: %q\n  sync_interval: always\n  max_file_store: 4GB\n}\n",
		r.state.address("nats"), filepath.Join(r.stack.dir, "nats"))
	if err := profile.WriteFile(filepath.Join(r.stack.dir, "nats.conf"), []byte(conf)); err != nil {
		return err
	}
	if err := r.stack.start("nats", r.command(ctx, r.found.nats, "-c", "nats.conf"), syscall.SIGTERM, nil); err != nil {
		return err
	}
	for _, name := range []string{"postgres", "redis", "nats"} {
		if err := r.stack.wait(ctx, name, 30*time.Second, r.isListening(name)); err != nil {
			return err
		}
	}
	return nil
}

// isListening returns a function that reports whether a named port accepts connections.
func (r *run) isListening(name string) func(context.Context) bool {
	return func(ctx context.Context) bool {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", r.state.address(name))
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}
}

// startPlatform starts the sandbox platform and, in this process, one proxy per region.
func (r *run) startPlatform(ctx context.Context) error {
	var sources []string
	for _, region := range regions {
		sources = append(sources, region.source+"="+region.name)
	}
	sandbox := r.command(ctx, r.found.sandbox, "-addr", r.state.address("sandbox"),
		"-data", filepath.Join(r.stack.dir, "sandbox.db"), "-regions", strings.Join(sources, ","))
	if err := r.stack.start("sandbox", sandbox, syscall.SIGTERM, nil); err != nil {
		return err
	}
	for _, region := range regions {
		p := &proxy{source: region.source, target: r.state.address("sandbox"), password: r.state.ProxyPass}
		closer, err := p.serve(ctx, r.state.address("proxy-"+region.name))
		if err != nil {
			return fmt.Errorf("start the proxy of %s: %w", region.name, err)
		}
		r.stack.closers = append(r.stack.closers, closer)
	}
	return r.stack.wait(ctx, "sandbox", 30*time.Second, r.isListening("sandbox"))
}

// settings returns the server's environment. STAGEDOOR_ variables of this process are for clients or other servers, so
// they are not passed on.
func (r *run) settings() []string {
	env := without(r.dev.app.Env, "STAGEDOOR_")
	var egress []string
	for _, region := range regions {
		egress = append(egress, fmt.Sprintf("%s=http://%s:%s@%s", region.name, proxyUser, r.state.ProxyPass, r.state.address("proxy-"+region.name)))
	}
	return append(env,
		"DATABASE_URL=postgres://stagedoor@"+r.state.address("postgres")+"/stagedoor?sslmode=disable",
		"REDIS_URL=redis://"+r.state.address("redis")+"/0",
		"NATS_URL=nats://"+r.state.address("nats"),
		"STAGEDOOR_LISTEN="+r.state.address(public), "STAGEDOOR_INTERNAL_LISTEN="+r.state.address("internal"), "STAGEDOOR_PUBLIC_URL="+r.url(),
		"STAGEDOOR_SANDBOX_URL=http://"+r.state.address("sandbox"), "STAGEDOOR_EGRESS="+strings.Join(egress, " "),
		"STAGEDOOR_KMS=local:"+filepath.Join(r.stack.dir, "keyset.json"), "STAGEDOOR_NODE=dev", "STAGEDOOR_DEV=true", "STAGEDOOR_DRAIN_DELAY=0s",
		"STAGEDOOR_LOG_FORMAT=json", "STAGEDOOR_ADMIN_TOKEN="+r.state.AdminToken, "STAGEDOOR_IP_HASH_KEY="+r.state.IPHashKey,
		"STAGEDOOR_OBJECTS="+r.objects(),
	)
}

// objects returns the folder with the results of jobs.
func (r *run) objects() string { return filepath.Join(r.stack.dir, "objects") }

func (r *run) migrate(ctx context.Context) error {
	// PostgreSQL accepts connections before it accepts queries, for example during recovery after a
	// crash. Retry until then.
	var text []byte
	for deadline := r.dev.app.Now().Add(20 * time.Second); ; {
		cmd := exec.CommandContext(ctx, r.found.server, "migrate")
		cmd.Dir, cmd.Env = r.stack.dir, r.settings()
		var err error
		if text, err = cmd.CombinedOutput(); err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if r.dev.app.Now().After(deadline) || !bytes.Contains(text, []byte("starting up")) {
			return &core.Fault{
				Code: core.ExitOther, Text: "cannot migrate the database:\n" + strings.TrimSpace(string(text)),
				Hint: "To start over without the data: stagedoor dev --reset", Err: err,
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (r *run) startServer(ctx context.Context) error {
	if err := os.MkdirAll(r.objects(), 0o700); err != nil {
		return fmt.Errorf("create the folder for results of jobs: %w", err)
	}
	cmd := r.command(ctx, r.found.server, "serve")
	cmd.Env = r.settings()
	var also io.Writer
	r.log = &logView{show: r.dev.showLogLine}
	if !r.dev.noLogs {
		also = r.log
	}
	if err := r.stack.start("stagedoord", cmd, syscall.SIGTERM, also); err != nil {
		return err
	}
	return r.stack.wait(ctx, "stagedoord", 60*time.Second,
		func(ctx context.Context) bool { return isReady(ctx, r.internal()) })
}

// createOrganisation creates the organisation of the test key and invites its owner, unless an earlier run did.
func (r *run) createOrganisation(ctx context.Context) error {
	if r.state.APIKey != "" {
		return nil
	}
	var made struct {
		Org struct{ ID string }
		Key struct{ Key string }
	}
	org := map[string]string{"name": "Dev", "plan": "growth", "environment": "sandbox", "contactEmail": ownerEmail}
	if err := r.callAdmin(ctx, "/admin/v1/orgs", org, &made); err != nil {
		return err
	}
	owner := map[string]string{"email": ownerEmail, "role": "owner"}
	if err := r.callAdmin(ctx, "/admin/v1/orgs/"+made.Org.ID+"/invitations", owner, nil); err != nil {
		return err
	}
	r.state.APIKey = made.Key.Key
	return r.state.save()
}

// callAdmin posts to the operators' API and decodes the response into a value, unless that is nil.
func (r *run) callAdmin(ctx context.Context, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.internal()+path, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("create the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+r.state.AdminToken)
	res, err := (&http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		return core.Unreachable(r.internal(), err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return core.Unreachable(r.internal(), err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("the server rejected %s: %s", path, bytes.TrimSpace(answer))
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

// logView shows the server's output line by line while it is visible. The rest, such as the startup, is only
// in the log file.
type logView struct {
	show func(string)

	mu      sync.Mutex
	visible bool
	// partial is the beginning of a line.
	partial []byte
}

func (v *logView) setVisible(visible bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.visible = visible
}

// Write implements io.Writer. It never fails.
func (v *logView) Write(text []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.partial = append(v.partial, text...)
	for {
		end := bytes.IndexByte(v.partial, '\n')
		if end < 0 {
			return len(text), nil
		}
		if v.visible {
			v.show(string(v.partial[:end]))
		}
		v.partial = v.partial[end+1:]
	}
}
