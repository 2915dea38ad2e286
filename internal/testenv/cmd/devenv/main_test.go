package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"compactor/internal/config"
	"compactor/internal/testenv"
)

func TestWhatIsPrintedIsAConfigurationThatLoads(t *testing.T) {
	state := &testenv.State{Pid: 1, PostgresDSN: "postgres://postgres:it's $HOME@127.0.0.1:5432/postgres?sslmode=disable", Lake: testenv.Lake{
		CatalogURI: "http://127.0.0.1:8181", S3Endpoint: "http://127.0.0.1:8333", AccessKey: "id", SecretKey: `hush'$(x)"`,
		Region: "us-east-1", Warehouse: "s3://analytics",
	}}
	state.PostgresDSN = strings.ReplaceAll(state.PostgresDSN, " ", "%20")
	var out bytes.Buffer
	require.NoError(t, describe(&out, "/tmp/my state.json", state))

	var exports, file []string
	inFile := false
	for line := range strings.Lines(out.String()) {
		text, indented := strings.CutPrefix(strings.TrimRight(line, "\n"), "  ")
		inFile = inFile || strings.Contains(line, "configuration file")
		switch {
		case !indented:
		case inFile:
			file = append(file, text)
		case strings.HasPrefix(text, "export "):
			exports = append(exports, text)
		}
	}
	require.Len(t, exports, 4)
	values := map[string]string{}
	for _, pair := range shell(t, exports) {
		name, value, _ := strings.Cut(pair, "=")
		values[name] = value
	}
	c, err := config.Load(config.Source{
		Path: "printed.yaml", Env: func(name string) (string, bool) { v, ok := values[name]; return v, ok },
		ReadFile: func(path string) ([]byte, error) {
			if path != "printed.yaml" {
				return nil, errors.New("no other file is read")
			}
			return []byte(strings.Join(file, "\n")), nil
		},
	})
	require.NoError(t, err, out.String())
	require.NoError(t, c.ValidateClaim())
	require.Equal(t, "/tmp/my state.json", values[testenv.StateVariable])
	require.Equal(t, "id:"+state.Lake.SecretKey, c.Catalog.Credential.Reveal())
	require.Equal(t, state.Lake.SecretKey, c.Storage.S3.SecretAccessKey.Reveal())
	require.Equal(t, state.PostgresDSN, c.Claim.Postgres.Reveal())
	require.Equal(t, []string{"http://127.0.0.1:8181", "s3://analytics", "id", "advisory"},
		[]string{string(c.Catalog.URI), c.Catalog.Warehouse, c.Storage.S3.AccessKeyID, c.Claim.Mode})
	require.Empty(t, c.Warnings)
}

// shell runs the lines in a shell and returns the environment they make.
func shell(t *testing.T, lines []string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.Join(lines, "\n")+"\nenv")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	env, err := cmd.Output()
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(env)), "\n")
}
