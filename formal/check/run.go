package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// options are the command line.
type options struct {
	Dir      string        // Folder of the models and the file of configurations.
	Only     string        // Regular expression over names of configurations.
	Long     bool          // Also the configurations with the tag long.
	Markdown bool          // Print a table for docs/formal.md.
	Limit    time.Duration // Most processor time of one search that is not long.
}

// errDiffers says that some search did not show what it must; the lines say which.
var errDiffers = errors.New("the model does not show what is expected of it")

// run searches all chosen configurations and prints a line for each property. It
// returns errDiffers after the last line if any of them is not as expected.
// Cancelling ctx ends the running search. Running it again is always safe.
func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	chosen, err := choose(o)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "formal-")
	if err != nil {
		return fmt.Errorf("create working folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // Nothing in it is needed; the next run has its own.

	p := &printer{out: out, markdown: o.Markdown}
	p.head()
	s := searcher{models: o.Dir, work: work, limit: o.Limit}
	for _, c := range chosen {
		if err := s.searchAll(ctx, c, p.result); err != nil {
			return err
		}
	}
	return p.end()
}

func parseOptions(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("check", flag.ContinueOnError)
	f.StringVar(&o.Dir, "dir", "formal", "folder of the models")
	f.StringVar(&o.Only, "only", "", "regular expression over names of configurations")
	f.BoolVar(&o.Long, "long", false, "also run the larger searches")
	f.BoolVar(&o.Markdown, "markdown", false, "print a Markdown table")
	f.DurationVar(&o.Limit, "limit", 2*time.Minute, "most processor time of one search; the larger searches may take ten times as long")
	if err := f.Parse(args); err != nil {
		return o, fmt.Errorf("read command line: %w", err)
	}
	return o, nil
}

func choose(o options) ([]configuration, error) {
	file := filepath.Join(o.Dir, "configurations")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read configurations: %w", err)
	}
	all, err := parseConfigurations(string(text))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	only, err := regexp.Compile(o.Only)
	if err != nil {
		return nil, fmt.Errorf("read -only: %w", err)
	}
	var chosen []configuration
	for _, c := range all {
		if only.MatchString(c.Name) && (o.Long || c.Tag != "long") {
			chosen = append(chosen, c)
		}
	}
	if len(chosen) == 0 {
		return nil, errors.New("no configuration chosen")
	}
	return chosen, nil
}
