//go:build !linux

package main

import "syscall"

// bound gives a command its group. Only Linux can tie its life to this process.
func bound(ownGroup bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: ownGroup}
}
