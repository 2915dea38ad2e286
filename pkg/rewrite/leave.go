package rewrite

import "fmt"

// refusedFile is a file that can be read in no way that is certain to keep its
// rows.
type refusedFile struct {
	file   File
	reason error
}

func (r refusedFile) error() error {
	return fmt.Errorf("data file %s: %w", r.file.Data.FilePath(), r.reason)
}

// separate takes the refused files out of those that were inspected.
func separate(inspected, asked []File, reasons []error) (left []File, refused []refusedFile) {
	for i, reason := range reasons {
		if reason == nil {
			left = append(left, inspected[i])
		} else {
			refused = append(refused, refusedFile{asked[i], reason})
		}
	}

	return left, refused
}

// asRefusals gathers refused files by reason.
func asRefusals(files []refusedFile) []Refusal {
	gathered := newRefusals()
	for _, r := range files {
		gathered.file(candidate{entry: r.file.entry}, r.reason.Error())
	}

	return gathered.list()
}

// leave takes refused files out of a group that is about to be rewritten. The
// deletes that apply to them stay, as they do for every file that is not
// rewritten. It fails when the other files alone would not have been planned:
// rewriting them would be no progress.
func (res *Result) leave(refused []refusedFile) error {
	res.Refused = asRefusals(refused)
	g, why := res.Group.weigh()
	if why == "" {
		return refused[0].error()
	}
	res.Group = g
	res.countInputs()

	return nil
}

// countInputs sets the rows and bytes that go into the group.
func (res *Result) countInputs() {
	res.RowsIn, res.BytesIn = 0, 0
	for _, f := range res.Group.Files {
		res.RowsIn += f.Data.Count()
		res.BytesIn += f.Data.FileSizeBytes()
	}
}
