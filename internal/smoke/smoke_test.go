package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The smoke job as somebody runs it who has only the repository: with servers
// that the script starts, on the program that it builds.
func TestSmokeWithServersOfItsOwn(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "../../scripts/smoke.sh")
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "SMOKE_") || strings.HasPrefix(v, "COMPACTOR_TESTENV=")
	})
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "500 data files, 3 delete files, 21 snapshots, 197938 rows")
	require.Contains(t, string(out), "3 data files, 0 delete files, 2 snapshots, 197938 rows")
	require.True(t, strings.HasSuffix(strings.TrimSpace(string(out)), "everything is as it should be"))
}

// A server that cannot be reached is named, and nothing but the error is said.
func TestSmokeNamesWhatItCannotReach(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ uri, want string }{
		{"", "set SMOKE_CATALOG_URI or COMPACTOR_TESTENV"},
		{"http://127.0.0.1:1", "127.0.0.1:1"},
	} {
		var out strings.Builder
		err := run(t.Context(), []string{"/bin/true"}, func(name string) string {
			if name == "SMOKE_CATALOG_URI" {
				return c.uri
			}

			return ""
		}, &out)
		require.ErrorContains(t, err, c.want)
		require.Empty(t, out.String())
	}
}

// Keys are asked for in the file when the catalog vends none, and claims in files
// where there is no PostgreSQL. No secret is in it.
func TestSmokeConfiguration(t *testing.T) {
	t.Parallel()
	s := settings{CatalogURI: "http://c", Warehouse: "w", S3Endpoint: "http://s", S3Region: "r", AccessKey: "id", SecretKey: "hidden", Postgres: "postgres://u:hidden@h/d"}
	raw, err := s.file("/claims")
	require.NoError(t, err)
	require.YAMLEq(t, `
catalog: {type: rest, uri: http://c, warehouse: w}
storage: {s3: {endpoint: http://s, region: r, url_style: path, access_key_id: id}}
claim: {mode: advisory}`, string(raw))
	s.AccessKey, s.Postgres = "", ""
	raw, err = s.file("/claims")
	require.NoError(t, err)
	require.YAMLEq(t, `
catalog: {type: rest, uri: http://c, warehouse: w}
claim: {mode: file, dir: /claims, realm: smoke}`, string(raw))
}
