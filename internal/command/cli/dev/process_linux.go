package dev

import (
	"os/exec"
	"syscall"
)

// diesWithUs has the kernel stop a program when this one is killed and cannot do it.
func diesWithUs(cmd *exec.Cmd, signal syscall.Signal) { cmd.SysProcAttr.Pdeathsig = signal }
