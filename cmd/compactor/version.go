package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"

	"compactor/internal/version"
)

func versionCommand(env environment) *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version, the commit and the versions of the main libraries",
		Flags: []cli.Flag{outputFlag()},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			format, err := outputFormat(c)
			if err != nil {
				return err
			}
			info := version.Get()
			if format == outputJSON {
				return writeJSON(env.stdout, info)
			}
			if err := printVersion(env.stdout); err != nil {
				return err
			}
			paths := make([]string, 0, len(info.Libraries))
			for path := range info.Libraries {
				paths = append(paths, path)
			}
			slices.Sort(paths)
			for _, path := range paths {
				if _, err := fmt.Fprintf(env.stdout, "  %s %s\n", path, info.Libraries[path]); err != nil {
					return fmt.Errorf("write version: %w", err)
				}
			}

			return nil
		},
	}
}

// printVersion prints the one line that --version does.
func printVersion(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "compactor %s\n", version.Get()); err != nil {
		return fmt.Errorf("write version: %w", err)
	}

	return nil
}

func writeJSON(w interface{ Write([]byte) (int, error) }, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	if _, err := w.Write(append(raw, '\n')); err != nil {
		return fmt.Errorf("write output: %w", err)
	}

	return nil
}
