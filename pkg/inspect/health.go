package inspect

import "time"

// Health is what there is to know about a table. Sizes are in bytes.
type Health struct {
	Table          string       `json:"table"`
	Location       string       `json:"location"`
	FormatVersion  int          `json:"format_version"`
	SnapshotID     *int64       `json:"snapshot"`
	TargetFileSize int64        `json:"target_file_size"`
	MinFileSize    int64        `json:"min_file_size"` // below it a data file is small
	Data           Data         `json:"data"`
	Sizes          []Bar        `json:"sizes"` // histogram of data files
	Partitions     Partitions   `json:"partitions"`
	Deletes        Deletes      `json:"deletes"`
	Snapshots      Snapshots    `json:"snapshots"`
	Manifests      Manifests    `json:"manifests"`
	Metadata       MetadataFile `json:"metadata"`
	Sort           Sort         `json:"sort"`
	Compaction     Estimate     `json:"compaction"`
	Orphans        *Orphans     `json:"orphans,omitempty"` // only where an estimate was asked for
	Steps          []Verdict    `json:"steps,omitempty"`
}

// Data counts live data files.
type Data struct {
	Files      int64 `json:"files"`
	Bytes      int64 `json:"bytes"`
	Rows       int64 `json:"rows"`
	SmallFiles int64 `json:"small_files"`
	SmallBytes int64 `json:"small_bytes"`
	LargeFiles int64 `json:"large_files"`
}

// Bar counts the files of at least From and less than To bytes; To 0 is open.
type Bar struct {
	From  int64 `json:"from"`
	To    int64 `json:"to,omitempty"`
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

// Partitions counts partitions and names those with most small files.
type Partitions struct {
	Count int         `json:"count"`
	More  int64       `json:"files_not_attributed,omitempty"` // files of partitions beyond what is counted
	Worst []Partition `json:"worst"`
}

// Partition is one partition; its name is empty in an unpartitioned table.
type Partition struct {
	Name       string `json:"name"`
	Files      int64  `json:"files"`
	Bytes      int64  `json:"bytes"`
	SmallFiles int64  `json:"small_files"`
	SmallBytes int64  `json:"small_bytes"`
}

// Deletes counts live delete files. Rows are the records of position deletes
// and deletion vectors; those of equality deletes cannot be known without
// reading data.
type Deletes struct {
	PositionFiles int64   `json:"position_files"`
	Vectors       int64   `json:"deletion_vectors"`
	EqualityFiles int64   `json:"equality_files"`
	Rows          int64   `json:"rows"`
	Share         float64 `json:"share_of_rows"`
}

// Snapshots counts snapshots by age.
type Snapshots struct {
	Count  int        `json:"count"`
	Oldest *time.Time `json:"oldest,omitempty"`
	Newest *time.Time `json:"newest,omitempty"`
	Ages   []AgeBar   `json:"ages"`
	Refs   []Ref      `json:"refs"`
}

// AgeBar counts snapshots younger than Under; the last bar has none.
type AgeBar struct {
	Under     string `json:"under,omitempty"`
	Snapshots int    `json:"snapshots"`
}

// Ref is a branch or a tag.
type Ref struct {
	Name       string     `json:"name"`
	Type       string     `json:"type"`
	SnapshotID int64      `json:"snapshot"`
	At         *time.Time `json:"at,omitempty"` // when that snapshot was committed
}

// Manifests counts the manifests of the current snapshot.
type Manifests struct {
	Count       int   `json:"count"`
	DeleteCount int   `json:"delete_manifests"`
	Bytes       int64 `json:"bytes"`
	Small       int   `json:"small"` // below three quarters of the target
	Target      int64 `json:"target_size"`
}

// MetadataFile is the table's metadata.json.
type MetadataFile struct {
	Location string `json:"location"`
	Bytes    int64  `json:"bytes"`         // 0: not known
	Earlier  int    `json:"earlier_files"` // named by the metadata log
}

// Sort says whether data files have the table's sort order.
type Sort struct {
	OrderID     int    `json:"order_id"`        // 0: the table asks for none
	Order       string `json:"order,omitempty"` // its fields, for people
	SortedFiles int64  `json:"sorted_files"`
}

// Estimate is what a compaction would save: a full scan opens every data file,
// delete file and manifest.
type Estimate struct {
	FilesBefore    int64 `json:"files_before"`
	FilesAfter     int64 `json:"files_after"`
	RequestsBefore int64 `json:"requests_per_scan_before"`
	RequestsAfter  int64 `json:"requests_per_scan_after"`
}

// Orphans is what a listing of the table's folders says about files that no
// snapshot references. Nothing was checked under the claim, so it is an
// estimate; Reason says why there is none.
type Orphans struct {
	Files       int    `json:"files"`
	Bytes       int64  `json:"bytes"`
	Young       int    `json:"young_files"` // unreferenced too, but younger than the age
	Age         string `json:"older_than"`
	Listed      int    `json:"listed_files"`
	ListedBytes int64  `json:"listed_bytes"`
	Reason      string `json:"reason,omitempty"`
}

// Verdict is what a step would do, by these figures alone.
type Verdict struct {
	Step   string `json:"step"`
	Due    bool   `json:"due"`
	Reason string `json:"reason"`
}
