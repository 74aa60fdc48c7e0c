package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// Cgroup limits the processor time and the memory of processes.
type Cgroup struct {
	t testing.TB
	// cpu and memory are its folders; the same one in version 2.
	cpu, memory string
	unified     bool
}

const cgroups = "/sys/fs/cgroup"

var groups atomic.Int64

// CanLimit returns why this process may not limit others; nil if it may.
func CanLimit() error {
	if os.Getuid() != 0 {
		return errors.New("only root can make a cgroup")
	}
	if _, err := os.Stat(filepath.Join(cgroups, "memory", "cgroup.procs")); err == nil {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(cgroups, "cgroup.controllers"))
	if err == nil && (!strings.Contains(string(text), "cpu") || !strings.Contains(string(text), "memory")) {
		err = errors.New("cgroups do not limit processor time and memory here")
	}
	return err
}

// NewCgroup makes a group without limits. It ends with the test, whose processes must have ended before.
func NewCgroup(t testing.TB) *Cgroup {
	t.Helper()
	const prefix = "stagedoor-"
	name := fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), groups.Add(1))
	c := &Cgroup{t: t, cpu: filepath.Join(cgroups, "cpu", name), memory: filepath.Join(cgroups, "memory", name)}
	if _, err := os.Stat(filepath.Join(cgroups, "memory", "cgroup.procs")); err != nil {
		c.unified, c.cpu = true, filepath.Join(cgroups, name)
		c.memory = c.cpu
		c.write(filepath.Join(cgroups, "cgroup.subtree_control"), "+cpu +memory")
	}
	for _, dir := range []string{c.cpu, c.memory} {
		left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), prefix+"*"))
		for _, old := range left {
			if isLeft(filepath.Base(old), prefix) {
				_ = os.Remove(old)
			}
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
	}
	return c
}

// Wrap makes a command start in the group.
func (c *Cgroup) Wrap(cmd *exec.Cmd) {
	const join = `for f in "$1" "$2"; do echo $$ >"$f"; done; shift 2; exec "$@"`
	files := []string{filepath.Join(c.cpu, "cgroup.procs"), filepath.Join(c.memory, "cgroup.procs")}
	cmd.Args = slices.Concat([]string{"sh", "-c", join, "sh"}, files, []string{cmd.Path}, cmd.Args[1:])
	cmd.Path = "/bin/sh"
}

// LimitCPU allows the group a percentage of one core.
func (c *Cgroup) LimitCPU(percent int) {
	if c.unified {
		c.write(filepath.Join(c.cpu, "cpu.max"), fmt.Sprintf("%d 100000", percent*1000))
		return
	}
	c.write(filepath.Join(c.cpu, "cpu.cfs_period_us"), "100000")
	c.write(filepath.Join(c.cpu, "cpu.cfs_quota_us"), strconv.Itoa(percent*1000))
}

// LimitMemory allows the group a quarter of a megabyte more than it has now: the kernel kills it when it needs more.
func (c *Cgroup) LimitMemory() {
	usage, limit := "memory.usage_in_bytes", "memory.limit_in_bytes"
	if c.unified {
		usage, limit = "memory.current", "memory.max"
	}
	text, err := os.ReadFile(filepath.Join(c.memory, usage))
	if err != nil {
		c.t.Error(err)
		return
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		c.t.Error(err)
		return
	}
	c.write(filepath.Join(c.memory, limit), strconv.Itoa(n+256<<10))
}

// Release removes all limits.
func (c *Cgroup) Release() {
	if c.unified {
		c.write(filepath.Join(c.cpu, "cpu.max"), "max 100000")
		c.write(filepath.Join(c.memory, "memory.max"), "max")
		return
	}
	c.write(filepath.Join(c.cpu, "cpu.cfs_quota_us"), "-1")
	c.write(filepath.Join(c.memory, "memory.limit_in_bytes"), "-1")
}

func (c *Cgroup) write(path, text string) {
	if err := os.WriteFile(path, []byte(text), 0); err != nil {
		c.t.Error(err)
	}
}
