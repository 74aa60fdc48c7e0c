package testenv

import (
	"cmp"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// PrivateRedis starts a Redis for this test only, which may stop, kill or empty it. It stores nothing on disk.
func PrivateRedis(t testing.TB) (*Process, secret.String) {
	t.Helper()
	p := startRedis(t, t.TempDir())
	return p, secret.New("redis://" + p.address + "/0")
}

// StoringRedis starts a Redis for this test only. On SAVE it writes its data, uncompressed, to its folder, and it loads
// them when it starts.
func StoringRedis(t testing.TB) *Store {
	t.Helper()
	dir := t.TempDir()
	p := startRedis(t, dir, "--rdbcompression", "no")
	return &Store{p, secret.New("redis://" + p.address + "/0"), dir}
}

// SaveRedis makes a Redis write its data to its folder.
func SaveRedis(t testing.TB, s *Store) {
	t.Helper()
	askRedis(t, s.address, "SAVE")
}

// redisBinary returns the name of the installed server.
func redisBinary(t testing.TB) string {
	t.Helper()
	requireEngines(t) // installs the programs
	if _, err := exec.LookPath("valkey-server"); err == nil {
		return "valkey-server"
	}
	return "redis-server"
}

func startRedis(t testing.TB, dir string, args ...string) *Process {
	t.Helper()
	binary, address := redisBinary(t), FreePort(t)
	args = append([]string{
		"--port", portOf(t, address), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir, "--loglevel", "warning",
	}, args...)
	return StartProcess(t, address, func() *exec.Cmd { return exec.Command(binary, args...) })
}

func portOf(t testing.TB, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	must.OK(t, err)
	return port
}

// askRedis sends a command to a server and returns its answer, one element a line.
func askRedis(t testing.TB, address string, command ...string) string {
	t.Helper()
	cli := strings.TrimSuffix(redisBinary(t), "server") + "cli"
	answer, err := exec.Command(cli, append([]string{"-e", "-h", "127.0.0.1", "-p", portOf(t, address)}, command...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, answer)
	}
	return strings.ReplaceAll(string(answer), "\r\n", "\n")
}

// Sentinels are a primary and a replica of Redis and three Sentinels that watch them.
type Sentinels struct {
	Primary, Replica *Process
	// URL names the Sentinels.
	URL secret.String
	t   testing.TB
}

// SentinelRedis starts a primary, a replica that has caught up, and three Sentinels, for this test only.
func SentinelRedis(t testing.TB) *Sentinels {
	t.Helper()
	s := &Sentinels{t: t, Primary: startRedis(t, t.TempDir())}
	port := portOf(t, s.Primary.address)
	s.Replica = startRedis(t, t.TempDir(), "--replicaof", "127.0.0.1 "+port)
	s.Catch()
	var all []string
	for range 3 {
		address, dir := FreePort(t), t.TempDir()
		conf := filepath.Join(dir, "sentinel.conf")
		must.OK(t, os.WriteFile(conf, []byte(strings.Join([]string{
			"port " + portOf(t, address), "bind 127.0.0.1", "dir " + dir, "sentinel monitor stagedoor 127.0.0.1 " + port + " 2",
			"sentinel down-after-milliseconds stagedoor 1000", "sentinel failover-timeout stagedoor 5000", "",
		}, "\n")), 0o600))
		StartProcess(t, address, func() *exec.Cmd { return exec.Command(redisBinary(t), conf, "--sentinel") })
		all = append(all, address)
	}
	// A Sentinel fails over only after it has found the replica and the other two.
	for _, address := range all {
		Await(t, "a Sentinel that knows the replica and the others", func() bool {
			about := askRedis(t, address, "SENTINEL", "MASTER", "stagedoor")
			return strings.Contains(about, "num-slaves\n1\n") && strings.Contains(about, "num-other-sentinels\n2\n")
		})
	}
	s.URL = secret.New("redis://" + all[0] + "/0?master_set=stagedoor&addr=" + all[1] + "&addr=" + all[2])
	return s
}

// Catch waits until the replica has everything that the primary has.
func (s *Sentinels) Catch() {
	s.t.Helper()
	var offset string
	for line := range strings.Lines(askRedis(s.t, s.Primary.address, "INFO", "replication")) {
		if after, ok := strings.CutPrefix(line, "master_repl_offset:"); ok {
			offset = strings.TrimSpace(after)
		}
	}
	want, err := strconv.ParseInt(offset, 10, 64)
	must.OK(s.t, err)
	Await(s.t, "a replica that has caught up", func() bool {
		// role, address of the primary, its port, state of the connection, offset
		role := strings.Split(askRedis(s.t, s.Replica.address, "ROLE"), "\n")
		if role[0] != "slave" || role[3] != "connected" {
			return false
		}
		has, err := strconv.ParseInt(role[4], 10, 64)
		must.OK(s.t, err)
		return has >= want
	})
}

// FailOver pauses the replica and cuts its connection, so that it lacks what during writes, and kills the primary. Then
// the replica continues, and the Sentinels promote it.
func (s *Sentinels) FailOver(during func()) {
	s.t.Helper()
	s.Catch()
	s.Replica.Signal(syscall.SIGSTOP)
	askRedis(s.t, s.Primary.address, "CLIENT", "KILL", "TYPE", "replica")
	during()
	s.Primary.Kill()
	s.Replica.Signal(syscall.SIGCONT)
	Await(s.t, "a promoted replica", func() bool { return strings.HasPrefix(askRedis(s.t, s.Replica.address, "ROLE"), "master\n") })
}

// ClusterRedis starts a Redis Cluster of three servers for this test only, and returns its URL.
func ClusterRedis(t testing.TB) secret.String {
	t.Helper()
	var all []string
	var firstBus string
	for range 3 {
		// The servers talk to each other on a second port. By default it is 10000 above that of the clients.
		bus := portOf(t, FreePort(t))
		firstBus = cmp.Or(firstBus, bus)
		all = append(all, startRedis(t, t.TempDir(), "--cluster-enabled", "yes", "--cluster-port", bus).address)
	}
	const slots = 1 << 14
	for i, address := range all {
		askRedis(t, address, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/3), strconv.Itoa((i+1)*slots/3-1))
		if i > 0 {
			askRedis(t, address, "CLUSTER", "MEET", "127.0.0.1", portOf(t, all[0]), firstBus)
		}
	}
	for _, address := range all {
		Await(t, "a cluster", func() bool {
			return strings.Contains(askRedis(t, address, "CLUSTER", "INFO"), "cluster_state:ok")
		})
	}
	return secret.New("redis://" + all[0] + "/0")
}
