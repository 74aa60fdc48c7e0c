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

// alone gives a program a process group of its own. Then Ctrl-C in the terminal reaches only us, and we stop the programs in order.
func alone(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}
