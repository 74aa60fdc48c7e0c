//go:build !linux

package dev

import (
	"os/exec"
	"syscall"
)

// signalOnParentDeath does nothing, because only Linux supports it. If this process is killed, its children keep
// running and keep their ports; the next run then chooses other ports.
func signalOnParentDeath(*exec.Cmd, syscall.Signal) {}
