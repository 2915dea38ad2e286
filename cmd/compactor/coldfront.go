package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/apache/iceberg-go/table"
	"github.com/urfave/cli/v2"

	"compactor/internal/config"
	"compactor/pkg/maintenance"
)

// The flags of ColdFront's own compactor, which takes no command: one table, the
// deployment file of the mesh, and a flag for each step beside compaction.
const (
	coldFrontTable   = "table"
	coldFrontTarget  = "target-size-mb"
	coldFrontExpire  = "expire-snapshots"
	coldFrontKeep    = "expire-keep-files"
	coldFrontOrphans = "orphans"
	coldFrontAge     = "orphan-age"
	// coldFrontSchema is the schema of a table whose name stands alone.
	coldFrontSchema = "public"
)

func coldFrontFlags() []cli.Flag {
	const category = "ColdFront's command line, without a COMMAND:"
	flags := []cli.Flag{
		&cli.StringFlag{Name: coldFrontTable, Usage: "maintain `[SCHEMA.]NAME`; a bare name is in schema public, and the schema is the Iceberg namespace", Category: category},
		&cli.IntFlag{Name: coldFrontTarget, Usage: "write files of about `N` MiB", DefaultText: "128", Category: category},
		&cli.BoolFlag{Name: coldFrontExpire, Usage: "expire old snapshots, and delete the files that only they could reach", Category: category},
		&cli.BoolFlag{Name: coldFrontKeep, Usage: "with --expire-snapshots, expire metadata only and leave the files to --orphans", Category: category},
		&cli.BoolFlag{Name: coldFrontOrphans, Usage: "delete files below the table's location that no snapshot references", Category: category},
	}
	flags = append(flags, stringFlags(coldFrontKeyFlags(), category)...)

	return append(flags,
		&cli.BoolFlag{Name: "dry-run", Usage: "say what each step would do; take no claim, write nothing", Category: category},
		&cli.BoolFlag{Name: "version", Usage: "print the version", Category: category},
	)
}

// coldFrontKeyFlags are those of its flags that set a key as it is written.
func coldFrontKeyFlags() []keyFlag {
	return []keyFlag{
		{"expire-older-than", "defaults.expire.older_than", "with --expire-snapshots, expire snapshots older than `DURATION` (default: 168h)"},
		{"expire-retain-last", "defaults.expire.retain_last", "with --expire-snapshots, keep at least `N` snapshots (default: 1)"},
		{coldFrontAge, "defaults.orphans.older_than", "with --orphans, delete only what is older than `DURATION` (default: 72h; at least 24h)"},
	}
}

// coldFrontKeys are the values that ColdFront's flags set. A flag of a step that
// was not asked for is ignored, as ColdFront does.
func coldFrontKeys(c *cli.Context, values, names map[string]string) error {
	set := func(flag, key, value string) { values[key], names[key] = value, flag }
	for _, def := range coldFrontKeyFlags() {
		step := coldFrontExpire
		if def.flag == coldFrontAge {
			step = coldFrontOrphans
		}
		v, ok := lookup(c, def.flag)
		if ok && v == "" {
			return usagef("--%s has an empty value; leave the flag out to keep the default", def.flag)
		}
		if ok && isOn(c, step) {
			set(def.flag, def.key, v)
		}
	}
	if isSet(c, coldFrontTarget) {
		set(coldFrontTarget, "defaults.compact.target_file_size", strconv.Itoa(c.Int(coldFrontTarget))+"MiB")
	}
	if isOn(c, coldFrontKeep) && isOn(c, coldFrontExpire) {
		set(coldFrontKeep, "defaults.expire.keep_files", "true")
	}

	return nil
}

func isSet(c *cli.Context, name string) bool { return slices.Contains(c.LocalFlagNames(), name) }

// notColdFront refuses flags of ColdFront's command line before a command, where
// they would have no effect.
func notColdFront(c *cli.Context) error {
	if find(c.App.Commands, c.Args().First()) == nil {
		return nil
	}
	for _, f := range coldFrontFlags() {
		name := f.Names()[0]
		if isSet(c, name) && name != "dry-run" {
			return usagef("--%s belongs to ColdFront's command line, which has no COMMAND; found %q", name, c.Args().First())
		}
	}

	return nil
}

// asColdFront says whether a command line without a command is ColdFront's.
func asColdFront(c *cli.Context) bool {
	return isSet(c, "config") || slices.ContainsFunc(coldFrontFlags(), func(f cli.Flag) bool { return isSet(c, f.Names()[0]) })
}

// parseColdFront returns the table and the work that the command line asks for.
func parseColdFront(c *cli.Context) (table.Identifier, job, error) {
	j := job{dryRun: isOn(c, "dry-run"), asked: true, summary: writeColdFront}
	if path, _ := lookup(c, "config"); path == "" {
		return nil, j, usagef("--config is missing: name the deployment file of ColdFront")
	}
	name, _ := lookup(c, coldFrontTable)
	if name == "" {
		return nil, j, usagef("--table is missing: name the table as [schema.]name, or use a command, see compactor --help")
	}
	ident, err := splitTable(name)
	switch {
	case err != nil:
		return nil, j, err
	case len(ident) == 1:
		ident = append([]string{coldFrontSchema}, ident...)
	case len(ident) > 2:
		return nil, j, usagef("--table %s: write [schema.]name; ColdFront's namespaces have one level", name)
	}
	compact, err := compactStep(c)
	if err != nil {
		return nil, j, err
	}
	j.steps = []step{compact}
	if isOn(c, coldFrontExpire) {
		j.steps = append(j.steps, expireStep(c))
	}
	if isOn(c, coldFrontOrphans) {
		orphans, err := orphansStep(c)
		if err != nil {
			return nil, j, err
		}
		j.steps = append(j.steps, orphans)
	}

	return ident, j, nil
}

// runColdFront does what ColdFront's compactor does with the same command line,
// with the steps and promises of this program.
func runColdFront(c *cli.Context, env environment) error {
	ident, j, err := parseColdFront(c)
	if err != nil {
		return err
	}
	cfg, err := loadConfig(c, env)
	if err != nil {
		return err
	}
	if cfg.Form != config.FormColdFront {
		return usagef("%s is not a deployment file of ColdFront; with a file of the own form use a command, such as: compactor run --config %[1]s TABLE", cfg.Path)
	}

	return runOn(c, env, selection{idents: []table.Identifier{ident}}, j)
}

// writeColdFront says in one line per step what scripts around ColdFront's
// compactor look for: whether there is something to compact, in how many groups,
// how many snapshots and how many orphans there are.
func writeColdFront(w io.Writer, t maintenance.TableReport) error {
	for _, s := range t.Steps {
		line := ""
		switch s.Step {
		case maintenance.StepCompact:
			line = coldFrontCompact(s)
		case maintenance.StepExpire:
			line = coldFrontExpiry(s)
		case maintenance.StepOrphans:
			line = coldFrontOrphansLine(s)
		}
		if line == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", t.Table, line); err != nil {
			return fmt.Errorf("write result: %w", err)
		}
	}

	return nil
}

func coldFrontCompact(s maintenance.StepReport) string {
	switch s.Status {
	case maintenance.StatusNothing:
		return "nothing to compact: " + s.Reason
	case maintenance.StatusPlanned:
		files := 0
		for _, g := range s.Plan.Groups {
			files += len(g.Files)
		}

		return fmt.Sprintf("%d file(s) in %d group(s) to compact", files, len(s.Plan.Groups))
	case maintenance.StatusDone:
		return fmt.Sprintf("compacted %d file(s) in %d group(s) into %d", s.Rewritten.FilesIn, s.Groups, s.Rewritten.FilesOut)
	case maintenance.StatusPartial:
		return fmt.Sprintf("compacted %d file(s) into %d; the rest was NOT compacted: %s", s.Rewritten.FilesIn, s.Rewritten.FilesOut, s.Reason)
	default:
		return "NOT compacted: " + s.Reason
	}
}

// coldFrontExpiry begins, in a dry run, with how many snapshots there are now.
func coldFrontExpiry(s maintenance.StepReport) string {
	e := s.Expire
	if e == nil { // The table is disabled.
		return "NOT expired: " + s.Reason
	}
	switch s.Status {
	case maintenance.StatusNothing:
		return fmt.Sprintf("%d snapshot(s), none to expire: %s", e.Retained, s.Reason)
	case maintenance.StatusPlanned:
		return fmt.Sprintf("%d snapshot(s): %d to expire, %d to keep", len(e.Snapshots)+e.Retained, len(e.Snapshots), e.Retained)
	case maintenance.StatusDone, maintenance.StatusPartial:
		return fmt.Sprintf("%d snapshot(s) expired, %d kept; %d file(s) deleted, %d failed, %d left",
			len(e.Snapshots), e.Retained, e.Files.Deleted, e.Files.Failed, e.Files.Left)
	default:
		return "NOT expired: " + s.Reason
	}
}

func coldFrontOrphansLine(s maintenance.StepReport) string {
	o := s.Orphans
	switch s.Status {
	case maintenance.StatusNothing:
		return "0 orphan(s): " + s.Reason
	case maintenance.StatusPlanned:
		return fmt.Sprintf("%d orphan(s) to delete", o.Found)
	case maintenance.StatusDone, maintenance.StatusPartial:
		return fmt.Sprintf("%d orphan(s) deleted, %d failed, %d left", o.Deleted, o.Failed, o.Left)
	default:
		return "orphans NOT deleted: " + s.Reason
	}
}
