package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// processSpec says what to run. Env is added to serverEnv.
type processSpec struct {
	Path string
	Args []string
	Env  []string
	Dir  string
	Log  string
	User *syscall.Credential
	// Files are open in the child as 3, 4 and so on.
	Files []*os.File
	// DeathSignal is what the kernel sends to the child when this process dies.
	DeathSignal syscall.Signal
}

// process is a child that was started and is reaped by a goroutine of its own.
type process struct {
	pid  int
	log  string
	done chan struct{}
	err  error // Set before done is closed.
}

// startProcess starts a child in a process group of its own, with both outputs appended to the log file.
//
// The kernel ties the death signal to the thread that forked, not to the process. The goroutine below therefore keeps its thread
// from before the fork until the child has been reaped; a thread that ended earlier would take the child with it.
func startProcess(spec processSpec) (*process, error) {
	logFile, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", spec.Path, err)
	}
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env = append(serverEnv(), spec.Env...)
	cmd.Dir = spec.Dir
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.ExtraFiles = spec.Files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: spec.DeathSignal, Credential: spec.User}

	p := &process{log: spec.Log, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- errors.Join(err, logFile.Close())
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Path, err)
	}
	p.pid = cmd.Process.Pid
	return p, nil
}

// serverEnv is the environment of this process without what a developer's shell may tell PostgreSQL's programs or SeaweedFS.
func serverEnv() []string {
	env := slices.DeleteFunc(os.Environ(), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return personal(name)
	})
	return append(env, "LC_ALL=C.UTF-8", "TZ=UTC")
}

// exited tells whether the child has been reaped.
func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop sends the signal and waits for the end of the child; after the grace time it kills the child and what it started.
func (p *process) stop(signal syscall.Signal, grace time.Duration) {
	if p.exited() {
		return
	}
	_ = syscall.Kill(p.pid, signal) // The child may have ended meanwhile; the wait below tells.
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.kill()
	}
}

// kill ends the child and all its descendants at once, as a power cut would, and waits until none of them is left.
// Descendants are collected first, because a server's workers leave its process group and lose their parent when it dies.
func (p *process) kill() {
	family := append([]int{p.pid}, descendants(p.pid)...)
	for _, pid := range family {
		_ = syscall.Kill(pid, syscall.SIGKILL) // Gone already is as good.
	}
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	<-p.done
	_ = waitUntil(10*time.Second, "end of killed processes", func() error {
		for _, pid := range family {
			if alive(pid) {
				return fmt.Errorf("process %d is alive", pid)
			}
		}
		return nil
	})
}

// logTail returns the end of the log, for messages about a server that did not start.
func (p *process) logTail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	const most = 3000
	if len(data) > most {
		data = data[len(data)-most:]
	}
	return string(data)
}

// waitReady calls ready until it returns nil. It gives up when the child ends or startLimit is over, with the last error and the log.
func (p *process) waitReady(what string, ready func() error) error {
	err := waitUntil(startLimit, what, func() error {
		if p.exited() {
			return errExited
		}
		return ready()
	})
	if err != nil {
		return fmt.Errorf("%w\nlog:\n%s", err, p.logTail())
	}
	return nil
}

// errExited ends a wait for a child that will never be ready.
var errExited = errors.New("process exited")

// waitUntil calls probe every few milliseconds until it returns nil or errExited, or the time is over.
func waitUntil(limit time.Duration, what string, probe func() error) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := probe()
		if err == nil {
			return nil
		}
		if errors.Is(err, errExited) {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return fmt.Errorf("wait for %s for %s: %w", what, limit, err)
		}
	}
}

// descendants lists the children of a process, their children, and so on.
func descendants(pid int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		if child, parent, _, ok := readStat(path); ok {
			children[parent] = append(children[parent], child)
		}
	}
	var found []int
	queue := []int{pid}
	for len(queue) > 0 {
		next := children[queue[0]]
		found = append(found, next...)
		queue = append(queue[1:], next...)
	}
	return found
}

// alive tells whether a process exists and is more than a zombie that waits for its parent.
func alive(pid int) bool {
	_, _, state, ok := readStat(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return ok && state != "Z" && state != "X"
}

// readStat reads pid, parent and state. The command name in parentheses may hold blanks, so the fields after it are counted from its end.
func readStat(path string) (pid, parent int, state string, ok bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, "", false
	}
	text := string(data)
	open, closing := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 1 || closing < open {
		return 0, 0, "", false
	}
	fields := strings.Fields(text[closing+1:])
	if len(fields) < 2 {
		return 0, 0, "", false
	}
	pid, errPid := strconv.Atoi(strings.TrimSpace(text[:open]))
	parent, errParent := strconv.Atoi(fields[1])
	return pid, parent, fields[0], errPid == nil && errParent == nil
}
