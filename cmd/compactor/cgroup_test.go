package main

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
)

// The budget goes by the smallest limit around the process: a container's, a
// systemd service's, or the machine's memory.
func TestMemoryThatIsAvailable(t *testing.T) {
	machine := "MemTotal:       16777216 kB\nMemFree:          100 kB\n"
	const gib = int64(1 << 30)
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"nothing can be read": {nil, 0},
		"machine":             {map[string]string{"/proc/meminfo": machine}, 16 * gib},
		"container, v2": {map[string]string{
			"/proc/meminfo": machine, "/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "2147483648\n",
		}, 2 * gib},
		"container without a limit": {map[string]string{
			"/proc/meminfo": machine, "/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "max\n",
		}, 16 * gib},
		"container, v1": {map[string]string{
			"/proc/meminfo": machine, "/sys/fs/cgroup/memory/memory.limit_in_bytes": "3221225472\n",
		}, 3 * gib},
		"container, v1 without a limit": {map[string]string{
			"/proc/meminfo": machine, "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 16 * gib},
		"service": {map[string]string{
			"/proc/meminfo": machine, "/proc/self/cgroup": "0::/system.slice/compactor.service\n",
			"/sys/fs/cgroup/system.slice/compactor.service/memory.max": "1073741824\n",
			"/sys/fs/cgroup/system.slice/memory.max":                   "max\n",
		}, gib},
		"slice around the service": {map[string]string{
			"/proc/meminfo": machine, "/proc/self/cgroup": "0::/batch.slice/compactor.service\n",
			"/sys/fs/cgroup/batch.slice/compactor.service/memory.max": "max\n",
			"/sys/fs/cgroup/batch.slice/memory.max":                   "4294967296\n",
		}, 4 * gib},
		"service, v1": {map[string]string{
			"/proc/meminfo":     machine,
			"/proc/self/cgroup": "5:cpu,cpuacct:/other\n4:memory:/system.slice/compactor.service\n1:name=systemd:/x\n",
			"/sys/fs/cgroup/memory/system.slice/compactor.service/memory.limit_in_bytes": "536870912\n",
			"/sys/fs/cgroup/memory/other/memory.limit_in_bytes":                          "1\n",
		}, gib / 2},
		"group outside of the namespace": {map[string]string{
			"/proc/meminfo": machine, "/proc/self/cgroup": "0::/../../outside\n", "/sys/fs/cgroup/memory.max": "2147483648\n",
		}, 2 * gib},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, availableMemory(func(path string) ([]byte, error) {
				text, ok := c.files[path]
				if !ok {
					return nil, fs.ErrNotExist
				}

				return []byte(text), nil
			}))
		})
	}
}
