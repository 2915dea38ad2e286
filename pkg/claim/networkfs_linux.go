package claim

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// fuseMagic is the type statfs(2) gives for every file system in user space.
const fuseMagic = 0x65735546

// networkName maps the types that statfs(2) gives for file systems shared between
// machines to their names. The numbers are those of linux/magic.h and of the file
// systems' own sources.
func networkName(magic int64) string {
	switch uint32(magic) {
	case 0x6969:
		return "nfs"
	case 0x517b, 0xff534d42, 0xfe534d42:
		return "smb"
	case 0x01021997:
		return "9p"
	case 0x00c36400:
		return "ceph"
	case 0x5346414f, 0x6b414653:
		return "afs"
	case 0x73757245:
		return "coda"
	case 0x564c:
		return "ncp"
	case 0x0bd00bd0:
		return "lustre"
	case 0x01161970:
		return "gfs2"
	case 0x7461636f:
		return "ocfs2"
	case 0x47504653:
		return "gpfs"
	case 0x19830326:
		return "beegfs"
	case 0x786f4256:
		return "vboxsf"
	}
	return ""
}

// networkFileSystem returns the name of the network file system dir is on, "" for
// a local one. Of the file systems in user space only those on a block device
// count as local: the kernel cannot tell what the others stand for.
func networkFileSystem(dir string) (string, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return "", fmt.Errorf("statfs %s: %w", dir, err)
	}
	if int64(st.Type) != fuseMagic { //nolint:unconvert // The field's type differs between architectures.
		return networkName(int64(st.Type)), nil //nolint:unconvert // The field's type differs between architectures.
	}
	name, err := mountType(dir)
	if err != nil || name == "fuseblk" {
		return "", err
	}
	return name, nil
}

// mountType reads the type of the mount dir is on from the kernel's list.
func mountType(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", dir, err)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", fmt.Errorf("resolve %s: %w", dir, err)
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("read mounts: %w", err)
	}
	defer f.Close() //nolint:errcheck // It was only read.
	return findMount(bufio.NewScanner(f), path)
}

// findMount returns the type of the last mount whose point is the longest prefix
// of path.
func findMount(lines *bufio.Scanner, path string) (string, error) {
	best, bestType := -1, ""
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		const pointField = 4
		if !ok || len(left) <= pointField || len(right) == 0 {
			continue
		}
		point := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(left[pointField])
		under := point == "/" || path == point || strings.HasPrefix(path, point+"/")
		if under && len(point) >= best {
			best, bestType = len(point), right[0]
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("read mounts: %w", err)
	}
	if best < 0 {
		return "", fmt.Errorf("no mount found for %s", path)
	}
	return bestType, nil
}
