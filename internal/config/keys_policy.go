package config

// Policy keys that other code of the package names.
const (
	keyTarget     = "compact.target_file_size"
	keyMinFile    = "compact.min_file_size"
	keyMaxFile    = "compact.max_file_size"
	keyMaxGroup   = "compact.max_group_size"
	keyStrategy   = "compact.strategy"
	keySortBy     = "compact.sort_by"
	keyDisabled   = "disabled"
	keyMatch      = "match"
	orphanFloor   = "24h"
	orphanFloorAs = "a younger file may belong to a write that is still in flight"
)

// policyKeys returns the keys of one policy, without the "defaults." in front.
func policyKeys() []*key {
	keys := append(compactKeys(), compactWhenKeys()...)
	keys = append(keys,
		&key{name: "manifests.enabled", doc: "Rewrite manifests in a run.", def: "true",
			policy: func(p *Policy) any { return &p.Manifests.Enabled }},
		&key{name: "manifests.target_size", doc: "Size a rewritten manifest should have.", def: "8MiB", low: "1KiB", high: "1GiB",
			properties: []string{"commit.manifest.target-size-bytes"},
			policy:     func(p *Policy) any { return &p.Manifests.TargetSize }},
		&key{name: "manifests.when_manifests", doc: "In a run, rewrite manifests only when the table has so many.", def: "0", low: "1", high: "10000000",
			zero: "always", policy: func(p *Policy) any { return &p.Manifests.WhenManifests }},
		&key{name: "manifests.interval", doc: "In a run, rewrite manifests only so long after the last rewrite by this program.", def: "0", low: "1s", high: "3650d",
			zero: "always", policy: func(p *Policy) any { return &p.Manifests.Interval }})
	keys = append(keys, expireKeys()...)
	return append(keys,
		&key{name: "orphans.enabled", doc: "Delete orphan files in a run.", def: "false",
			policy: func(p *Policy) any { return &p.Orphans.Enabled }},
		&key{name: "orphans.older_than", doc: "Age, by the store's clock, below which a file is never an orphan.", def: "72h",
			low: orphanFloor, high: "36500d", why: orphanFloorAs,
			policy: func(p *Policy) any { return &p.Orphans.OlderThan }},
		&key{name: "orphans.max_share", doc: "Stop when a larger share of the files listed looks like orphans.", def: "0.5", low: "0.0001", high: "1",
			policy: func(p *Policy) any { return &p.Orphans.MaxShare }})
}

func compactKeys() []*key {
	return []*key{
		{name: "compact.enabled", doc: "Compact data files in a run.", def: "true",
			policy: func(p *Policy) any { return &p.Compact.Enabled }},
		{name: keyTarget, doc: "Size a rewritten data file should have.", def: "512MiB", low: "1KiB", high: "64GiB",
			properties: []string{"write.target-file-size-bytes"},
			policy:     func(p *Policy) any { return &p.Compact.TargetFileSize }},
		{name: keyMinFile, doc: "A smaller file is rewritten.", def: "0", low: "1", high: "64GiB", zero: "75 % of the target",
			policy: func(p *Policy) any { return &p.Compact.MinFileSize }},
		{name: keyMaxFile, doc: "A larger file is rewritten.", def: "0", low: "1", high: "256GiB", zero: "180 % of the target",
			policy: func(p *Policy) any { return &p.Compact.MaxFileSize }},
		{name: "compact.min_input_files", doc: "This many candidates are worth a rewrite, whatever their size.", def: "5", low: "2", high: "100000",
			policy: func(p *Policy) any { return &p.Compact.MinInputFiles }},
		{name: "compact.delete_file_threshold", doc: "This many delete files on a data file make it a candidate.", def: "0", low: "1", high: "1000000",
			zero: "their number is no reason", policy: func(p *Policy) any { return &p.Compact.DeleteFileThreshold }},
		{name: "compact.delete_ratio_threshold", doc: "This share of deleted rows makes a data file a candidate.", def: "0.3", low: "0.0001", high: "1",
			policy: func(p *Policy) any { return &p.Compact.DeleteRatioThreshold }},
		{name: "compact.rewrite_deletes", doc: "Merge the position deletes that stay into fewer files, or into deletion vectors from format version 3 on.", def: "false",
			policy: func(p *Policy) any { return &p.Compact.RewriteDeletes }},
		{name: keyMaxGroup, doc: "The most input one group of files may have.", def: "100GiB", low: "1KiB", high: "1TiB",
			policy: func(p *Policy) any { return &p.Compact.MaxGroupSize }},
		{name: keyStrategy, doc: "In which order rows are written: sort puts them in the table's sort order or that of sort_by, binpack keeps them as they are and does not look at sort_by, auto sorts a table that has an order.",
			def: "auto", enum: []string{"auto", "binpack", "sort"}, policy: func(p *Policy) any { return &p.Compact.Strategy }},
		{name: keySortBy, doc: "Sort by this instead of the table's sort order: columns or transforms of them, with asc or desc and nulls first or nulls last, such as \"region, ts desc, bucket(16, id)\".",
			note: "the table's sort order", policy: func(p *Policy) any { return &p.Compact.SortBy }},
		{name: "compact.engine", doc: "How files are rewritten: auto and splice move encoded pages in groups where that can be done, general decodes and encodes all.",
			def: "auto", enum: []string{"auto", "general", "splice"}, policy: func(p *Policy) any { return &p.Compact.Engine }},
		{name: "compact.recompress", doc: "Compress moved pages anew, where the table names another codec than theirs or a level. General rewrites always do.", def: "false",
			policy: func(p *Policy) any { return &p.Compact.Recompress }},
	}
}

// compactWhenKeys are the thresholds of compaction. Each is a reason of its own.
func compactWhenKeys() []*key {
	return []*key{
		{name: "compact.when_small_files", doc: "In a run, compact when at least so many files are below the minimum size.", def: "0", low: "1", high: "100000000",
			zero: "their number is no reason", policy: func(p *Policy) any { return &p.Compact.WhenSmallFiles }},
		{name: "compact.when_small_share", doc: "In a run, compact when files below the minimum size hold at least this share of the bytes.", def: "0", low: "0.0001", high: "1",
			zero: "their share is no reason", policy: func(p *Policy) any { return &p.Compact.WhenSmallShare }},
		{name: "compact.when_delete_share", doc: "In a run, compact when position deletes and deletion vectors hold at least this share of the rows.", def: "0", low: "0.0001", high: "1",
			zero: "their share is no reason", policy: func(p *Policy) any { return &p.Compact.WhenDeleteShare }},
		{name: "compact.interval", doc: "In a run, compact only so long after the last compaction by this program.", def: "0", low: "1s", high: "3650d",
			zero: "always", policy: func(p *Policy) any { return &p.Compact.Interval }},
	}
}

func expireKeys() []*key {
	return []*key{
		{name: "expire.enabled", doc: "Expire snapshots in a run.", def: "false",
			policy: func(p *Policy) any { return &p.Expire.Enabled }},
		{name: "expire.older_than", doc: "Snapshots older than this expire.", def: "5d", low: "1s", high: "36500d", zero: "every age",
			properties: []string{"history.expire.max-snapshot-age-ms", "max-snapshot-age-ms"}, unit: "ms",
			policy: func(p *Policy) any { return &p.Expire.OlderThan }},
		{name: "expire.retain_last", doc: "This many snapshots of a branch stay, whatever their age.", def: "1", low: "1", high: "1000000",
			properties: []string{"history.expire.min-snapshots-to-keep", "min-snapshots-to-keep"},
			policy:     func(p *Policy) any { return &p.Expire.RetainLast }},
		{name: "expire.keep_files", doc: "Expire metadata only and leave the files to a later orphan removal.", def: "false",
			policy: func(p *Policy) any { return &p.Expire.KeepFiles }},
		{name: "expire.clean_expired_metadata", doc: "Also drop schemas and partition specs no snapshot uses any more.", def: "false",
			policy: func(p *Policy) any { return &p.Expire.CleanExpiredMetadata }},
		{name: "expire.when_snapshots", doc: "In a run, expire only when the table has so many snapshots.", def: "0", low: "1", high: "10000000",
			zero: "always", policy: func(p *Policy) any { return &p.Expire.WhenSnapshots }},
	}
}
