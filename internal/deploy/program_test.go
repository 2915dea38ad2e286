package deploy

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// read returns a file of the repository.
func read(t *testing.T, elem ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(append([]string{root}, elem...)...))
	require.NoError(t, err)

	return string(raw)
}

// tool runs a program and returns its status and what it wrote.
func tool(t *testing.T, env []string, name string, args ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var status *exec.ExitError
	if !errors.As(err, &status) {
		require.NoError(t, err, "%s: %s", name, &out)
	}

	return cmd.ProcessState.ExitCode(), out.String()
}

// cached is a program that scripts/setup.sh put into the cache. The script
// knows where that is.
func cached(t *testing.T, variable string) string {
	t.Helper()
	status, out := tool(t, nil, "bash", "-c", `. "$0/scripts/lib.sh" && printf %s "$`+variable+`"`, root)
	require.Zero(t, status, out)
	require.FileExists(t, out, "run scripts/setup.sh check")

	return out
}

// programDir holds the program; TestMain makes and removes it.
const programDir = "DEPLOY_PROGRAM_DIR"

// program builds the program once for all tests that ask for it.
var program = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(os.Getenv(programDir), "compactor")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", bin, "./cmd/compactor")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	if err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}

	return bin, nil
})

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "compactor-deploy-")
	if err == nil {
		err = os.Setenv(programDir, dir)
	}
	if err != nil {
		panic(err)
	}
	status := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(status) //nolint:forbidigo // The end of the test program.
}

// environment are values for the secrets that a configuration leaves out.
func environment() []string {
	return []string{
		"COMPACTOR_CATALOG_URI=http://127.0.0.1:1", // Nobody listens there.
		"COMPACTOR_STORAGE_S3_ACCESS_KEY_ID=key", "COMPACTOR_STORAGE_S3_SECRET_ACCESS_KEY=secret",
		"COMPACTOR_CLAIM_POSTGRES=postgres://compactor@127.0.0.1:1/claims",
	}
}

// understood gives a command line and a configuration to the program. A dry run
// with a catalog that nobody serves ends with 1; a flag or a key that does not
// exist would end it with 2.
func understood(t *testing.T, args []string, config string) {
	t.Helper()
	bin, err := program()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "compactor.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	status, out := tool(t, environment(), bin, "config", "validate", "--config", file)
	require.Zero(t, status, out)

	args = slices.Clone(args)
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, "/etc/compactor/compactor.yaml", file)
	}
	env := append(environment(), "COMPACTOR_CONFIG="+file)
	status, out = tool(t, env, bin, append(args, "--dry-run")...)
	require.Equal(t, 1, status, "%v: %s", args, out)
	require.Contains(t, out, "connection refused")
}
