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

// public is the name of the port that customers use.
const public = "public"

// ports are what needs one, and which one it would like: those of a clone, so that documents are true here, too.
var ports = map[string]int{public: 18080, "internal": 18081, "postgres": 15432, "redis": 16379, "nats": 14222, "sandbox": 18200, "proxy-us": 18301, "proxy-uk": 18302}

// regions are the ways out, and the loopback address each leaves from.
var regions = []struct{ name, source string }{{"us", "127.0.1.1"}, {"uk", "127.0.2.1"}}

// alone starts everything itself, shows the log, and stops it again.
func (d *dev) alone(ctx context.Context) (err error) {
	found, err := findPrograms()
	if err != nil {
		return err
	}
	dir, err := d.dir()
	if err != nil {
		return err
	}
	db, err := openDatabase(found.postgres, dir)
	if err != nil {
		return err
	}
	if err := d.forget(ctx, dir, db); err != nil {
		return err
	}
	kept, err := openState(dir)
	if err != nil {
		return err
	}
	if err := kept.choosePorts(ports, d.port); err != nil {
		return err
	}
	s := newStack(dir)
	defer func() {
		d.app.Out.Say("Stopping…")
		s.stop()
		d.app.Out.Say("Stopped. The data are kept in %s; --reset forgets them.", dir)
	}()
	r := &run{dev: d, stack: s, state: kept, found: found, db: db}
	spin := d.app.Out.Spin("Starting…")
	defer spin.Stop()
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"Starting PostgreSQL, Redis and NATS…", r.engines}, {"Starting the sandbox platform…", r.outside},
		{"Preparing the database…", r.migrate}, {"Starting the server…", r.serve}, {"Making an organisation…", r.organisation},
	} {
		spin.Text(step.what)
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	spin.Stop()
	if err := d.present(ctx, place{URL: r.url(), APIKey: kept.APIKey}); err != nil {
		return err
	}
	r.talk.open(true)
	defer r.talk.open(false) // how it stops is in its log
	select {
	case <-ctx.Done():
		return ctx.Err()
	case c := <-s.fell:
		return s.fault(c, "has ended")
	}
}

// forget deletes all data if --reset says so, and somebody means it.
func (d *dev) forget(ctx context.Context, dir string, db *database) error {
	if !d.reset {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, "state.json")); err != nil {
		return nil //nolint:nilerr // there is nothing to forget, and nothing of somebody else's is deleted
	}
	if err := d.app.Confirm(ctx, "All data of stagedoor dev in "+dir+" will be deleted.", filepath.Base(dir), d.confirm); err != nil {
		return err
	}
	if _, err := openState(dir); err != nil { // refuses while another one runs there
		return err
	}
	if err := db.forget(); err != nil {
		return err
	}
	for _, name := range []string{"log", "nats", "redis", "sandbox.db", "sandbox.db-wal", "sandbox.db-shm", "keyset.json", "nats.conf", "state.json", "lock"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("forget the data: %w", err)
		}
	}
	return nil
}

// run is what one start of everything knows.
type run struct {
	dev   *dev
	stack *stack
	state *state
	found programs
	db    *database
	talk  *talk
}

func (r *run) url() string      { return "http://" + r.state.address(public) }
func (r *run) internal() string { return "http://" + r.state.address("internal") }

// command is a program that outlives the context: it is stopped in its turn.
func (r *run) command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, args...)
	cmd.Dir = r.stack.dir
	return cmd
}

func (r *run) engines(ctx context.Context) error {
	if err := r.db.prepare(ctx); err != nil {
		return err
	}
	// INT is PostgreSQL's fast stop: it does not wait for clients.
	if err := r.stack.start("postgres", r.db.server(ctx, r.state.Ports["postgres"]), syscall.SIGINT, nil); err != nil {
		return err
	}
	// Nothing of Redis is kept: counters of the running minute that are older are worse than none.
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
		if err := r.stack.wait(ctx, name, 30*time.Second, r.listens(name)); err != nil {
			return err
		}
	}
	return nil
}

// listens says whether somebody answers on a port.
func (r *run) listens(name string) func(context.Context) bool {
	return func(ctx context.Context) bool {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", r.state.address(name))
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}
}

// outside starts the platform and the proxies on the way to it.
func (r *run) outside(ctx context.Context) error {
	var known []string
	for _, region := range regions {
		known = append(known, region.source+"="+region.name)
	}
	sandbox := r.command(ctx, r.found.sandbox, "-addr", r.state.address("sandbox"), "-data", filepath.Join(r.stack.dir, "sandbox.db"), "-regions", strings.Join(known, ","))
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
	return r.stack.wait(ctx, "sandbox", 30*time.Second, r.listens("sandbox"))
}

// settings are the server's environment: ours without what is set for clients and other servers.
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
	)
}

func (r *run) migrate(ctx context.Context) error {
	// A port that answers is not yet a database that takes queries, right after a crash for example.
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
			return &core.Fault{Code: core.ExitOther, Text: "the database could not be prepared:\n" + strings.TrimSpace(string(text)), Hint: "If the data may go: stagedoor dev --reset", Err: err}
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (r *run) serve(ctx context.Context) error {
	cmd := r.command(ctx, r.found.server, "serve")
	cmd.Env = r.settings()
	var also io.Writer
	r.talk = &talk{show: r.dev.show}
	if !r.dev.noLogs {
		also = r.talk
	}
	if err := r.stack.start("stagedoord", cmd, syscall.SIGTERM, also); err != nil {
		return err
	}
	return r.stack.wait(ctx, "stagedoord", 60*time.Second, func(ctx context.Context) bool { return ready(ctx, r.internal()) })
}

// organisation makes the one that the test key is of, unless an earlier run did.
func (r *run) organisation(ctx context.Context) error {
	if r.state.APIKey != "" {
		return nil
	}
	var made struct {
		Org struct{ ID string }
		Key struct{ Key string }
	}
	err := r.admin(ctx, "/admin/v1/orgs", map[string]string{"name": "Dev", "plan": "growth", "environment": "sandbox", "contactEmail": person}, &made)
	if err != nil {
		return err
	}
	if err := r.admin(ctx, "/admin/v1/orgs/"+made.Org.ID+"/invitations", map[string]string{"email": person, "role": "owner"}, nil); err != nil {
		return err
	}
	r.state.APIKey = made.Key.Key
	return r.state.save()
}

// admin makes a call to the operators' API.
func (r *run) admin(ctx context.Context, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.internal()+path, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+r.state.AdminToken)
	res, err := (&http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		return core.Unreachable(ctx, r.internal(), err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return core.Unreachable(ctx, r.internal(), err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("the new server refused %s: %s", path, bytes.TrimSpace(answer))
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

// talk takes what the server says and shows it line by line once everything is up; what it says while it starts is in its log.
type talk struct {
	show func(string)

	mu    sync.Mutex
	up    bool
	begun []byte
}

// open begins to show, or ends it.
func (t *talk) open(up bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.up = up
}

// Write takes some lines, or a part of one.
func (t *talk) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun = append(t.begun, text...)
	for {
		end := bytes.IndexByte(t.begun, '\n')
		if end < 0 {
			return len(text), nil
		}
		if t.up {
			t.show(string(t.begun[:end]))
		}
		t.begun = t.begun[end+1:]
	}
}
