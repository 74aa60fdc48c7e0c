package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// laptop is a developer's machine without the repository: a directory with the programs, and a home directory.
type laptop struct {
	t          *testing.T
	home, data string
	program    string
	stderr     bytes.Buffer
}

func newLaptop(t *testing.T) *laptop {
	t.Helper()
	_ = testenv.Redis(t) // installs the engines
	l := &laptop{t: t, home: t.TempDir()}
	l.data = filepath.Join(l.home, "data")
	programs := filepath.Join(l.home, "programs")
	must.OK(t, os.Mkdir(programs, 0o755))
	for _, name := range []string{"stagedoor", "stagedoord", "sandboxd"} {
		must.OK(t, os.Symlink(buildCommand(t, name), filepath.Join(programs, name)))
	}
	must.OK(t, os.Symlink(testenv.Path(t, ".dev", "bin", "nats-server"), filepath.Join(programs, "nats-server")))
	l.program = filepath.Join(programs, "stagedoor")
	return l
}

func (l *laptop) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.WithoutCancel(l.t.Context()), l.program, args...)
	cmd.Dir = l.home
	cmd.Env = []string{"HOME=" + l.home, "STAGEDOOR_KEYCHAIN=off", "PATH=" + filepath.Dir(l.program) + ":" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return cmd
}

// up is the output of `stagedoor dev` when everything runs.
type up struct {
	URL    string `json:"url"`
	APIKey string `json:"apiKey"`
}

// start runs `stagedoor dev` and waits until it is up.
func (l *laptop) start() (*exec.Cmd, up) {
	l.t.Helper()
	cmd := l.command("dev", "--data", l.data, "--json")
	cmd.Stderr = &l.stderr
	stdout, err := cmd.StdoutPipe()
	must.OK(l.t, err)
	must.OK(l.t, cmd.Start())
	l.t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		_ = cmd.Wait()
		l.t.Fatalf("stagedoor dev did not start: %v\n%s", err, &l.stderr)
	}
	var u up
	if err := json.Unmarshal(line, &u); err != nil || u.URL == "" || u.APIKey == "" {
		l.t.Fatalf("stagedoor dev printed %q: %v", line, err)
	}
	return cmd, u
}

// ports returns the ports that `stagedoor dev` uses, by name.
func (l *laptop) ports() map[string]int {
	l.t.Helper()
	var state struct{ Ports map[string]int }
	text, err := os.ReadFile(filepath.Join(l.data, "state.json"))
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err != nil || len(state.Ports) == 0 {
		l.t.Fatalf("no ports: %v", err)
	}
	return state.Ports
}

// awaitStopped waits until all ports are free.
func (l *laptop) awaitStopped() {
	l.t.Helper()
	for name, port := range l.ports() {
		await(l.t, name+" has ended", 2*time.Minute, func() bool {
			listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
			return err == nil && listener.Close() == nil
		})
	}
}

// One command runs the whole product from an empty directory: an account connects, and an event arrives. Ctrl-C stops
// everything, and the next start has the same address, key and data. A killed command leaves no process running.
func TestDevRunsTheWholeProduct(t *testing.T) {
	// Not parallel: it starts another set of engines.
	l := newLaptop(t)
	began := time.Now()
	cmd, first := l.start()
	t.Logf("up in %s", time.Since(began).Round(time.Millisecond))
	reply, err := testnode.Do(t.Context(), http.MethodPost, first.URL+"/v1/connect/login", first.APIKey, map[string]any{"email": "ok@sandbox.test", "password": "good", "label": "Maya"})
	if err != nil || reply.Status != http.StatusAccepted {
		t.Fatalf("connect: %d %s %v", reply.Status, reply.Body, err)
	}
	attempt, _ := reply.JSON()["attempt_id"].(string)
	await(t, "the account is connected", 60*time.Second, func() bool {
		reply, err := testnode.Do(t.Context(), http.MethodGet, first.URL+"/v1/connect/login/"+attempt, first.APIKey, nil)
		return err == nil && reply.JSON()["state"] == "completed_success"
	})
	// These commands use the profile that stagedoor dev saved.
	if text, err := l.command("trigger", "message", "-a", "Maya", "--set", "text=Hello").CombinedOutput(); err != nil {
		t.Fatalf("trigger: %v\n%s", err, text)
	}
	heard, err := l.command("listen", "--since", "all", "--events", "message", "--count", "1", "--timeout", "60s", "--json").Output()
	if err != nil || !strings.Contains(string(heard), `"text":"Hello"`) {
		t.Fatalf("listen: %v\n%s", err, heard)
	}
	if text, err := l.command("dev", "--data", l.data).CombinedOutput(); err == nil || !strings.Contains(string(text), "another stagedoor dev uses") {
		t.Errorf("a second stagedoor dev in the same directory: %v\n%s", err, text)
	}

	must.OK(t, cmd.Process.Signal(os.Interrupt))
	if e, ok := errors.AsType[*exec.ExitError](cmd.Wait()); !ok || e.ExitCode() != 130 {
		t.Errorf("stagedoor dev exited with %v, want 130\n%s", e, &l.stderr)
	}
	l.awaitStopped()

	cmd, second := l.start()
	if second != first {
		t.Errorf("the address and key are %v after a restart, were %v", second, first)
	}
	reply, err = testnode.Do(t.Context(), http.MethodGet, second.URL+"/v1/accounts", second.APIKey, nil)
	if err != nil || !strings.Contains(string(reply.Body), `"Maya"`) {
		t.Errorf("the account is missing after a restart: %s %v", reply.Body, err)
	}
	must.OK(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	l.awaitStopped()
}
