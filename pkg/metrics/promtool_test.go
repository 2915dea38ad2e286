package metrics

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"compactor/internal/testenv"
)

// promtool runs Prometheus' own checks and returns what they say.
func promtool(t *testing.T, stdin io.Reader, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(testenv.Program(t, "promtool"), args...)
	cmd.Stdin = stdin
	out, err := cmd.CombinedOutput()

	return string(out), err
}

// textfile are the metrics of the sample run.
func textfile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "compactor.prom")
	require.NoError(t, Publish(t.Context(), Target{Textfile: path}, sample(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), 0)))
	text, err := os.ReadFile(path)
	require.NoError(t, err)

	return string(text)
}

func TestPromtoolFindsNothingToSayOfTheMetrics(t *testing.T) {
	t.Parallel()
	text := textfile(t)
	out, err := promtool(t, strings.NewReader(text), "check", "metrics")
	require.NoError(t, err, out)
	require.Empty(t, out)
	out, err = promtool(t, strings.NewReader(strings.ReplaceAll(text, "compactor_bytes", "compactorBytes")), "check", "metrics")
	require.Error(t, err, "it does look")
	require.Contains(t, out, "compactorBytes")
}

// Every rule fires when it should, and not before.
func TestTheAlertRulesFire(t *testing.T) {
	t.Parallel()
	const folder = "../../configs/prometheus/"
	out, err := promtool(t, nil, "check", "rules", folder+"alerts.yaml")
	require.NoError(t, err, out)
	out, err = promtool(t, nil, "test", "rules", folder+"alerts_test.yaml")
	require.NoError(t, err, out)
	var rules struct {
		Groups []struct{ Rules []struct{ Alert string } }
	}
	raw, err := os.ReadFile(folder + "alerts.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(raw, &rules))
	var tests struct {
		Tests []struct {
			Alerts []struct {
				Name     string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	raw, err = os.ReadFile(folder + "alerts_test.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(raw, &tests))
	fires := map[string]bool{}
	for _, one := range tests.Tests {
		for _, a := range one.Alerts {
			fires[a.Name] = fires[a.Name] || len(a.Expected) > 0
		}
	}
	for _, r := range rules.Groups[0].Rules {
		require.True(t, fires[r.Alert], "%s is seen to fire", r.Alert)
	}
}

// dashboard is the part of Grafana's model that is looked at.
type dashboard struct {
	Templating struct {
		List []struct{ Name, Definition string }
	}
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr, LegendFormat string }
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	raw, err := os.ReadFile("../../configs/grafana/compactor.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(raw, &d))

	return d
}

// documented are the metrics of docs/metrics.md with their labels.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	out := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\| ([^|]*) \\|").FindAllStringSubmatch(string(raw), -1) {
		var labels []string
		for _, l := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[3], -1) {
			labels = append(labels, l[1])
		}
		if out[row[1]] = labels; row[2] == "histogram" {
			out[row[1]+"_bucket"], out[row[1]+"_sum"], out[row[1]+"_count"] = append(labels, "le"), labels, labels
		}
	}
	require.Len(t, Definitions(), len(out)-3*2, "every metric, and three more of each histogram")

	return out
}

// Every query of the dashboard asks for documented metrics and their labels,
// and gets an answer from the metrics of a run.
func TestEveryPanelOfTheDashboardHasAnAnswer(t *testing.T) {
	t.Parallel()
	labels, d := documented(t), readDashboard(t)
	type expectation struct {
		Expr    string           `yaml:"expr"`
		At      string           `yaml:"eval_time"`
		Samples []map[string]any `yaml:"exp_samples"`
	}
	var want []expectation
	ids, used := map[int]bool{}, map[string]bool{}
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "id of %s", p.Title)
		ids[p.ID] = true
		require.NotEmpty(t, p.Targets, p.Title)
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for _, target := range p.Targets {
			names := regexp.MustCompile(`compactor_\w+`).FindAllString(target.Expr, -1)
			require.NotEmpty(t, names, p.Title)
			for _, name := range names {
				require.Contains(t, labels, name, p.Title)
				used[regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")] = true
			}
			for _, l := range regexp.MustCompile(`(\w+) *(?:=~|!~|!=|=)|\{\{(\w+)\}\}`).FindAllStringSubmatch(target.Expr+target.LegendFormat, -1) {
				label := l[1] + l[2]
				require.True(t, label == "instance" || slices.Contains(labels[names[0]], label), "%s: label %s of %s", p.Title, label, names[0])
			}
			want = append(want, expectation{
				Expr: "count(" + strings.ReplaceAll(target.Expr, "$instance", ".*") + ") > bool 0", At: "1m", Samples: []map[string]any{{"labels": "{}", "value": 1}},
			})
		}
	}
	require.Greater(t, len(want), 20)
	for _, def := range Definitions() {
		require.True(t, used[def.Name], "%s is on no panel", def.Name)
	}
	var series []map[string]string
	for line := range strings.Lines(textfile(t) + "compactor_table_exit_code{table=\"a.bad\"} 4\n") {
		if i := strings.LastIndexByte(line, ' '); line[0] != '#' {
			series = append(series, map[string]string{"series": line[:i], "values": strings.TrimSpace(line[i:]) + "x5"})
		}
	}
	check := map[string]any{"tests": []any{map[string]any{"interval": "1m", "input_series": series, "promql_expr_test": want}}}
	raw, err := yaml.Marshal(check)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "panels.yaml")
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	out, err := promtool(t, nil, "test", "rules", path)
	require.NoError(t, err, out)

	require.NoError(t, os.WriteFile(path, bytes.Replace(raw, []byte("sum by"), []byte("sum bi"), 1), 0o600))
	_, err = promtool(t, nil, "test", "rules", path)
	require.Error(t, err, "a query that cannot be read is noticed")
}

// A real Pushgateway has the last run and the last success, and forgets a table
// that does not fail any more.
func TestARealPushgatewayForgetsWhatIsOver(t *testing.T) {
	t.Parallel()
	gateway := testenv.NewPushgateway(t)
	shown := func() string {
		answer, err := http.Get(gateway + "/metrics")
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())

		return string(text)
	}
	to := Target{Pushgateway: gateway, Job: "compactor"}
	good := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	require.NoError(t, Publish(context.Background(), to, sample(good, 0)))
	rep := sample(good.Add(time.Hour), 4)
	require.NoError(t, Publish(context.Background(), to, rep))
	success := fmt.Sprintf(`compactor_last_success_timestamp_seconds{instance="",job="compactor"} %.9e`, float64(good.Unix()))
	require.Contains(t, shown(), success)
	require.Contains(t, shown(), `compactor_table_exit_code{instance="",job="compactor",table="a.bad"} 4`)
	require.Contains(t, shown(), `compactor_tables{instance="",job="compactor",status="conflict"} 1`)
	rep.Tables = nil
	rep.ExitCode = 1
	require.NoError(t, Publish(context.Background(), to, rep), "a run that ended before its first table")
	require.Contains(t, shown(), success)
	require.NotContains(t, shown(), "a.bad")
	require.Contains(t, shown(), `compactor_tables{instance="",job="compactor",status="conflict"} 0`)
	require.Contains(t, shown(), `compactor_files{direction="in",instance="",job="compactor"} 0`)
}
