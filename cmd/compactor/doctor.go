package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"compactor/internal/store"
	"compactor/internal/version"
)

const doctorDescription = `Reaches what the configuration names, in the order in which a run does, and says for
each part whether it works, what it is, and how to mend it: the configuration itself,
the claim (mode, what auto chose, PostgreSQL, its grants), the catalog, and the object
store with the metadata and the folder of one table: TABLE, or the first that the
catalog lists. The clocks of all of them are compared with that of this machine.

It takes no claim and changes nothing, unless --probe asks for a trial of the store's
rights: then one small object is written, read, listed and deleted there. The nodes of a
bakery are looked at by compactor claim doctor.

It exits with 0 when nothing is wrong, 2 when something has to be set right before a run
can work, 1 when a part could not be reached or failed, and 3 for warnings alone.`

const maxSkewDefault = 5 * time.Second

func doctorCommand(env environment) *cli.Command {
	const category = "Checks:"

	return &cli.Command{
		Name:        "doctor",
		Usage:       "reach catalog, store and PostgreSQL, check rights, clocks and versions, and say how to mend what is wrong",
		ArgsUsage:   "[TABLE]",
		Description: doctorDescription,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "probe", Category: category, Usage: "write, read, list and delete one small object in the folder `URI`, or in the folder of TABLE when this is \"table\""},
			&cli.DurationFlag{Name: "answer-within", Category: category, Usage: "give each part `DURATION` to answer", Value: 15 * time.Second},
			&cli.DurationFlag{Name: "max-skew", Category: category, Usage: "warn when a clock differs from this machine's by more than `DURATION`", Value: maxSkewDefault},
		}, commonFlags()...),
		Action: func(c *cli.Context) error { return runDoctor(c, env) },
	}
}

// verdict is what came of one check.
type verdict string

const (
	checkOK      verdict = "ok"
	checkWarning verdict = "warning"
	checkWrong   verdict = "wrong"   // an operator has to change something
	checkFailed  verdict = "failed"  // not reached, or it failed; trying again may help
	checkSkipped verdict = "skipped" // a part before it is missing
)

// check is one line of the report.
type check struct {
	Part    string  `json:"part"`
	Name    string  `json:"check"`
	Verdict verdict `json:"verdict"`
	Text    string  `json:"text"`
	Remedy  string  `json:"remedy,omitempty"`
}

// checkupReport is the one document of `doctor`.
type checkupReport struct {
	Version  string  `json:"version"`
	Healthy  bool    `json:"healthy"`
	ExitCode int     `json:"exit_code"`
	Checks   []check `json:"checks"`
}

// checkup is one examination. Its checks add to the report and return no errors.
type checkup struct {
	session *session
	typed   table.Identifier // the table to look at; empty: the first
	probe   string
	patient time.Duration // for each part
	skew    time.Duration
	rep     checkupReport
	store   *store.Store
	own     *store.Store // that is not the catalog's, closed in the end
	table   *table.Table
}

const probeTable = "table"

func runDoctor(c *cli.Context, env environment) error {
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	d, err := newCheckup(c, env)
	if err != nil {
		return err
	}
	log, err := newLogger(c, env)
	if err != nil {
		return err
	}
	if _, asked := lookup(c, "log-level"); !asked {
		log = log.Level(zerolog.Disabled) // Findings are in the report; nothing is said twice.
	}
	d.session.log = log
	d.add("program", "version", checkOK, "compactor "+version.Get().String(), "")
	if d.configuration(c, env) {
		defer d.close()
		d.claim(c.Context)
		d.catalog(c.Context)
		d.storage(c.Context)
	}
	if c.Err() != nil {
		return fmt.Errorf("look at the configured parts: %w", context.Cause(c.Context))
	}
	outcome := d.rep.outcome()
	d.rep.Healthy, d.rep.ExitCode = outcome == nil, exitCode(outcome)
	if format == outputJSON {
		err = writeJSON(env.stdout, d.rep)
	} else {
		err = d.rep.writeText(env.stdout)
	}
	switch {
	case err != nil:
		return err
	case outcome != nil:
		return &reportedError{outcome}
	}

	return nil
}

func newCheckup(c *cli.Context, env environment) (*checkup, error) {
	d := &checkup{
		session: &session{runID: uuid.NewString(), now: env.clock(), counters: &store.Counters{}},
		patient: c.Duration("answer-within"), skew: c.Duration("max-skew"), probe: c.String("probe"),
		rep: checkupReport{Version: version.Get().Version, Checks: []check{}},
	}
	if d.patient <= 0 || d.skew <= 0 {
		return nil, usagef("--max-skew and --answer-within: use more than 0s")
	}
	if c.Args().Len() > 1 {
		return nil, usagef("doctor looks at one TABLE: leave out %q", c.Args().Slice()[1])
	}
	if c.Args().Present() {
		ident, err := parseOne(c.Args().First())
		if err != nil {
			return nil, err
		}
		d.typed = ident
	}
	if isSet(c, "probe") {
		return d, d.checkProbe()
	}

	return d, nil
}

// configuration reads the configuration; without one there is nothing to reach.
func (d *checkup) configuration(c *cli.Context, env environment) bool {
	const part = "configuration"
	cfg, err := loadConfig(c, env)
	if err != nil {
		d.add(part, "values", checkWrong, err.Error(), "correct it; compactor config validate lists everything at once")

		return false
	}
	where := cfg.Path
	if where == "" {
		where = "environment and flags"
	}
	d.add(part, "values", checkOK, fmt.Sprintf("%s (%s form)", where, cfg.Form), "")
	for _, w := range cfg.Warnings {
		d.add(part, "remark", checkWarning, w, "compactor config show prints every value and where it came from")
	}
	d.session.cfg = cfg

	return true
}

func (d *checkup) add(part, name string, v verdict, text, remedy string) {
	d.rep.Checks = append(d.rep.Checks, check{Part: part, Name: name, Verdict: v, Text: text, Remedy: remedy})
}

// hinting is an error of ours that knows what to do about it.
type hinting interface {
	error
	Hint() string
	Unreachable() bool
}

// fail adds what an error means. remedy is for errors that know none.
func (d *checkup) fail(part, name string, err error, remedy string) {
	v, text := checkFailed, err.Error()
	var usage *usageError
	var hint hinting
	switch {
	case errors.As(err, &usage):
		v = checkWrong
	case errors.As(err, &hint) && hint.Hint() != "":
		if !hint.Unreachable() {
			v = checkWrong
		}
		if hint.Hint() != store.HintDenied {
			text, remedy = withoutHint(text, hint.Hint()), hint.Hint() // It knows more than the caller.
		}
	case errors.Is(err, errNoAnswer), errors.Is(err, context.DeadlineExceeded):
		remedy = fmt.Sprintf("no answer within %s says nothing about rights: check that it runs and can be reached from here, or give it longer with --answer-within", d.patient)
	}
	d.add(part, name, v, text, remedy)
}

// clock compares a clock with this machine's.
func (d *checkup) clock(part string, ahead time.Duration) {
	text := fmt.Sprintf("differs from this machine's by %s", ahead.Round(100*time.Millisecond))
	if ahead.Abs() <= d.skew {
		d.add(part, "clock", checkOK, text, "")

		return
	}
	d.add(part, "clock", checkWarning, text, "set the clocks by NTP on both machines: ages of files and snapshots, credentials and signatures depend on them")
}

// within bounds the look at one part.
func (d *checkup) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d.patient, fmt.Errorf("%w within %s (--answer-within)", errNoAnswer, d.patient))
}

// errNoAnswer ends the look at a part that is silent.
var errNoAnswer = errors.New("no answer")

func (d *checkup) close() {
	d.session.close()
	if d.own != nil {
		if err := d.own.Close(); err != nil {
			d.session.log.Warn().Err(err).Msg("close")
		}
	}
}

// outcome is nil when nothing is wrong; what is worse decides the exit code.
func (r checkupReport) outcome() error {
	has := func(v verdict) bool {
		return slices.ContainsFunc(r.Checks, func(c check) bool { return c.Verdict == v })
	}
	var found findingsError
	for _, c := range r.Checks {
		switch c.Verdict {
		case checkWrong:
			found.errors++
		case checkWarning:
			found.warnings++
		}
	}
	switch {
	case found.errors > 0:
		return &found
	case has(checkFailed):
		return errors.New("doctor could not look at everything")
	case found.warnings > 0:
		return &found
	}

	return nil
}
