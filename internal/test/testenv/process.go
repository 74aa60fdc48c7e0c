package testenv

import (
	"net"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// Process is a program that a test may hurt.
type Process struct {
	t       testing.TB
	cmd     *exec.Cmd
	make    func() *exec.Cmd
	address string
	exited  chan struct{}
}

// StartProcess starts a program that listens on an address, and waits until it does.
func StartProcess(t testing.TB, address string, make func() *exec.Cmd) *Process {
	t.Helper()
	p := &Process{t: t, make: make, address: address}
	p.Start()
	t.Cleanup(p.Kill)
	return p
}

// Start starts the program again after Kill.
func (p *Process) Start() {
	p.t.Helper()
	p.cmd = p.make()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
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
			p.t.Fatalf("%s ended before it listened on %s", p.cmd.Path, p.address)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s does not listen on %s", p.cmd.Path, p.address)
		}
	}
}

// Signal sends a signal: SIGSTOP and SIGCONT pause and resume.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %s: %v", p.cmd.Path, err)
	}
}

// Kill ends the program at once. Killing it twice is harmless.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// PID is the program's.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the program has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// FreePort finds a port that nothing listens on.
func FreePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// PrivateRedis starts a Redis that only this test uses, and so may stop, kill or empty.
func PrivateRedis(t testing.TB) (*Process, secret.String) {
	t.Helper()
	need(t) // installs the programs
	address := FreePort(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	binary := "redis-server"
	if _, err := exec.LookPath("valkey-server"); err == nil {
		binary = "valkey-server"
	}
	p := StartProcess(t, address, func() *exec.Cmd {
		return exec.Command(binary, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--loglevel", "warning")
	})
	return p, secret.New("redis://" + address + "/0")
}

// PrivateNATS starts a NATS server that only this test uses.
func PrivateNATS(t testing.TB) (*Process, secret.String) {
	t.Helper()
	need(t)
	address := FreePort(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	p := StartProcess(t, address, func() *exec.Cmd {
		return exec.Command(filepath.Join(root, ".dev", "bin", "nats-server"), "-a", "127.0.0.1", "-p", port)
	})
	return p, secret.New("nats://" + address)
}
