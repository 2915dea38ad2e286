package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
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
				Flags:     append(stringFlags(compactKeyFlags(), "Compaction:"), commonFlags()...),
				Action:    func(c *cli.Context) error { return showConfig(c, env) },
			},
		},
	}
}

func showConfig(c *cli.Context, env environment) error {
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	cfg, err := loadConfig(c, env)
	if err != nil {
		return err
	}
	if format == outputJSON {
		return writeJSON(env.stdout, cfg.Values())
	}
	if err := cfg.Show(env.stdout); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}

	return nil
}
