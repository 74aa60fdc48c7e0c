//go:build !linux

package dev

import (
	"os/exec"
	"syscall"
)

// diesWithUs does nothing: only Linux can do that. The next start finds what was left by its ports being taken, and chooses others.
func diesWithUs(*exec.Cmd, syscall.Signal) {}
