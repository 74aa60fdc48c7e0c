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

// child is a program that runs as long as this one.
type child struct {
	name string
	cmd  *exec.Cmd
	// signal is what asks it to stop.
	signal syscall.Signal
	log    string
	exited chan struct{}
}

// stack is everything that was started, in order.
type stack struct {
	dir string

	mu       sync.Mutex
	children []*child
	closers  []io.Closer
	// fell is sent the first child that ended by itself.
	fell chan *child
	// stopping is set once ends are meant.
	stopping bool
}

func newStack(dir string) *stack { return &stack{dir: dir, fell: make(chan *child, 1)} }

// start starts a program. Its words go to a file in the log directory, and to also if that is not nil.
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
	alone(cmd)
	diesWithUs(cmd, signal)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	s.mu.Lock()
	s.children = append(s.children, c)
	s.mu.Unlock()
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		_ = log.Close()
		close(c.exited)
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.stopping {
			select {
			case s.fell <- c:
			default:
			}
		}
	}()
	return nil
}

// wait waits until a started program does its work. It fails when that takes too long, or the program ends.
func (s *stack) wait(ctx context.Context, name string, limit time.Duration, works func(context.Context) bool) error {
	deadline := time.Now().Add(limit)
	for !works(ctx) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c := <-s.fell:
			return s.fault(c, "ended as soon as it was started")
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return s.fault(s.find(name), fmt.Sprintf("was not ready within %s", limit))
		}
	}
	return nil
}

func (s *stack) find(name string) *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.children {
		if c.name == name {
			return c
		}
	}
	return &child{name: name}
}

// fault is about a program that does not do its work, with the end of its log.
func (s *stack) fault(c *child, what string) error {
	text, err := os.ReadFile(c.log)
	if err != nil {
		text = nil
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	lines = lines[max(0, len(lines)-15):]
	return &core.Fault{Code: core.ExitOther, Text: c.name + " " + what + ":\n  " + strings.Join(lines, "\n  "), Hint: "All of it is in " + c.log + ". If its data are broken: stagedoor dev --reset"}
}

// stop ends everything, the last first.
func (s *stack) stop() {
	s.mu.Lock()
	s.stopping = true
	children, closers := s.children, s.closers
	s.mu.Unlock()
	for i := len(children) - 1; i >= 0; i-- {
		children[i].stop()
	}
	for _, c := range closers {
		_ = c.Close() // it ends with us anyway
	}
}

// stop asks a program to end, and ends it when it does not.
func (c *child) stop() {
	const patience = 15 * time.Second
	if err := c.cmd.Process.Signal(c.signal); errors.Is(err, os.ErrProcessDone) {
		return
	}
	select {
	case <-c.exited:
	case <-time.After(patience):
		_ = c.cmd.Process.Kill() // it may have ended just now
		<-c.exited
	}
}
