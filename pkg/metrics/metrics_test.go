package metrics

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"compactor/pkg/maintenance"
)

func sample(end time.Time, code int) maintenance.Report {
	second := maintenance.Seconds(time.Second)
	round := maintenance.RoundReport{ClaimWait: second / 2, ClaimHold: 3 * second}
	left := 5
	rep := maintenance.Report{
		Version: "v1", StartedAt: end.Add(-time.Minute), FinishedAt: end, ExitCode: code,
		Tables: []maintenance.TableReport{
			{Table: "a.done", Status: maintenance.StatusDone, Steps: []maintenance.StepReport{
				{
					Step: "compact", Status: maintenance.StatusDone, Duration: 2 * second, GroupsLeft: 3, SmallFilesLeft: &left, DeletesRemoved: 2, Rounds: []maintenance.RoundReport{round, round},
					Rewritten: maintenance.Change{FilesIn: 10, FilesOut: 1, BytesIn: 1000, BytesOut: 800, RowsIn: 60, RowsDeleted: 10, RowsOut: 50},
				},
				{Step: "manifests", Status: maintenance.StatusDone, Manifests: &maintenance.ManifestsReport{Before: 9, After: 5, Rewritten: 6, Created: 2}},
				{Step: "expire", Status: maintenance.StatusPartial, Duration: second, Expire: &maintenance.ExpireReport{
					Snapshots: make([]maintenance.ExpiredSnapshot, 4), Retained: 2, Files: maintenance.FileSweep{Deleted: 7, Failed: 1, Left: 2},
				}},
			}},
			{Table: "a.bad", Status: maintenance.StatusConflict, ExitCode: 4, Steps: []maintenance.StepReport{{Step: "compact", Status: maintenance.StatusConflict}}},
		},
	}

	return rep
}

func parse(t *testing.T, text io.Reader) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	require.NoError(t, err)

	return families
}

// value is the gauge whose labels have these values, in the order of names.
func value(t *testing.T, families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	t.Helper()
	for _, m := range families[name].GetMetric() {
		var have []string
		for _, l := range m.GetLabel() {
			have = append(have, l.GetValue())
		}
		if slices.Equal(have, labels) {
			return m.GetGauge().GetValue()
		}
	}
	t.Fatalf("no %s%v", name, labels)

	return 0
}

func readFile(t *testing.T, path string) map[string]*dto.MetricFamily {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()

	return parse(t, f)
}

func TestTheTextfileHasTheFiguresOfTheRun(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "compactor.prom")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	require.NoError(t, Publish(context.Background(), Target{Textfile: path}, sample(at, 4)))
	got := readFile(t, path)
	for _, c := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"compactor_last_run_timestamp_seconds", nil, float64(at.Unix())},
		{"compactor_run_duration_seconds", nil, 60}, {"compactor_run_exit_code", nil, 4}, {"compactor_build_info", []string{"v1"}, 1},
		{"compactor_tables", []string{"done"}, 1}, {"compactor_tables", []string{"conflict"}, 1},
		{"compactor_table_exit_code", []string{"a.bad"}, 4},
		{"compactor_steps", []string{"done", "compact"}, 1}, {"compactor_steps", []string{"partial", "expire"}, 1},
		{"compactor_step_duration_seconds", []string{"compact"}, 2},
		{"compactor_files", []string{"in"}, 10}, {"compactor_files", []string{"out"}, 1},
		{"compactor_bytes", []string{"in"}, 1000}, {"compactor_bytes", []string{"out"}, 800},
		{"compactor_rows", []string{"in"}, 60}, {"compactor_rows", []string{"deleted"}, 10}, {"compactor_rows", []string{"out"}, 50},
		{"compactor_small_files_left", nil, 5}, {"compactor_delete_files_removed", nil, 2},
		{"compactor_manifests", []string{"in"}, 6}, {"compactor_manifests", []string{"out"}, 2},
		{"compactor_table_exit_code", []string{""}, 0}, {"compactor_tables", []string{"held"}, 0}, {"compactor_steps", []string{"done", "orphans"}, 0},
		{"compactor_groups_left", nil, 3}, {"compactor_snapshots_expired", nil, 4}, {"compactor_snapshots_left", nil, 2},
		{"compactor_deletes", []string{"deleted"}, 7}, {"compactor_deletes", []string{"failed"}, 1}, {"compactor_deletes", []string{"left"}, 2},
		{"compactor_conflicts", nil, 1}, {"compactor_claims_lost", nil, 0},
	} {
		require.InDelta(t, c.want, value(t, got, c.name, c.labels...), 1e-6, "%s%v", c.name, c.labels)
	}
	hold := got["compactor_claim_hold_seconds"].GetMetric()[0].GetHistogram()
	require.Equal(t, uint64(2), hold.GetSampleCount())
	require.InDelta(t, 6, hold.GetSampleSum(), 1e-9)
	require.NotContains(t, got, nameLastSuccess, "no run was successful yet")
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	require.NoError(t, err)
	require.Equal(t, []string{path}, left, "nothing but the renamed file")
}

func TestTheLastSuccessOutlivesFailures(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "compactor.prom")
	good := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, code := range []int{0, 1, 10} {
		require.NoError(t, Publish(context.Background(), Target{Textfile: path}, sample(good.Add(time.Duration(i)*time.Hour), code)))
	}
	got := readFile(t, path)
	require.InDelta(t, float64(good.Unix()), value(t, got, nameLastSuccess), 1e-3)
	require.InDelta(t, float64(good.Add(2*time.Hour).Unix()), value(t, got, "compactor_last_run_timestamp_seconds"), 1e-3)

	require.NoError(t, os.WriteFile(path, []byte("not metrics{"), 0o600))
	err := Publish(context.Background(), Target{Textfile: path}, sample(good, 1))
	require.ErrorContains(t, err, "read earlier metrics")
	require.InDelta(t, 1, value(t, readFile(t, path), "compactor_run_exit_code"), 1e-9, "it is replaced nevertheless")
}

func TestThePushgatewayGetsThemAndKeepsTheLastSuccess(t *testing.T) {
	t.Parallel()
	var method, url string
	var body map[string]*dto.MetricFamily
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method, url = r.Method, r.URL.Path
		dec := expfmt.NewDecoder(r.Body, expfmt.ResponseFormat(r.Header))
		body = map[string]*dto.MetricFamily{}
		for {
			var f dto.MetricFamily
			if dec.Decode(&f) != nil {
				break
			}
			body[f.GetName()] = &f
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	defer gateway.Close()
	to := Target{Pushgateway: gateway.URL, Job: "compactor"}
	require.NoError(t, Publish(context.Background(), to, sample(time.Now(), 3)))
	require.Equal(t, []string{"POST", "/metrics/job/compactor"}, []string{method, url}, "POST leaves other metrics of the group")
	require.InDelta(t, 3, value(t, body, "compactor_run_exit_code"), 1e-9)
	require.NotContains(t, body, nameLastSuccess)
	require.NoError(t, Publish(context.Background(), to, sample(time.Now(), 0)))
	require.Contains(t, body, nameLastSuccess)
	gateway.Close()
	require.ErrorContains(t, Publish(context.Background(), to, sample(time.Now(), 0)), "push metrics to "+gateway.URL)
}

func TestFailedTablesAreNamedUpToABound(t *testing.T) {
	t.Parallel()
	rep := maintenance.Report{}
	for i := range 3 * maxTables {
		rep.Tables = append(rep.Tables, maintenance.TableReport{Table: strings.Repeat("x", i+1), ExitCode: 1})
	}
	families, err := collect(rep, time.Time{}).registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		require.LessOrEqual(t, len(f.GetMetric()), maxTables+1, f.GetName())
	}
}

// A device is not replaced by a file.
func TestTheTextfileIsAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(os.DevNull, link))
	for _, path := range []string{link, dir} {
		require.ErrorContains(t, Publish(context.Background(), Target{Textfile: path}, sample(time.Now(), 0)), "no regular file")
	}
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)
}

// Every rule is whole, and asks for metrics and labels that there are.
func TestTheAlertRulesAskForMetricsThatExist(t *testing.T) {
	t.Parallel()
	f, err := os.Open("../../configs/prometheus/alerts.yaml")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	var doc struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	dec := yaml.NewDecoder(f)
	dec.KnownFields(true)
	require.NoError(t, dec.Decode(&doc))
	labels := map[string][]string{}
	for _, d := range Definitions() {
		labels[d.Name] = d.Labels
		if d.Type == "histogram" {
			labels[d.Name+"_bucket"] = []string{"le"}
		}
	}
	seen := map[string]bool{}
	for _, r := range doc.Groups[0].Rules {
		require.NotEmpty(t, r.Alert)
		require.False(t, seen[r.Alert], r.Alert)
		seen[r.Alert] = true
		require.Contains(t, []string{"page", "ticket"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.Equal(t, strings.Count(r.Expr, "("), strings.Count(r.Expr, ")"), r.Alert)
		used := regexp.MustCompile(`(compactor_\w+)(?:\{(\w+)=)?`).FindAllStringSubmatch(r.Expr, -1)
		require.NotEmpty(t, used, r.Alert)
		for _, u := range used {
			require.Contains(t, labels, u[1], r.Alert)
			if u[2] != "" {
				require.Contains(t, labels[u[1]], u[2], r.Alert)
			}
		}
		for _, u := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(r.Annotations["summary"], -1) {
			require.Contains(t, labels[used[0][1]], u[1], r.Alert)
		}
	}
	require.Len(t, seen, 10)
}
