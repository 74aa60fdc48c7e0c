package dev

import "os/exec"

// Stubs that make the package compile; the command does not run on Windows.
func runAs(*exec.Cmd, osUser)   {}
func setProcessGroup(*exec.Cmd) {}
