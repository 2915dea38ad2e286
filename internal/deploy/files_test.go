package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"
)

func TestDockerfile(t *testing.T) {
	status, out := tool(t, nil, cached(t, "hadolint"), root+"/configs/docker/Dockerfile")
	require.Zero(t, status, out)
	require.Empty(t, out)
	text := read(t, "configs/docker/Dockerfile")
	require.Contains(t, text, "\nUSER 65532:65532\n", "the number in the manifests")
	for _, from := range regexp.MustCompile(`ARG (?:BUILDER|BASE)=(\S+)`).FindAllStringSubmatch(text, -1) {
		require.Regexp(t, `^[^:]+:[^:]+$`, from[1])
		require.NotContains(t, from[1], ":latest")
	}
}

func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(root + "/.github/workflows/*.yml")
	require.NoError(t, err)
	require.Len(t, files, 3)
	status, out := tool(t, nil, cached(t, "actionlint"), append([]string{"-no-color"}, files...)...)
	require.Zero(t, status, out)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, script := range regexp.MustCompile(`(?:scripts|\.ci)/[a-z.-]+|configs/\S+`).FindAllString(string(raw), -1) {
			if !strings.Contains(script, "*") {
				require.FileExists(t, filepath.Join(root, script))
			}
		}
	}
}

func TestCompose(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{root + "/configs/compose/lakekeeper-minio.yaml"},
		cli.WithProfiles([]string{"smoke"}), cli.WithEnv([]string{"SMOKE_S3_ACCESS_KEY_ID="}))
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"db", "store", "migrate", "catalog", "bootstrap", "warehouse", "smoke"}, project.ServiceNames())
	smoke, err := project.GetService("smoke")
	require.NoError(t, err)
	require.Empty(t, *smoke.Environment["SMOKE_S3_ACCESS_KEY_ID"], "the keys that the catalog vends are asked for")
	require.Equal(t, "compactor-secret", *smoke.Environment["SMOKE_S3_SECRET_ACCESS_KEY"])
	script := read(t, smoke.Command[0])
	for name := range smoke.Environment {
		require.Contains(t, script, name)
	}
}

func TestSystemdUnits(t *testing.T) {
	dir := t.TempDir()
	for _, unit := range []string{"compactor.service", "compactor.timer"} {
		text := read(t, "configs/systemd", unit)
		// The program and its files are not on this machine.
		text = strings.Replace(text, "ExecStart=/usr/local/bin/compactor", "ExecStart=/bin/true", 1)
		require.NoError(t, os.WriteFile(filepath.Join(dir, unit), []byte(text), 0o600))
	}
	service := filepath.Join(dir, "compactor.service")
	status, out := tool(t, nil, "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", service, filepath.Join(dir, "compactor.timer"))
	require.Zero(t, status, out)
	require.Empty(t, out)
	// Of 10 points 1.2 are left: the network, and a user that has no fixed name.
	status, out = tool(t, nil, "systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold=13", service)
	require.Zero(t, status, out)

	text := read(t, "configs/systemd/compactor.service")
	seconds, err := strconv.Atoi(regexp.MustCompile(`TimeoutStopSec=(\d+)`).FindStringSubmatch(text)[1])
	require.NoError(t, err)
	require.GreaterOrEqual(t, seconds, grace)
	command := regexp.MustCompile(`ExecStart=\S+ (.*)`).FindStringSubmatch(text)[1]
	understood(t, strings.Fields(command), read(t, "configs/lakekeeper-minio.yaml"))
}

func TestCronLine(t *testing.T) {
	seen := 0
	for line := range strings.Lines(read(t, "configs/cron/compactor")) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") || regexp.MustCompile(`^[A-Z]+=`).MatchString(line) {
			continue
		}
		seen++
		_, err := cron.ParseStandard(strings.Join(fields[:5], " "))
		require.NoError(t, err)
		require.Equal(t, "compactor", fields[5], "the user")
		require.NotContains(t, line, "%", "cron would end the command there")
		begin, end := slices.Index(fields, "run"), slices.Index(fields, "2>&1")
		understood(t, fields[begin:end], read(t, "configs/lakekeeper-minio.yaml"))
		status, out := tool(t, nil, "bash", "-n", "-c", strings.Join(fields[6:], " "))
		require.Zero(t, status, out)
	}
	require.Equal(t, 1, seen)
}
