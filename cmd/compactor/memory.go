package main

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"compactor/internal/config"
)

// The memory budget when --memory is not given.
const (
	defaultMemoryMost  = 4 << 30
	defaultMemoryLeast = 256 << 20
	defaultMemoryShare = 4 // of 4 parts, three are used
)

// What the budget has to hold besides the rewrite itself.
const (
	// programMemory are the pages of the program and what it always needs.
	programMemory = 64 << 20
	// storeMemory is what the store keeps for one group: the parts of an upload
	// in flight and the read-ahead of the file that is being read.
	storeMemory = 48 << 20
	// groupMemory is the least that is worth giving to a further group.
	groupMemory = 256 << 20
)

// reserved is the part of the budget that is not for the rewrite.
func reserved(parallel int) int64 { return programMemory + int64(parallel)*storeMemory }

// parallelWithin lets no more groups be rewritten at a time than the budget has
// room for.
func parallelWithin(memory int64, parallel int) int {
	return max(1, min(parallel, int(memory/groupMemory)))
}

// memoryBudget is the value of --memory, or three quarters of what the
// container or the machine has, at most 4 GiB.
func memoryBudget(flag string, given bool) (int64, error) {
	if given {
		n, err := config.ParseSize(flag)
		if err != nil {
			return 0, usagef("--memory %q: %w", flag, err)
		}
		if int64(n) < defaultMemoryLeast {
			return 0, usagef("--memory %q: at least 256MiB are needed", flag)
		}

		return int64(n), nil
	}
	limit := availableMemory(os.ReadFile)
	if limit <= 0 {
		return defaultMemoryMost / defaultMemoryShare, nil
	}

	return max(defaultMemoryLeast, min(defaultMemoryMost, limit/defaultMemoryShare*(defaultMemoryShare-1))), nil
}

// availableMemory reads the smallest limit that applies: those of the process's
// cgroup and of the groups around it (v2 or v1), and the machine's memory. 0 when
// none can be read.
func availableMemory(readFile func(string) ([]byte, error)) int64 {
	limit := int64(0)
	take := func(n int64) {
		if n > 0 && (limit == 0 || n < limit) {
			limit = n
		}
	}
	for _, path := range limitFiles(readFile) {
		if raw, err := readFile(path); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64); err == nil {
				take(n)
			}
		}
	}
	if raw, err := readFile("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(raw)) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
				if kib, err := strconv.ParseInt(f[1], 10, 64); err == nil {
					take(kib << 10)
				}
			}
		}
	}

	return limit
}

// limitFiles names the files that can hold a limit. A container sees its own group
// as the root of the tree; a service of systemd sees the whole tree, with its own
// group somewhere below.
func limitFiles(readFile func(string) ([]byte, error)) []string {
	const v2, v1 = "/sys/fs/cgroup", "/sys/fs/cgroup/memory"
	files := []string{path.Join(v2, "memory.max"), path.Join(v1, "memory.limit_in_bytes")}
	raw, err := readFile("/proc/self/cgroup")
	if err != nil {
		return files
	}
	for line := range strings.Lines(string(raw)) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		tree, file := v1, "memory.limit_in_bytes"
		switch {
		case id == "0" && controllers == "":
			tree, file = v2, "memory.max"
		case !slices.Contains(strings.Split(controllers, ","), "memory"):
			continue
		}
		for group = path.Join("/", group); group != "/"; group = path.Dir(group) {
			files = append(files, path.Join(tree, group, file))
		}
	}

	return files
}
