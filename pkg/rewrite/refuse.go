package rewrite

import (
	"fmt"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// encryptionKeyProperty is set on tables whose files are encrypted.
const encryptionKeyProperty = "encryption.key-id"

// refuseTable names the reason why no file of a table may be rewritten.
func refuseTable(tbl *table.Table) (Refusal, bool) {
	props := tbl.Properties()
	refuse := func(reason string) (Refusal, bool) { return Refusal{What: "table", Reason: reason}, true }
	if props[encryptionKeyProperty] != "" || hasEncryptionKeys(tbl.Metadata()) {
		return refuse("encrypted table: encrypted files can be neither read nor written")
	}
	if format := props.Get(table.WriteFormatDefaultKey, table.WriteFormatDefaultDefault); format != "parquet" {
		return refuse(fmt.Sprintf("table asks for %s files; only parquet can be written", format))
	}
	if column := variantsInside(tbl.Schema()); column != "" {
		return refuse(fmt.Sprintf("column %s has variants inside a list or map, which cannot be read", column))
	}
	if reason := unwritable(tbl); reason != "" {
		return refuse(reason)
	}

	return Refusal{}, false
}

func hasEncryptionKeys(meta table.Metadata) bool {
	for range meta.EncryptionKeys() {
		return true
	}

	return false
}

func hasUnknownTransform(spec iceberg.PartitionSpec) bool {
	for _, field := range spec.Fields() {
		switch field.Transform.(type) {
		case iceberg.UnknownTransform, *iceberg.UnknownTransform:
			return true
		}
	}

	return false
}

// refuseFile names the reason why one file may not be rewritten, or nothing.
func refuseFile(tbl *table.Table, c candidate) string {
	switch {
	case !isParquet(c.file):
		return fmt.Sprintf("%s data files cannot be read", c.file.FileFormat())
	case len(c.file.KeyMetadata()) > 0:
		return "encrypted data file"
	}
	spec := tbl.Metadata().PartitionSpecByID(c.spec())
	if spec == nil {
		return fmt.Sprintf("partition spec %d is not in the table metadata", c.spec())
	}
	if reason := UnwritableSpec(tbl.Schema(), *spec); reason != "" { // its manifest has to be written without it
		return reason
	}
	if c.misplaced != "" {
		return fmt.Sprintf("delete file %s names it and is of another partition: some readers apply it and some do not", c.misplaced)
	}
	for _, d := range c.deletes.entries() {
		if !isParquet(d.file) {
			return fmt.Sprintf("%s delete files cannot be read", d.file.FileFormat())
		}
		if len(d.file.KeyMetadata()) > 0 {
			return "encrypted delete file"
		}
		if unremovable(d.file) {
			return "its deletion vector has a format that is not in capitals, and iceberg-go cannot remove such a vector"
		}
	}

	return ""
}

// refusals gathers refused files by reason, in the order of first sight.
type refusals struct {
	byReason map[string]*Refusal
	order    []*Refusal
}

func newRefusals() *refusals { return &refusals{byReason: make(map[string]*Refusal)} }

func (r *refusals) file(c candidate, reason string) {
	known, ok := r.byReason[reason]
	if !ok {
		known = &Refusal{What: "file " + c.path(), Reason: reason}
		r.byReason[reason] = known
		r.order = append(r.order, known)
	} else if known.Files == 1 {
		known.What += " and others"
	}
	known.Files++
	known.Bytes += c.file.FileSizeBytes()
}

func (r *refusals) group(g Group, reason string) {
	r.order = append(r.order, &Refusal{What: groupName(g), Reason: reason, Files: len(g.Files), Bytes: g.Bytes})
}

func (r *refusals) list() []Refusal {
	var out []Refusal
	for _, one := range r.order {
		out = append(out, *one)
	}

	return out
}

// groupName is how people are told about a group.
func groupName(g Group) string {
	where := g.Partition
	if where == "" {
		where = fmt.Sprintf("spec %d", g.SpecID)
	}
	if g.ID == "" {
		return fmt.Sprintf("group of %d files in %s", len(g.Files), where)
	}

	return fmt.Sprintf("%s (%d files in %s)", g.ID, len(g.Files), where)
}
