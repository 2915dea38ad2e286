package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"compactor/internal/config"
)

func configCommand(env environment) *cli.Command {
	return &cli.Command{
		Name:  "config",
		Usage: "check the configuration, or print the effective values",
		Flags: commonFlags(),
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("unknown command %q; use compactor config validate or compactor config show", c.Args().First())
			}

			return usagef("name what to do: compactor config validate or compactor config show")
		},
		Subcommands: []*cli.Command{
			{
				Name:      "validate",
				Usage:     "check the configuration; all violations are listed at once, nothing is connected to",
				ArgsUsage: " ",
				Flags:     append(stringFlags(compactKeyFlags(), "Compaction:"), commonFlags()...),
				Action: func(c *cli.Context) error {
					if err := noArguments(c); err != nil {
						return err
					}
					cfg, err := loadConfig(c, env)
					if err != nil {
						return err
					}
					if err := cfg.ValidateClaim(); err != nil {
						return &usageError{err}
					}
					format, err := outputFormat(c)
					if err != nil {
						return err
					}
					if format == outputJSON {
						return writeJSON(env.stdout, map[string]any{"valid": true, "form": cfg.Form, "path": cfg.Path})
					}
					where := cfg.Path
					if where == "" {
						where = "environment and flags"
					}
					if _, err := fmt.Fprintf(env.stdout, "%s: valid (%s form)\n", where, cfg.Form); err != nil {
						return fmt.Errorf("write result: %w", err)
					}

					return nil
				},
			},
			{
				Name:      "show",
				Usage:     "print every effective value and where it came from; secrets are redacted",
				ArgsUsage: " ",
				Flags: slices.Concat(stringFlags(compactKeyFlags(), "Compaction:"), []cli.Flag{
					&cli.StringFlag{Name: "table", Usage: "also print the policy of `NAMESPACE.TABLE`, with what its properties say; asks the catalog for it"},
				}, commonFlags()),
				Action: func(c *cli.Context) error { return showConfig(c, env) },
			},
		},
	}
}

func showConfig(c *cli.Context, env environment) error {
	if err := noArguments(c); err != nil {
		return err
	}
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	o := config.ShowOptions{JSON: format == outputJSON}
	name, ofTable := lookup(c, "table")
	if !ofTable {
		cfg, err := loadConfig(c, env)
		if err != nil {
			return err
		}

		return printConfig(cfg, env, o)
	}
	ident, err := parseOne(name)
	if err != nil {
		return err
	}
	s, err := openSession(c, env, true)
	if err != nil {
		return err
	}
	defer s.close()
	tbl, err := s.catalog.LoadTable(c.Context, ident)
	if err != nil {
		return fmt.Errorf("policy of %s: %w", name, err)
	}
	o.Table, o.Properties = strings.Join(ident, "."), tbl.Properties()
	if err := printConfig(s.cfg, env, o); err != nil {
		return err
	}
	if err := s.cfg.CheckTable(o.Table, o.Properties); err != nil {
		return fmt.Errorf("policy of %s: %w", o.Table, &usageError{err})
	}

	return nil
}

func printConfig(cfg *config.Config, env environment, o config.ShowOptions) error {
	return cfg.Show(env.stdout, o) //nolint:wrapcheck // It says what it could not write.
}
