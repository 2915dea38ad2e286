package testenv

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Versions of the servers; scripts/setup.sh installs them under the same names.
const (
	seaweedVersion    = "4.48"
	postgres18Version = "18.6.3"
)

// cacheVariable names the environment variable that moves the cache.
const cacheVariable = "COMPACTOR_CACHE"

// dirPrefix starts the name of every temporary folder; the process id of its owner follows.
const dirPrefix = "compactor-testenv-"

// cacheDir is where scripts/setup.sh puts servers. Root uses a folder that the user postgres can read as well.
func cacheDir() (string, error) {
	if dir := os.Getenv(cacheVariable); dir != "" {
		return dir, nil
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "compactor"), nil
	}
	if os.Geteuid() == 0 {
		return "/var/cache/compactor", nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find cache folder: %w", err)
	}
	return filepath.Join(home, ".cache", "compactor"), nil
}

// cached returns the path of a file in the cache, or an error that says how to get it.
func cached(elem ...string) (string, error) {
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(append([]string{dir}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find server, run scripts/setup.sh: %w", err)
	}
	return path, nil
}

// newDir makes a temporary folder that other users may enter, and removes the ones that dead processes left behind.
func newDir(kind string) (string, error) {
	sweepDirs()
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-%s-", dirPrefix, os.Getpid(), kind))
	if err != nil {
		return "", fmt.Errorf("make folder for %s: %w", kind, err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", fmt.Errorf("open folder %s: %w", dir, err)
	}
	return dir, nil
}

// sweepDirs removes folders whose owner was killed before it could clean up. A folder that cannot be removed stays.
func sweepDirs() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, dir := range dirs {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		pid, err := strconv.Atoi(owner)
		if err == nil && !alive(pid) {
			_ = os.RemoveAll(dir)
		}
	}
}

// postgresUser is the account that servers run under which refuse to run as root; nil when this process is not root.
func postgresUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("find user postgres, run scripts/setup.sh: %w", err)
	}
	uid, errUID := strconv.ParseUint(account.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(account.Gid, 10, 32)
	if errUID != nil || errGID != nil {
		return nil, fmt.Errorf("read ids of user postgres: %q, %q", account.Uid, account.Gid)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// giveTo makes the account the owner of the paths; without an account they stay as they are.
func giveTo(account *syscall.Credential, paths ...string) error {
	if account == nil {
		return nil
	}
	for _, path := range paths {
		if err := os.Chown(path, int(account.Uid), int(account.Gid)); err != nil {
			return fmt.Errorf("give %s to uid %d: %w", path, account.Uid, err)
		}
	}
	return nil
}

// randomName returns n random bytes in hex, for names and passwords.
func randomName(n int) string {
	data := make([]byte, n)
	_, _ = rand.Read(data) // Never returns an error.
	return hex.EncodeToString(data)
}
