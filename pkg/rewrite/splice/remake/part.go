package remake

import (
	"bytes"

	"github.com/apache/arrow-go/v18/parquet/file"

	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
)

// Part is some pages of a chunk, the first of which begins with a row.
type Part struct {
	Meta       *format.ColumnMetaData // of the chunk
	Dictionary *page.Page             // nil without one
	Pages      []page.Page
}

// Pages decodes a part of a chunk as Column does a whole one. The column has the
// same form as in the output. It may be that no row comes out.
func Pages(p Part, j Job) (Made, error) {
	raw := p.file(j.Leaf)

	return Column(func() (*file.Reader, error) {
		return file.NewParquetReader(bytes.NewReader(raw))
	}, 0, 0, j)
}

// file makes a file of the part.
func (p Part) file(leaf page.Leaf) []byte {
	m := *p.Meta
	m.NumValues, m.TotalUncompressed = 0, 0
	m.DataPageOffset, m.DictionaryOffset, m.EncodingStats = 0, nil, nil
	var chunk []byte
	add := func(one *page.Page) {
		chunk = append(chunk, one.Raw...)
		m.TotalUncompressed += int64(len(one.Raw)-len(one.Body)) + int64(one.Header.Uncompressed)
	}
	if p.Dictionary != nil {
		first := int64(0)
		m.DictionaryOffset = &first
		add(p.Dictionary)
		m.DataPageOffset = int64(len(chunk))
	}
	for i := range p.Pages {
		add(&p.Pages[i])
		m.NumValues += int64(p.Pages[i].Values())
	}
	m.TotalCompressed = int64(len(chunk))

	return around(chunk, &m, leaf)
}
