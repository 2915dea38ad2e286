package rewrite

// oldSpecGroupShare is the part of the memory that the input of an old-spec
// group may fill. Such a group keeps one writer open for every partition its
// rows fall into, so its input bounds what all of them can hold.
const oldSpecGroupShare = 16

// pack cuts a bucket into runs of at most MaxGroupBytes, in the bucket's order.
// The runs are evened out: a bucket of 1.4 caps gives two of 0.7 and no
// remainder that would be too small to be kept. A file above the cap is a run
// of its own.
func pack(b *bucket, o PlanOptions) [][]candidate {
	limit := o.MaxGroupBytes
	if b.oldSpec && o.Memory > 0 {
		limit = min(limit, max(1, (o.Memory-o.Reserved)/oldSpecGroupShare))
	}
	var total int64
	for _, c := range b.files {
		total += c.file.FileSizeBytes()
	}
	bins := (total + limit - 1) / limit
	even := total
	if bins > 0 {
		even = (total + bins - 1) / bins
	}
	var (
		runs [][]candidate
		run  []candidate
		size int64
	)
	for _, c := range b.files {
		bytes := c.file.FileSizeBytes()
		full := size+bytes > limit || (size+bytes/2 >= even && size > 0)
		if len(run) > 0 && full {
			runs, run, size = append(runs, run), nil, 0
		}
		run = append(run, c)
		size += bytes
	}
	if len(run) > 0 {
		runs = append(runs, run)
	}

	return runs
}
