package rewrite

// cutter decides after how many rows an output is full, so that outputs come
// out even and inside the size window.
//
// The writer reports bytes only when a row group is flushed. Until the first
// flush the cutter goes by the size of the inputs, afterwards by what the rows
// really took; row groups are at most half a target, so that this is known well
// before an output is full.
type cutter struct {
	size       sizing
	rowsTotal  int64 // rows expected in all outputs
	groupRows  int64 // rows of one row group
	perRow     float64
	measured   bool
	rowsDone   int64 // rows in closed outputs
	bytesDone  int64 // bytes of closed outputs
	rows       int64 // rows given to the open output
	flushed    int64 // bytes the open output has flushed
	flushedRow int64 // rows in those bytes
}

// newCutter starts from the estimate that live rows take live bytes.
func newCutter(size sizing, rows, bytes, groupRows int64) *cutter {
	return &cutter{
		size: size, rowsTotal: rows, groupRows: max(1, groupRows),
		perRow: float64(max(1, bytes)) / float64(max(1, rows)),
	}
}

// rowsPerTarget is how many rows one target size holds by the first estimate.
func rowsPerTarget(size sizing, rows, bytes int64) int64 {
	return int64(max(1, float64(size.target)*float64(max(1, rows))/float64(max(1, bytes))))
}

// observe takes the bytes that the open output has flushed so far.
func (c *cutter) observe(flushed int64) {
	if flushed <= c.flushed || flushed < magicBytes+1 {
		return
	}
	rows := c.rows / c.groupRows * c.groupRows
	if rows == 0 {
		rows = c.rows // flushed by bytes, before the row limit
	}
	c.flushed, c.flushedRow, c.measured = flushed, rows, true
	c.perRow = float64(c.bytesDone+flushed) / float64(max(1, c.rowsDone+rows))
}

// magicBytes is what a Parquet file begins with, before any row group.
const magicBytes = 4

// full reports whether the next rows belong to a new output.
func (c *cutter) full(next int64) bool {
	if c.rows == 0 {
		return false
	}
	left := c.rowsTotal - c.rowsDone
	outputs := outputCount(int64(float64(left)*c.perRow), c.size)
	if outputs <= 1 {
		return c.measured && c.openBytes() > c.size.max-c.size.target/10
	}
	if !c.measured && c.rows < c.groupRows {
		return false
	}
	goal := float64(left) / float64(outputs)

	return float64(c.rows)+float64(next)/2 > goal
}

func (c *cutter) openBytes() int64 {
	return c.flushed + int64(float64(c.rows-c.flushedRow)*c.perRow)
}

// add counts rows given to the open output.
func (c *cutter) add(rows int64) { c.rows += rows }

// closed ends the open output, which took bytes in all.
func (c *cutter) closed(bytes int64) {
	c.rowsDone += c.rows
	c.bytesDone += bytes
	if c.rowsDone > 0 && bytes > 0 {
		c.perRow, c.measured = float64(c.bytesDone)/float64(c.rowsDone), true
	}
	c.rows, c.flushed, c.flushedRow = 0, 0, 0
}
