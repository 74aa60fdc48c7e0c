package dev

import (
	"os/exec"
	"syscall"
)

// signalOnParentDeath makes the kernel signal the program when this process is killed and cannot stop it.
func signalOnParentDeath(cmd *exec.Cmd, signal syscall.Signal) { cmd.SysProcAttr.Pdeathsig = signal }
