package layout

import (
	"fmt"

	"github.com/apache/iceberg-go"

	"compactor/pkg/rewrite/splice/format"
)

// Loose is the layout with every column as optional as the table has it. Files
// that require more can be brought into it, see Take.
func (l *Layout) Loose(sc *iceberg.Schema) (*Layout, error) {
	fields, err := iceberg.IndexByID(sc)
	if err != nil {
		return nil, fmt.Errorf("index schema: %w", err)
	}
	out := &Layout{leaves: l.leaves}
	for _, f := range l.Fields {
		loose := Field{ID: f.ID, Missing: f.Missing}
		loose.Elements = append(loose.Elements, f.Elements...)
		loose.Columns = append(loose.Columns, f.Columns...)
		for i := range loose.Elements {
			e := &loose.Elements[i]
			if e.FieldID == nil || *e.Repetition != format.Required {
				continue
			}
			if field, known := fields[int(*e.FieldID)]; known && !field.Required {
				optional := format.Optional
				e.Repetition = &optional
			}
		}
		e := &emitter{field: &loose}
		if e.number(); e.err != nil {
			return nil, e.err
		}
		out.add(loose)
	}

	return out, nil
}
