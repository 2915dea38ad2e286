package maintenance

import "time"

// ExpireReport is what an expiry removed, or in a dry run would remove.
type ExpireReport struct {
	Snapshots []ExpiredSnapshot `json:"snapshots"`
	Retained  int               `json:"snapshots_retained"`
	Refs      []string          `json:"refs_removed,omitempty"`
	Schemas   []int             `json:"schemas_removed,omitempty"`
	Specs     []int             `json:"specs_removed,omitempty"`
	Resumed   int               `json:"snapshots_resumed,omitempty"` // expired earlier, whose files were left
	Files     FileSweep         `json:"files"`
}

// ExpiredSnapshot names a snapshot that expired.
type ExpiredSnapshot struct {
	ID        int64     `json:"id"`
	Committed time.Time `json:"committed"`
	Operation string    `json:"operation,omitempty"`
}

// FileSweep is what an expiry found unreachable, and deleted.
type FileSweep struct {
	Planned       int      `json:"planned"`
	Deleted       int      `json:"deleted"`
	Failed        int      `json:"failed"`
	Left          int      `json:"left"` // not tried
	ContentFiles  int      `json:"content_files"`
	Manifests     int      `json:"manifests"`
	ManifestLists int      `json:"manifest_lists"`
	Statistics    int      `json:"statistics_files"`
	Why           string   `json:"left_because,omitempty"`
	Failures      []string `json:"failures,omitempty"` // the first few
	Paths         []string `json:"paths,omitempty"`    // dry run
}
