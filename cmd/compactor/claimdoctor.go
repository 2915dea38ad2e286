package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"compactor/internal/config"
	"compactor/pkg/claim/bakery"
)

const claimDoctorDescription = `Looks at the bakery of the database that claim.postgres leads to, and of each --peer,
and says what is wrong and how to mend it: settings and grants, publications,
subscriptions, slots and the WAL they keep, claims and acks that nobody owns, peers
that do not answer, clocks and versions that differ, a connection pooler in between.
Each node sees its own side of a link, so look at all of them. It asks the peers one
question and takes it back; nothing else is changed. The role has to be a member of
bakery_owner.

It exits with 0 when nothing is wrong, 2 when something keeps claims from working or
from being safe, 1 when a node could not be looked at, and 3 for warnings alone.`

func claimDoctorCommand(env environment) *cli.Command {
	const category = "Limits:"

	return &cli.Command{
		Name:        "doctor",
		Usage:       "find what is wrong with the bakery's nodes, and how to mend it",
		ArgsUsage:   " ",
		Description: claimDoctorDescription,
		Flags: slices.Concat(nodeFlags(), []cli.Flag{
			&cli.DurationFlag{Name: "answer-within", Category: category, Usage: "give the peers `DURATION` to answer", Value: 5 * time.Second},
			&cli.DurationFlag{Name: "max-skew", Category: category, Usage: "warn when clocks differ by more than `DURATION`", Value: 5 * time.Second},
			&cli.StringFlag{Name: "max-retained", Category: category, Usage: "warn when a slot keeps more WAL than `SIZE`", Value: "1GiB"},
		}, commonFlags()),
		Action: func(c *cli.Context) error { return claimDoctor(c.Context, c, env) },
	}
}

// doctorReport is the one document of `claim doctor`.
type doctorReport struct {
	Healthy bool         `json:"healthy"`
	Nodes   []nodeReport `json:"nodes"`
}

type nodeReport struct {
	Node     string           `json:"node"`
	Findings []bakery.Finding `json:"findings"`
	Error    string           `json:"error,omitempty"` // why it could not be looked at, or not to the end

	err error
}

// findingsError is the outcome of an examination that found something.
type findingsError struct{ errors, warnings int }

func (e *findingsError) Error() string {
	return fmt.Sprintf("doctor found %d errors and %d warnings", e.errors, e.warnings)
}

func claimDoctor(ctx context.Context, c *cli.Context, env environment) error {
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	s, err := openConfigured(c, env)
	if err != nil {
		return err
	}
	defer s.close()
	limits, err := doctorLimits(c)
	if err != nil {
		return err
	}
	nodes, err := s.doctorNodes(c, env)
	if err != nil {
		return err
	}
	rep := examineAll(ctx, nodes, limits)
	outcome := rep.outcome()
	rep.Healthy = outcome == nil
	if format == outputJSON {
		err = writeJSON(env.stdout, rep)
	} else {
		err = rep.writeText(env.stdout)
	}
	if err != nil {
		return err
	}
	if outcome != nil {
		return &reportedError{outcome}
	}

	return nil
}

// examineAll looks at the nodes at the same time, because one that is out of reach
// takes long.
func examineAll(ctx context.Context, nodes []bakery.Node, limits bakery.Limits) doctorReport {
	rep := doctorReport{Nodes: make([]nodeReport, len(nodes))}
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() {
			r := nodeReport{Node: n.Name, Findings: []bakery.Finding{}}
			found, err := bakery.Examine(ctx, n, limits)
			if r.Findings, r.err = append(r.Findings, found...), err; err != nil {
				r.Error = err.Error()
			}
			rep.Nodes[i] = r
		})
	}
	all.Wait()

	return rep
}

func doctorLimits(c *cli.Context) (l bakery.Limits, err error) {
	size, err := config.ParseSize(c.String("max-retained"))
	if err != nil || size <= 0 {
		return l, usagef("--max-retained %q: use a size such as 1GiB", c.String("max-retained"))
	}
	l = bakery.Limits{Retained: int64(size), Skew: c.Duration("max-skew"), Answer: c.Duration("answer-within")}
	if l.Skew <= 0 || l.Answer <= 0 {
		return l, usagef("--max-skew and --answer-within: use more than 0s")
	}

	return l, nil
}

// doctorNodes are the local node, whose name may be left out, and the peers.
func (s *session) doctorNodes(c *cli.Context, env environment) ([]bakery.Node, error) {
	if c.Args().Present() {
		return nil, usagef("claim doctor takes no arguments: %q", c.Args().First())
	}
	if s.cfg.Claim.Postgres == "" {
		return nil, usagef("claim.postgres is not set: it is how the local node is reached")
	}
	local := c.String("node")
	if local == "" {
		local = bakery.Here
	}
	order, peers, err := named(c, env, "peer")
	if err != nil {
		return nil, err
	}
	nodes := []bakery.Node{{Name: local, DSN: s.cfg.Claim.Postgres.Reveal()}}
	for _, name := range order {
		nodes = append(nodes, bakery.Node{Name: name, DSN: peers[name]})
	}

	return nodes, nil
}

// outcome is nil when nothing is wrong; what is worse decides the exit code.
func (r doctorReport) outcome() error {
	var errs []error
	var found findingsError
	for _, n := range r.Nodes {
		if n.err != nil {
			errs = append(errs, n.err)
		}
		for _, f := range n.Findings {
			if f.Severity == bakery.Error {
				found.errors++
			} else {
				found.warnings++
			}
		}
	}
	if found.errors+found.warnings > 0 {
		errs = append(errs, &found)
	}

	return worst(errs)
}

func (r doctorReport) writeText(w io.Writer) error {
	var problems []error
	line := func(format string, args ...any) {
		if _, err := fmt.Fprintf(w, format+"\n", args...); err != nil {
			problems = append(problems, fmt.Errorf("write result: %w", err))
		}
	}
	for _, n := range r.Nodes {
		line("node %s", n.Node)
		for _, f := range n.Findings {
			line("  %-8s %s (%s)", f.Severity, f.Text, f.Code)
			line("           %s", f.Remedy)
		}
		if n.err != nil {
			line("  %-8s %s", "failed", n.err)
		}
		if n.err == nil && len(n.Findings) == 0 {
			line("  %-8s nothing found", "ok")
		}
	}

	return errors.Join(problems...)
}
