package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

const deliveryOrgs = 8

// deliveries is a node that delivers webhooks, with engines that write to disk before they answer, and a receiver.
type deliveries struct {
	node     *testnode.Node
	db       *postgres.DB
	seal     *seal.Sealer
	nats     string
	pids     struct{ node, nats, postgres, receiver int }
	shown    *board
	file     string
	receiver string
	orgs     []testnode.Org
	list     []hooked
	accounts string // the file that sources read
}

// hooked is an account with a webhook.
type hooked struct {
	owner   testnode.Org
	account id.Account
}

func newDeliveries(b *testing.B) *deliveries {
	b.Helper()
	raiseFileLimit()
	d := &deliveries{accounts: filepath.Join(b.TempDir(), "accounts")}
	d.shown, d.file = newBoard(b)
	var database secret.String
	database, d.pids.postgres = durablePostgres(b)
	d.nats, d.pids.nats = durableNATS(b)
	d.receiver, d.pids.receiver = d.startReceiver(b, freeAddress(b))
	_, redis := testenv.PrivateRedis(b)
	keyset := filepath.Join(b.TempDir(), "keyset.json")
	keys, err := kms.OpenLocal(kms.LocalConfig{File: keyset, Create: true})
	must.OK(b, err)
	d.node = testnode.Processes(b, 1, testnode.Setup{
		Database: database, Redis: redis, NATS: secret.New(d.nats), EventLog: "jetstream", Log: os.Stderr, Keyset: keyset,
		Env: []string{"STAGEDOOR_LOG_LEVEL=warn", "STAGEDOOR_ROLES=api,worker", "STAGEDOOR_EVENT_LOG_BYTES=536870912"},
	})[0]
	d.pids.node = d.node.Process.PID()
	d.db, err = postgres.Open(b.Context(), postgres.Config{URL: database, MaxConns: 4, Name: "bench"})
	must.OK(b, err)
	b.Cleanup(d.db.Close)
	d.seal = seal.New(seal.Deps{DB: d.db, KMS: keys, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	const many = 100_000_000
	for range deliveryOrgs {
		d.orgs = append(d.orgs, d.node.NewOrg(b, map[string]int{"callsPerMinute": many, "callsPerMonth": 1_000_000_000, "maxAccounts": 1_000_000}))
	}
	return d
}

// durablePostgres starts a private PostgreSQL with production settings. The one of testenv does not sync to disk and
// logs every statement.
func durablePostgres(b *testing.B) (secret.String, int) {
	b.Helper()
	store := testenv.PrivatePostgres(b, io.Discard)
	store.Stop()
	address := strings.TrimPrefix(store.URL.Reveal(), "postgres://stagedoor@")
	address, _, _ = strings.Cut(address, "/")
	_, port, err := net.SplitHostPort(address)
	must.OK(b, err)
	args := []string{"-D", store.Dir}
	for _, setting := range []string{
		"listen_addresses=127.0.0.1", "port=" + port, "unix_socket_directories=", "shared_buffers=256MB", "max_wal_size=1GB", "max_connections=100",
	} {
		args = append(args, "-c", setting)
	}
	command := append([]string{filepath.Join(testenv.PostgresPrograms(b), "postgres")}, args...)
	if os.Getuid() == 0 {
		command = append([]string{"setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--pdeathsig=KILL", "--"}, command...)
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = "/"
	pid := start(b, cmd)
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // after SIGKILL its shared memory would remain
		_ = cmd.Wait()
	})
	awaitPort(b, address)
	return store.URL, pid
}

// durableNATS starts a private NATS server that writes every message to disk before it acknowledges it.
func durableNATS(b *testing.B) (string, int) {
	b.Helper()
	dir, address := b.TempDir(), freeAddress(b)
	config := filepath.Join(dir, "nats.conf")
	text := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, sync_interval: always, max_file_store: 4GB, max_memory_store: 64MB }\n", address, dir)
	must.OK(b, os.WriteFile(config, []byte(text), 0o600))
	pid := start(b, exec.Command(testenv.Path(b, ".dev", "bin", "nats-server"), "-c", config))
	awaitPort(b, address)
	return "nats://" + address, pid
}

func (d *deliveries) startReceiver(b *testing.B, address string) (string, int) {
	b.Helper()
	pid := start(b, peer("receiver", boardVariable+"="+d.file, peerVariable+"_ADDRESS="+address))
	awaitPort(b, address)
	return "http://" + address, pid
}

// startLoop creates the bare stream and runs the bare loop on it.
func (d *deliveries) startLoop(b *testing.B, workers int) int {
	b.Helper()
	js := bareJetStream(b, d.nats)
	_, err := js.CreateStream(b.Context(), jetstream.StreamConfig{
		Name: bareStream, Subjects: []string{"bare.>"}, Storage: jetstream.FileStorage, Replicas: 1, MaxBytes: 512 << 20, Discard: jetstream.DiscardOld,
	})
	must.OK(b, err)
	return start(b, peer("bare delivery", boardVariable+"="+d.file, "BENCH_NATS="+d.nats, "BENCH_WORKERS="+strconv.Itoa(workers), "BENCH_URL="+d.receiver+"/timed/0"))
}

// publish runs a source and waits until it ends.
func (d *deliveries) publish(b *testing.B, p plan) outcome {
	b.Helper()
	p.NATS, p.Accounts = d.nats, d.accounts
	text, err := json.Marshal(p)
	must.OK(b, err)
	cmd := peer("source", boardVariable+"="+d.file, peerVariable+"_PLAN="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("source: %v\n%s", err, out)
	}
	var o outcome
	first, _, _ := bytes.Cut(out, []byte("\n"))
	if err := json.Unmarshal(first, &o); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return o
}

// await waits until a counter of received requests reaches n.
func (d *deliveries) await(b *testing.B, what *atomic.Int64, n int64, patience time.Duration) {
	b.Helper()
	for deadline := time.Now().Add(patience); what.Load() < n; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("%d requests were received, want %d", what.Load(), n)
		}
	}
}

// connect creates n accounts, each with a webhook. url returns the URL of the n-th webhook.
func (d *deliveries) connect(b *testing.B, n int, url func(n int) string) []hooked {
	b.Helper()
	list := make([]hooked, n)
	var owners, names []string
	for i := range list {
		list[i] = hooked{d.orgs[i%len(d.orgs)], id.New[id.Account]()}
		owners, names = append(owners, list[i].owner.ID), append(names, string(list[i].account))
	}
	// There is no platform to sign in to. Events need only the account's id, and the account is not probed.
	_, err := d.db.Pool().Exec(b.Context(), `
		INSERT INTO account (org_id, id, upstream_id, label, state, state_changed_at, username, display_name, avatar_url, region, reference_id,
			remember_credentials, created_at, session_version, sealed_version, sign_in, attempt_id, attempt_kind)
		SELECT o, a, a, 'bench', 'active', now(), 'bench', 'bench', '', 'us', '', false, now(), 1, 1, 1, 'cat_bench', 'cookie'
		FROM unnest($1::text[], $2::text[]) AS t (o, a)`, owners, names)
	if err == nil {
		_, err = d.db.Pool().Exec(b.Context(), `INSERT INTO account_health (org_id, account_id, shard)
			SELECT o, a, 0 FROM unnest($1::text[], $2::text[]) AS t (o, a)`, owners, names)
	}
	must.OK(b, err)
	var (
		next    atomic.Int64
		putting sync.WaitGroup
	)
	for range 8 {
		putting.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && !b.Failed(); i = int(next.Add(1)) - 1 {
				if err := d.seal.Prepare(b.Context(), id.Org(list[i].owner.ID), string(list[i].account)); err != nil {
					b.Error(err)
					return
				}
				d.call(b, list[i], http.MethodPut, "", map[string]any{"url": url(i), "ordering": "strict"})
			}
		})
	}
	putting.Wait()
	if b.Failed() {
		b.FailNow()
	}
	d.list = append(d.list, list...)
	var text bytes.Buffer
	for _, h := range d.list {
		fmt.Fprintf(&text, "%s %s\n", h.owner.ID, h.account)
	}
	must.OK(b, os.WriteFile(d.accounts, text.Bytes(), 0o600))
	d.awaitRows(b, "webhook_lane", 0, 2*time.Minute)
	return list
}

// call makes a request to an account's webhook.
func (d *deliveries) call(b *testing.B, h hooked, method, path string, body any) map[string]any {
	b.Helper()
	r, err := testnode.Do(b.Context(), method, d.node.URL+"/v1/accounts/"+string(h.account)+"/webhook"+path, h.owner.Key, body)
	if err != nil || r.Status >= 300 {
		b.Errorf("%s webhook%s: %d %s %v", method, path, r.Status, r.Body, err)
	}
	return r.JSON()
}

func (d *deliveries) number(b *testing.B, query string, args ...any) (n int64) {
	b.Helper()
	must.OK(b, d.db.Pool().QueryRow(b.Context(), query, args...).Scan(&n))
	return n
}

func (d *deliveries) awaitRows(b *testing.B, table string, rows int64, patience time.Duration) {
	b.Helper()
	for deadline := time.Now().Add(patience); d.number(b, "SELECT count(*) FROM "+table) != rows; <-time.After(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("%s has %d rows, want %d", table, d.number(b, "SELECT count(*) FROM "+table), rows)
		}
	}
}

// size returns the disk space of a table in bytes, with its partitions and indexes.
func (d *deliveries) size(b *testing.B, table string) int64 {
	b.Helper()
	return d.number(b, `SELECT coalesce(sum(pg_total_relation_size(relid))::bigint, pg_total_relation_size($1)) FROM pg_partition_tree($1)`, table)
}

// costs holds CPU times of processes.
type costs struct{ node, nats, postgres, receiver time.Duration }

func (d *deliveries) costs(b *testing.B, sender int) costs {
	b.Helper()
	return costs{processCPU(b, sender), processCPU(b, d.pids.nats), familyCPU(b, d.pids.postgres), processCPU(b, d.pids.receiver)}
}

func (c costs) since(before costs) costs {
	return costs{c.node - before.node, c.nats - before.nats, c.postgres - before.postgres, c.receiver - before.receiver}
}

// familyCPU returns the CPU time of a process and its children, including those that have exited.
func familyCPU(b *testing.B, pid int) time.Duration {
	b.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	must.OK(b, err)
	total := processCPU(b, pid) + statTimes(b, pid, 13) // its own, and that of children that have exited
	for _, child := range strings.Fields(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			if _, err := os.Stat("/proc/" + child); err == nil {
				total += processCPU(b, n)
			}
		}
	}
	return total
}
