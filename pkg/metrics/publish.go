package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/push"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"compactor/pkg/maintenance"
)

// pushTimeout bounds a push: metrics must not hold a run up.
const pushTimeout = 10 * time.Second

// Target says where metrics go; both may be empty.
type Target struct {
	Textfile    string // a file that the node exporter's textfile collector reads
	Pushgateway string // base URL
	Job         string // the job of the Pushgateway's group
}

// Publish writes the metrics of a report. The file is written under another
// name and renamed, so that a reader never sees a part of it. The Pushgateway
// keeps metrics that this run does not have, so that the time of the last
// success stays. It tries both and returns what failed. It may be repeated.
func Publish(ctx context.Context, to Target, rep maintenance.Report) error {
	var errs []error
	if to.Textfile != "" {
		errs = append(errs, writeTextfile(to.Textfile, rep))
	}
	if to.Pushgateway != "" {
		client := &http.Client{Timeout: pushTimeout}
		pusher := push.New(to.Pushgateway, to.Job).Client(client).Gatherer(collect(rep, time.Time{}).registry)
		if err := pusher.AddContext(ctx); err != nil {
			errs = append(errs, fmt.Errorf("push metrics to %s: %w", to.Pushgateway, err))
		}
		client.CloseIdleConnections()
	}

	return errors.Join(errs...)
}

// writeTextfile replaces the file, with the time of the last success that it
// had. A device or a pipe would be gone, so it has to be a file.
func writeTextfile(path string, rep maintenance.Report) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("write metrics to %s: it is there and no regular file", path)
	}
	last, lerr := lastSuccess(path)
	if err := prometheus.WriteToTextfile(path, collect(rep, last).registry); err != nil {
		return errors.Join(lerr, fmt.Errorf("write metrics to %s: %w", path, err))
	}

	return lerr
}

// lastSuccess reads when the run before was successful, zero without a file or
// a value.
func lastSuccess(path string) (time.Time, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read earlier metrics: %w", err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return time.Time{}, fmt.Errorf("read earlier metrics in %s: %w", path, err)
	}
	for _, m := range families[nameLastSuccess].GetMetric() {
		if v := m.GetGauge().GetValue(); v > 0 {
			return time.UnixMilli(int64(v * 1000)), nil
		}
	}

	return time.Time{}, nil
}

// Reference writes docs/metrics.md.
func Reference(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Metrics\n\nAfter each run that is no dry run the metrics of that run go to the file `metrics.textfile`, for the node exporter's\n" +
		"textfile collector, and to the Pushgateway at `metrics.pushgateway`, under the job `compactor`. Scheduled jobs that run\n" +
		"side by side need a file each. Metrics that cannot be written are logged; the exit code is that of the run.\n" +
		"Example alert rules are in [configs/prometheus/alerts.yaml](../configs/prometheus/alerts.yaml), a dashboard for Grafana is in\n" +
		"[configs/grafana/compactor.json](../configs/grafana/compactor.json).\n\n" +
		"What a run has nothing of is 0 and not missing, so that a Pushgateway forgets what it was told before. A metric that is\n" +
		"summed over tables, such as the small files left, counts those that the run got to.\n\n" +
		"<!-- Generated from the program by `make docs`. -->\n\n| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n")
	for _, d := range Definitions() {
		labels := "none"
		if len(d.Labels) > 0 {
			labels = "`" + strings.Join(d.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Name, d.Type, labels, d.Help)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write reference of metrics: %w", err)
	}

	return nil
}
