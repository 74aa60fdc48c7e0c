package testenv

import (
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Process is a program that a test may kill, pause and start again. It ends with the test.
type Process struct {
	t       testing.TB
	cmd     *exec.Cmd
	make    func() *exec.Cmd // builds the command for each start
	address string
	exited  chan struct{}
	output  *lastOutput
}

// StartProcess starts a program and waits until it listens on address.
func StartProcess(t testing.TB, address string, make func() *exec.Cmd) *Process {
	t.Helper()
	p := &Process{t: t, make: make, address: address}
	p.Start()
	t.Cleanup(p.Kill)
	return p
}

// Start starts the program again after Kill, and waits until it listens.
func (p *Process) Start() {
	p.t.Helper()
	p.cmd = p.make()
	if p.cmd.Stderr == nil {
		p.output = &lastOutput{}
		p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	}
	p.cmd.WaitDelay = time.Second                                        // a child of the program may live on for a while and hold its output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // do not outlive a test process that was killed
	if err := p.cmd.Start(); err != nil {
		p.t.Fatalf("start %s: %v", p.cmd.Path, err)
	}
	p.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait()
		close(exited)
	}(p.cmd, p.exited)
	p.awaitPort()
}

func (p *Process) awaitPort() {
	p.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		conn, err := net.DialTimeout("tcp", p.address, time.Second)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case <-p.exited:
			p.t.Fatalf("%s ended before it listened on %s\n%s", p.cmd.Path, p.address, p.output)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s does not listen on %s\n%s", p.cmd.Path, p.address, p.output)
		}
	}
}

// Signal sends a signal, such as SIGSTOP to pause the program and SIGCONT to resume it.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %s: %v", p.cmd.Path, err)
	}
}

// Kill sends SIGKILL and waits until the program has ended. It may be called twice.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited returns a channel that is closed when the program has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// lastOutput keeps the end of what a program writes, to explain why it did not start.
type lastOutput struct {
	mu   sync.Mutex
	text []byte
}

func (o *lastOutput) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, b...)
	o.text = o.text[max(0, len(o.text)-4096):]
	return len(b), nil
}

func (o *lastOutput) String() string {
	if o == nil {
		return "its output is in the log of the test"
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

// FreePort returns a loopback address with a free port, and reserves it among all test programs of this machine until
// the test ends: the program that is to listen on it may take seconds to start. The port is below the range from which
// Linux takes the ports of outgoing connections, and above the ports of make up and stagedoor dev.
func FreePort(t testing.TB) string {
	t.Helper()
	const first, last, tries = 23_000, 32_000, 100
	locks := filepath.Join(os.TempDir(), "stagedoor-test-ports")
	if err := os.MkdirAll(locks, 0o700); err != nil {
		t.Fatal(err)
	}
	for range tries {
		port := strconv.Itoa(first + rand.IntN(last-first))
		lock, err := os.OpenFile(filepath.Join(locks, port), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		address := net.JoinHostPort("127.0.0.1", port)
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			if l, err := net.Listen("tcp", address); err == nil {
				_ = l.Close()
				t.Cleanup(func() { _ = lock.Close() })
				return address
			}
		}
		_ = lock.Close()
	}
	t.Fatal("found no free port")
	return ""
}

// PrivateNATS starts a NATS server without JetStream for this test only.
func PrivateNATS(t testing.TB) (*Process, secret.String) {
	t.Helper()
	requireEngines(t)
	address := FreePort(t)
	_, port, err := net.SplitHostPort(address)
	must.OK(t, err)
	root, err := Root()
	must.OK(t, err)
	p := StartProcess(t, address, func() *exec.Cmd {
		return exec.Command(filepath.Join(root, ".dev", "bin", "nats-server"), "-a", "127.0.0.1", "-p", port)
	})
	return p, secret.New("nats://" + address)
}
