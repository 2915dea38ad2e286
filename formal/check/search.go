package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// memoryMiB bounds one search; a search that needs more is incomplete.
	memoryMiB = 8000
	// longFactor is how much longer a search with the tag long may take.
	longFactor = 10
	// wallFactor turns a limit of processor time into one of waiting time, for a
	// machine that is busy with other things.
	wallFactor = 20
)

// searcher runs Spin. It runs one search at a time and is not for concurrent use.
type searcher struct {
	models string
	work   string
	limit  time.Duration
}

// result is one line of the report.
type result struct {
	Configuration configuration
	Expectation   expectation
	finding
	Seconds float64 // Processor time of the search itself.
}

// asExpected reports whether the search shows what the configuration demands.
func (r result) asExpected() bool { return r.Problem == "" && r.Verdict == r.Expectation.Want }

// searchAll searches every property of c and hands each result to report. An error
// means that a tool could not be run, or that ctx ended; what a search finds is
// never an error.
func (s searcher) searchAll(ctx context.Context, c configuration, report func(result)) error {
	built := map[string]string{}
	for _, e := range c.Expectations {
		m := methodFor(c.Model, e.Property)
		if built[m.Name] == "" {
			verifier, err := s.build(ctx, c, m)
			if err != nil {
				return fmt.Errorf("build %s for %s: %w", c.Name, e.Property, err)
			}
			built[m.Name] = verifier
		}
		r, err := s.search(ctx, c, e, built[m.Name])
		if err != nil {
			return fmt.Errorf("search %s for %s: %w", c.Name, e.Property, err)
		}
		report(r)
	}
	return nil
}

// build translates the model and compiles its verifier, in a folder of its own.
func (s searcher) build(ctx context.Context, c configuration, m method) (string, error) {
	dir, err := os.MkdirTemp(s.work, c.Name+"-")
	if err != nil {
		return "", fmt.Errorf("create folder: %w", err)
	}
	if err := s.copyModels(dir); err != nil {
		return "", err
	}
	translate := append([]string{"-a"}, c.Switches...)
	translate = append(append(translate, m.Translate...), c.Model+".pml")
	if out, _, err := execute(ctx, dir, "spin", translate...); err != nil {
		return "", fmt.Errorf("translate: %w: %s", err, lastLine(out))
	}
	// Most verifiers run for less time than gcc needs to optimize them further.
	// Warnings concern generated code.
	compile := []string{"-O1", "-w", "-DMEMLIM=" + strconv.Itoa(memoryMiB), "-o", "verifier"}
	compile = append(append(compile, m.Compile...), "pan.c")
	if out, _, err := execute(ctx, dir, "gcc", compile...); err != nil {
		return "", fmt.Errorf("compile: %w: %s", err, lastLine(out))
	}
	return filepath.Join(dir, "verifier"), nil
}

// copyModels copies all models, because they include each other.
func (s searcher) copyModels(dir string) error {
	files, err := filepath.Glob(filepath.Join(s.models, "*.pml"))
	if err != nil {
		return fmt.Errorf("list models in %s: %w", s.models, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read model: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o600); err != nil {
			return fmt.Errorf("write model: %w", err)
		}
	}
	return nil
}

// search runs the verifier of c for one property. A limit that is exceeded is a
// finding; an error means that the verifier could not be started, or that ctx ended.
func (s searcher) search(ctx context.Context, c configuration, e expectation, verifier string) (result, error) {
	limit := s.limit
	if c.Tag == "long" {
		limit *= longFactor
	}
	bounded, cancel := context.WithTimeout(ctx, wallFactor*limit)
	defer cancel()
	m := methodFor(c.Model, e.Property)
	args := append([]string{"-m" + depth}, m.Run...)
	if m.Select {
		args = append(args, e.Property)
	}
	out, used, err := execute(bounded, filepath.Dir(verifier), verifier, args...)
	if ctx.Err() != nil {
		return result{}, fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	r := result{Configuration: c, Expectation: e, Seconds: used.Seconds()}
	r.finding = readOutput(out, m, e.Want == reached)
	var exit *exec.ExitError
	switch {
	case bounded.Err() != nil || used > limit:
		r.Problem = fmt.Sprintf("took longer than %s", limit)
	case err != nil && !errors.As(err, &exit):
		return result{}, err
	case err != nil && r.Problem == "":
		r.Problem = err.Error()
	}
	return r, nil
}

// execute runs a command in dir and returns both its outputs and the processor
// time it used.
func execute(ctx context.Context, dir, name string, args ...string) (string, time.Duration, error) {
	var out strings.Builder
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Stdout = &out
	cmd.Stderr = &out
	err := cmd.Run()
	var used time.Duration
	if cmd.ProcessState != nil {
		used = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if err != nil {
		return out.String(), used, fmt.Errorf("run %s: %w", filepath.Base(name), err)
	}
	return out.String(), used, nil
}
