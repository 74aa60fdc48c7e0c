package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// child is a program that this process started.
type child struct {
	name string
	cmd  *exec.Cmd
	// signal asks the program to stop.
	signal syscall.Signal
	// log is the path of its log file.
	log string
	// exited is closed when the program has ended.
	exited chan struct{}
}

// stack is the set of started programs and servers, in the order of their start.
type stack struct {
	dir string

	mu       sync.Mutex
	children []*child
	closers  []io.Closer
	// crashed receives the first child that ends before stop is called.
	crashed chan *child
	// stopping is set by stop; from then on the end of a child is expected.
	stopping bool
}

func newStack(dir string) *stack { return &stack{dir: dir, crashed: make(chan *child, 1)} }

// start starts a program. Its output goes to a file in the log directory, and to also if that is not nil.
func (s *stack) start(name string, cmd *exec.Cmd, signal syscall.Signal, also io.Writer) error {
	c := &child{name: name, cmd: cmd, signal: signal, log: filepath.Join(s.dir, "log", name+".log"), exited: make(chan struct{})}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open a log: %w", err)
	}
	cmd.Stdout = log
	if also != nil {
		cmd.Stdout = io.MultiWriter(log, also)
	}
	cmd.Stderr = cmd.Stdout
	setProcessGroup(cmd)
	signalOnParentDeath(cmd, signal)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	s.mu.Lock()
	s.children = append(s.children, c)
	s.mu.Unlock()
	go func() {
		_ = cmd.Wait() // the log says why it ended
		_ = log.Close()
		close(c.exited)
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.stopping {
			select {
			case s.crashed <- c:
			default:
			}
		}
	}()
	return nil
}

// wait polls until a started program is ready. It returns a fault if that takes longer than limit or any child ends.
func (s *stack) wait(ctx context.Context, name string, limit time.Duration, ready func(context.Context) bool) error {
	deadline := time.Now().Add(limit)
	for !ready(ctx) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c := <-s.crashed:
			return s.fault(c, "exited during startup")
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return s.fault(s.findChild(name), fmt.Sprintf("was not ready within %s", limit))
		}
	}
	return nil
}

func (s *stack) findChild(name string) *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.children {
		if c.name == name {
			return c
		}
	}
	return &child{name: name}
}

// fault returns the fault of a program that failed, with the last 15 lines of its log.
func (s *stack) fault(c *child, what string) error {
	text, err := os.ReadFile(c.log)
	if err != nil {
		text = nil
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	lines = lines[max(0, len(lines)-15):]
	return &core.Fault{
		Code: core.ExitOther, Text: c.name + " " + what + ":\n  " + strings.Join(lines, "\n  "),
		Hint: "The complete log is in " + c.log + ". If the data is damaged, delete it: stagedoor dev --reset",
	}
}

// stop ends all children, the last one first, and then closes the servers in this process.
func (s *stack) stop() {
	s.mu.Lock()
	s.stopping = true
	children, closers := s.children, s.closers
	s.mu.Unlock()
	for i := len(children) - 1; i >= 0; i-- {
		children[i].stop()
	}
	for _, c := range closers {
		_ = c.Close() // it ends with this process anyway
	}
}

// stop asks a program to end and kills it if it does not end in time.
func (c *child) stop() {
	const gracePeriod = 15 * time.Second
	if err := c.cmd.Process.Signal(c.signal); errors.Is(err, os.ErrProcessDone) {
		return
	}
	select {
	case <-c.exited:
	case <-time.After(gracePeriod):
		_ = c.cmd.Process.Kill() // an error means that it has just ended
		<-c.exited
	}
}
