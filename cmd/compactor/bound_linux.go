package main

import "syscall"

// bound ties a command to this process: when this process dies, so does the
// command, which would go on without a claim otherwise.
func bound(ownGroup bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: ownGroup, Pdeathsig: syscall.SIGKILL}
}
