//go:build unix

package dev

import (
	"os/exec"
	"syscall"
)

// runAs runs a program as another user.
func runAs(cmd *exec.Cmd, as osUser) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: as.uid, Gid: as.gid}}
}

// setProcessGroup puts the program into its own process group. Ctrl-C in the terminal then reaches only this process,
// which stops the programs in order.
func setProcessGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}
