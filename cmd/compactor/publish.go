package main

import (
	"context"
	"time"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"compactor/internal/config"
	"compactor/internal/version"
	"compactor/pkg/maintenance"
	"compactor/pkg/metrics"
)

// metricsTimeout bounds what is done for metrics after a run, a signal or not.
const metricsTimeout = 15 * time.Second

// publish hands the metrics of a run over. What fails is logged: it says nothing
// about the tables.
func (s *session) publish(ctx context.Context, rep maintenance.Report) {
	publishMetrics(ctx, s.cfg.Metrics, s.log, rep)
}

func publishMetrics(ctx context.Context, to config.Metrics, log zerolog.Logger, rep maintenance.Report) {
	if rep.DryRun {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), metricsTimeout)
	defer cancel()
	target := metrics.Target{Textfile: to.Textfile, Pushgateway: string(to.Pushgateway), Job: "compactor"}
	if err := metrics.Publish(ctx, target, rep); err != nil {
		log.Error().Err(err).Msg("publish metrics")
	}
}

// publishFailure is publish for a run that ended before its session was open,
// where the configuration can be read at all.
func (j job) publishFailure(c *cli.Context, env environment, err error) {
	cfg, cerr := loadConfig(c, env)
	log, lerr := newLogger(c, env)
	if cerr != nil || lerr != nil {
		return
	}
	now := env.clock()().UTC()
	publishMetrics(c.Context, cfg.Metrics, log, maintenance.Report{
		Program: "compactor", Version: version.Get().Version, StartedAt: now, FinishedAt: now, DryRun: j.dryRun, ExitCode: exitCode(err),
	})
}
