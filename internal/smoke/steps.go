package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"compactor/internal/demo"
)

// all makes the table, runs every step and drops the table. The first thing that
// is not as it should be ends it.
func (j *job) all(ctx context.Context) error {
	j.say("making %s: %d small files in %d commits, deletes, a tag", j.name(), demo.Files, demo.Commits)
	if err := demo.Build(j.cat.Context(ctx), j.cat.Client(), j.ident); err != nil {
		return fmt.Errorf("make table: %w", err)
	}
	before, err := j.look(ctx)
	if err != nil {
		return err
	}
	j.say("  %s", before)
	for _, part := range []struct {
		title string
		run   func(context.Context, state) error
	}{
		{"looking, without a change", j.reads},
		{"excluding another writer", j.excludes},
		{"running the policy's steps", j.compacts},
		{"expiring", j.expires},
		{"merging manifests and removing orphans", j.rest},
	} {
		j.say("%s", part.title)
		if err := part.run(ctx, before); err != nil {
			return fmt.Errorf("%s: %w", part.title, err)
		}
	}

	return j.drop(ctx)
}

// reads runs what must not change anything.
func (j *job) reads(ctx context.Context, before state) error {
	for _, args := range [][]string{
		{"config", "validate"},
		{"inspect", j.name()},
		{"run", "--dry-run", j.name()},
		{"claim", "status", j.name()},
	} {
		if _, err := j.call(ctx, 0, args...); err != nil {
			return err
		}
	}
	after, err := j.look(ctx)
	if err != nil {
		return err
	}
	if after.table.MetadataLocation() != before.table.MetadataLocation() {
		return errors.New("the table has changed")
	}

	return nil
}

// excludes holds the claim and wants it for the program once more.
func (j *job) excludes(ctx context.Context, before state) error {
	if _, err := j.call(ctx, 10, "claim", "exec", j.name(), "--", j.program, "compact", "--claim-timeout", "1s", j.name()); err != nil {
		return err
	}
	after, err := j.look(ctx)
	if err != nil {
		return err
	}
	if after.table.MetadataLocation() != before.table.MetadataLocation() {
		return errors.New("the table was changed under another's claim")
	}

	return nil
}

// compacts runs the CronJob's command twice: once it works, once it finds nothing.
func (j *job) compacts(ctx context.Context, before state) error {
	first, err := j.report(ctx)
	if err != nil {
		return err
	}
	after, err := j.look(ctx)
	if err != nil {
		return err
	}
	j.say("  %s", after)
	switch {
	case first.Status != "done" || first.Rewritten.FilesIn != demo.Files:
		return fmt.Errorf("the report says %q and %d files rewritten", first.Status, first.Rewritten.FilesIn)
	case after.rows != before.rows:
		return fmt.Errorf("rows before: %s, after: %s", before.rows, after.rows)
	case len(after.data) != len(demo.Regions()) || len(after.deletes) != 0:
		return fmt.Errorf("not compacted: %s", after)
	case !slices.Equal(after.tagged, before.tagged):
		return errors.New("the tag names other files")
	}
	second, err := j.report(ctx)
	if err != nil {
		return err
	}
	if second.Status != "nothing-to-do" {
		return fmt.Errorf("a second run reports %q", second.Status)
	}

	return nil
}

// expires removes the snapshots before the compaction, and with them every file
// that neither the current snapshot nor the tag names.
func (j *job) expires(ctx context.Context, before state) error {
	if _, err := j.call(ctx, 0, "expire", "--older-than", "0s", j.name()); err != nil {
		return err
	}
	after, err := j.look(ctx)
	if err != nil {
		return err
	}
	j.say("  %s", after)
	if after.rows != before.rows || after.snapshots != 2 || !slices.Equal(after.tagged, before.tagged) {
		return fmt.Errorf("left are %s", after)
	}
	for _, path := range before.data {
		there, err := exists(ctx, after.table, path)
		if err != nil {
			return err
		}
		if _, tagged := slices.BinarySearch(after.tagged, path); there != tagged {
			return fmt.Errorf("file %s is there: %t, is tagged: %t", path, there, tagged)
		}
	}

	return nil
}

func (j *job) rest(ctx context.Context, before state) error {
	for _, step := range []string{"manifests", "orphans", "compact"} {
		if _, err := j.call(ctx, 0, step, j.name()); err != nil {
			return err
		}
	}
	after, err := j.look(ctx)
	if err != nil {
		return err
	}
	if after.rows != before.rows {
		return fmt.Errorf("rows before: %s, after: %s", before.rows, after.rows)
	}
	j.say("  %s", after)

	return nil
}

func (j *job) drop(ctx context.Context) error {
	j.say("dropping the table")
	ctx = j.cat.Context(ctx)
	if err := j.cat.Client().DropTable(ctx, j.ident); err != nil {
		return fmt.Errorf("drop table: %w", err)
	}
	if err := j.cat.Client().DropNamespace(ctx, j.ident[:1]); err != nil {
		return fmt.Errorf("drop namespace: %w", err)
	}
	j.say("everything is as it should be")

	return nil
}

// step is the part of a report's step that counts here.
type step struct {
	Status    string `json:"status"`
	Rewritten struct {
		FilesIn int `json:"files_in"`
	} `json:"rewritten"`
}

// report runs `run` and returns what it says of the compaction.
func (j *job) report(ctx context.Context) (step, error) {
	r, err := j.call(ctx, 0, "run", "--output", "json", j.name())
	if err != nil {
		return step{}, err
	}
	var doc struct {
		ExitCode int `json:"exit_code"`
		Tables   []struct {
			Steps []step `json:"steps"`
		} `json:"tables"`
	}
	if err := json.Unmarshal(r.stdout, &doc); err != nil {
		return step{}, fmt.Errorf("read report: %w", err)
	}
	if doc.ExitCode != 0 || len(doc.Tables) != 1 || len(doc.Tables[0].Steps) == 0 {
		return step{}, fmt.Errorf("the report is not that of a run on one table: %s", r.stdout)
	}

	return doc.Tables[0].Steps[0], nil
}
