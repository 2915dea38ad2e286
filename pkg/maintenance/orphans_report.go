package maintenance

import (
	"time"

	"github.com/dustin/go-humanize"
)

// OrphanReport is what the removal of orphans saw and did.
type OrphanReport struct {
	Roots       []string     `json:"roots"`              // folders that were listed
	Unlisted    []string     `json:"unlisted,omitempty"` // folders of the table that were not
	Skipped     []Refusal    `json:"skipped,omitempty"`  // trees of other tables
	References  int          `json:"references"`         // files the metadata names
	Listed      int          `json:"listed"`
	ListedBytes int64        `json:"listed_bytes"`
	Referenced  int          `json:"referenced"` // listed, and named by the metadata
	Kept        OrphansKept  `json:"kept"`
	Found       int          `json:"found"`
	FoundBytes  int64        `json:"found_bytes"`
	Rescued     int          `json:"rescued"` // referenced meanwhile
	Deleted     int          `json:"deleted"`
	Bytes       int64        `json:"deleted_bytes"`
	Failed      int          `json:"failed"`
	Left        int          `json:"left"`            // not tried
	Files       []OrphanFile `json:"files,omitempty"` // dry run: what would be deleted, in order
}

// OrphansKept counts the unreferenced files that stay, by reason.
type OrphansKept struct {
	Young       int `json:"young"`
	UnknownAge  int `json:"unknown_age"`
	Hidden      int `json:"hidden"`
	Metadata    int `json:"metadata"` // metadata.json files and version hints
	OtherTables int `json:"other_tables"`
	LookAlikes  int `json:"look_alikes"` // spelled like a live file that was not found
}

// OrphanFile is one planned delete.
type OrphanFile struct {
	Path     string    `json:"path"`
	Bytes    int64     `json:"bytes"`
	Modified time.Time `json:"modified"` // by the store's clock
}

func (r *OrphanReport) count(orphans []suspect) {
	r.Found = len(orphans)
	for _, o := range orphans {
		r.FoundBytes += o.size
	}
}

func (r *OrphanReport) describe(orphans []suspect) {
	r.Files = make([]OrphanFile, 0, len(orphans))
	for _, o := range orphans {
		r.Files = append(r.Files, OrphanFile{Path: o.path, Bytes: o.size, Modified: o.mod.UTC()})
	}
}

func writeOrphans(line func(label, format string, args ...any), r *OrphanReport) {
	if r == nil {
		return
	}
	n := func(i int) string { return humanize.Comma(int64(i)) }
	for _, root := range r.Roots {
		line("listed", "%s", root)
	}
	for _, root := range r.Unlisted {
		line("not listed", "%s", root)
	}
	for _, t := range r.Skipped {
		line("skipped", "%s: %s", t.What, t.Reason)
	}
	line("files", "%s, %s; %s referenced", n(r.Listed), size(r.ListedBytes), n(r.Referenced))
	k := r.Kept
	line("kept", "%s young, %s of unknown age, %s hidden, %s metadata, %s of other tables, %s spelled like a live file",
		n(k.Young), n(k.UnknownAge), n(k.Hidden), n(k.Metadata), n(k.OtherTables), n(k.LookAlikes))
	line("orphans", "%s, %s", n(r.Found), size(r.FoundBytes))
	if r.Deleted+r.Failed+r.Left+r.Rescued > 0 {
		line("deleted", "%s, %s; %s failed, %s left, %s referenced meanwhile", n(r.Deleted), size(r.Bytes), n(r.Failed), n(r.Left), n(r.Rescued))
	}
	for _, f := range r.Files {
		line("orphan", "%s (%s, %s)", f.Path, size(f.Bytes), f.Modified.Format(time.RFC3339))
	}
}
