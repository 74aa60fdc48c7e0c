//go:build unix

package dev

import (
	"os/exec"
	"syscall"
)

// runAs runs a program as another user.
func runAs(cmd *exec.Cmd, as account) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: as.uid, Gid: as.gid}}
}

// alone gives a program a process group of its own: a Ctrl-C of the terminal is for us, and we end the others in order.
func alone(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}
