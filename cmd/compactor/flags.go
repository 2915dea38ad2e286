package main

import (
	"slices"

	"github.com/urfave/cli/v2"

	"compactor/pkg/maintenance"
)

// keyFlag is a flag that sets a key of the configuration.
type keyFlag struct{ flag, key, usage string }

// catalogFlags, claimFlags and compactFlags list the flags that override the
// configuration file, with the key that each one sets.
func catalogFlags() []keyFlag {
	return []keyFlag{
		{"catalog-type", "catalog.type", "catalog `TYPE`: rest, sql or glue"},
		{"catalog-uri", "catalog.uri", "catalog `URI`"},
		{"warehouse", "catalog.warehouse", "warehouse `NAME` or location"},
		{"s3-endpoint", "storage.s3.endpoint", "S3 endpoint `URL`; empty for AWS"},
		{"s3-region", "storage.s3.region", "S3 `REGION`"},
		{"s3-url-style", "storage.s3.url_style", "`STYLE` of S3 addresses: path or vhost"},
	}
}

func claimFlags() []keyFlag {
	return []keyFlag{
		{"claim-mode", "claim.mode", "claim `MODE`: auto, coldfront, bakery, advisory, file or none"},
		{"claim-realm", "claim.realm", "`REALM` of the claim's key (default: the warehouse name)"},
		{"claim-dir", "claim.dir", "`DIR` of the lock files in mode file"},
		{"claim-pooler", "claim.pooler", "`WHAT` to do about a connection pooler: refuse or session"},
		{"claim-timeout", "claim.timeout", "wait at most `DURATION` for the claim (default: 10m; 0 waits for ever)"},
		{"max-hold", "claim.max_hold", "hold one claim for about `DURATION` (default: 15s; 0 holds one claim for all the work)"},
		{"max-rounds", "claim.max_rounds", "at most `N` claims per step (default: 20)"},
	}
}

func compactKeyFlags() []keyFlag {
	return []keyFlag{
		{"target-file-size", "defaults.compact.target_file_size", "write files of about `SIZE` (default: the table's write.target-file-size-bytes, or 512MiB)"},
		{"min-file-size", "defaults.compact.min_file_size", "rewrite files smaller than `SIZE` (default: 75 % of the target)"},
		{"max-file-size", "defaults.compact.max_file_size", "rewrite files larger than `SIZE` (default: 180 % of the target)"},
		{"min-input-files", "defaults.compact.min_input_files", "rewrite a group of at least `N` files (default: 5)"},
		{"delete-file-threshold", "defaults.compact.delete_file_threshold", "rewrite a file with at least `N` delete files (default: 0, never for their number)"},
		{"delete-ratio-threshold", "defaults.compact.delete_ratio_threshold", "rewrite a file when at least this `RATIO` of its rows is deleted (default: 0.3)"},
		{"strategy", "defaults.compact.strategy", "write rows in `ORDER`: sort puts them in the table's sort order, binpack keeps them as they are, auto sorts where the table has an order (default: auto)"},
		{"sort-by", "defaults.compact.sort_by", "sort by `KEYS` instead of the table's sort order, such as \"region, ts desc nulls last, bucket(16, id)\""},
		{"engine", "defaults.compact.engine", "rewrite with `ENGINE`: auto and splice move encoded pages in groups where that can be done, general decodes and encodes all (default: auto)"},
		{"max-group-size", "defaults.compact.max_group_size", "read at most `SIZE` per group (default: 100GiB, and 2 x target while max-hold is not 0)"},
	}
}

func expireKeyFlags() []keyFlag {
	return []keyFlag{
		{"older-than", "defaults.expire.older_than", "expire snapshots older than `DURATION` (default: the table's history.expire.max-snapshot-age-ms, or 5d)"},
		{"retain-last", "defaults.expire.retain_last", "keep the newest `N` snapshots of a branch whatever their age (default: the table's history.expire.min-snapshots-to-keep, or 1)"},
		overrideFlag(),
	}
}

// overrideFlag belongs to the steps that delete files of the table.
func overrideFlag() keyFlag {
	return keyFlag{"override-delete-disabled", "storage.override_delete_disabled", "`true` deletes files although the catalog sends s3.delete-enabled=false (default: false)"}
}

func manifestsKeyFlags() []keyFlag {
	return []keyFlag{
		{"target-size", "defaults.manifests.target_size", "write manifests of about `SIZE` (default: the table's commit.manifest.target-size-bytes, or 8MiB)"},
	}
}

// stepKeyFlags are the flags of a command that set keys of the policy. The
// same name may mean another key for another command.
func stepKeyFlags(command string) []keyFlag {
	switch command {
	case maintenance.StepExpire:
		return append(expireKeyFlags(),
			keyFlag{"keep-files", "defaults.expire.keep_files", ""},
			keyFlag{"clean-expired-metadata", "defaults.expire.clean_expired_metadata", ""})
	case maintenance.StepManifests:
		return manifestsKeyFlags()
	case maintenance.StepOrphans:
		return orphanKeyFlags()
	default:
		return append(compactKeyFlags(), keyFlag{"recompress", "defaults.compact.recompress", ""})
	}
}

func stringFlags(defs []keyFlag, category string) []cli.Flag {
	out := make([]cli.Flag, 0, len(defs))
	for _, d := range defs {
		out = append(out, &cli.StringFlag{Name: d.flag, Usage: d.usage, Category: category})
	}

	return out
}

// commonFlags may stand before or after the command.
func commonFlags() []cli.Flag {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "config", Usage: "configuration `FILE` (environment: COMPACTOR_CONFIG)"},
		outputFlag(),
		&cli.StringFlag{Name: "log-level", Usage: "log from `LEVEL` on: debug, info, warn or error", DefaultText: "info"},
		&cli.StringFlag{Name: "log-format", Usage: "`FORMAT` of log lines: auto (console on a terminal, json elsewhere), console or json", DefaultText: "auto"},
		&cli.BoolFlag{Name: "quiet", Usage: "no progress, no log lines below warn"},
		&cli.StringFlag{Name: "memory", Usage: "use at most about `SIZE` of memory for the work", DefaultText: "three quarters of the container's or machine's memory, at most 4GiB"},
		&cli.StringFlag{Name: "temp-dir", Usage: "sort what does not fit the memory in files in `DIR`", DefaultText: "TMPDIR, or the system's folder for temporary files"},
		&cli.IntFlag{Name: "parallel-groups", Usage: "rewrite `N` groups of a table at a time", DefaultText: "number of processors"},
		&cli.IntFlag{Name: "rate-limit", Usage: "send at most `N` requests a second to the object store, over all tables", DefaultText: "no limit"},
		&cli.StringFlag{Name: "bandwidth", Usage: "move at most `SIZE` a second to and from the object store, over all tables", DefaultText: "no limit; at least 1MiB"},
	}
	flags = append(flags, stringFlags(catalogFlags(), "Catalog and storage:")...)

	return append(flags, stringFlags(claimFlags(), "Claim:")...)
}

// lookup returns the value of a flag, wherever on the command line it stood.
func lookup(c *cli.Context, name string) (string, bool) {
	for _, ctx := range c.Lineage() {
		if ctx.Command == nil && ctx.App == nil {
			continue
		}
		if slices.Contains(ctx.LocalFlagNames(), name) {
			return ctx.String(name), true
		}
	}

	return "", false
}

// isOn reports a boolean flag, wherever it stood.
func isOn(c *cli.Context, name string) bool {
	for _, ctx := range c.Lineage() {
		if slices.Contains(ctx.LocalFlagNames(), name) {
			return ctx.Bool(name)
		}
	}

	return false
}

// number returns an integer flag, or 0 when it was not given.
func number(c *cli.Context, name string) int {
	for _, ctx := range c.Lineage() {
		if slices.Contains(ctx.LocalFlagNames(), name) {
			return ctx.Int(name)
		}
	}

	return 0
}

func commandName(c *cli.Context) string {
	if c.Command == nil {
		return ""
	}

	return c.Command.Name
}

// configKeys returns what the command line sets of the configuration, and the
// name of the flag of each key.
func configKeys(c *cli.Context) (values, names map[string]string, err error) {
	values, names = map[string]string{}, map[string]string{}
	for _, def := range slices.Concat(catalogFlags(), claimFlags(), stepKeyFlags(commandName(c))) {
		names[def.key] = def.flag
		v, ok := lookup(c, def.flag)
		if ok && v == "" {
			return nil, nil, usagef("--%s has an empty value; leave the flag out to keep the default", def.flag)
		}
		if ok {
			values[def.key] = v
		}
	}

	return values, names, coldFrontKeys(c, values, names)
}
