package rewrite

import (
	"fmt"
	"maps"
	"net/url"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
)

// outputPath names the n-th output of a group, in the folder that the table's
// location and properties give the group's partition. out is the table as the
// writer sees it.
func outputPath(tbl, out *table.Table, g Group, n int) (string, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return "", fmt.Errorf("name output: %w", err)
	}
	props := out.Properties()
	if where := g.folder(tbl); where != "" {
		root, err := url.Parse(out.Location())
		if err != nil {
			return "", fmt.Errorf("name output: %w", err)
		}
		props = maps.Clone(props)
		if props == nil {
			props = iceberg.Properties{}
		}
		props[table.WriteDataPathKey] = root.JoinPath("data", where).String()
	}
	locations, err := table.LoadLocationProvider(out.Location(), props)
	if err != nil {
		return "", fmt.Errorf("name output: %w", err)
	}

	return locations.NewDataLocation(fmt.Sprintf("00000-%d-%s-%05d.parquet", n, id, 1)), nil
}

// folder is the path of the group's partition, empty without one.
func (g Group) folder(tbl *table.Table) string {
	spec := tbl.Spec()
	if g.SpecID != spec.ID() {
		return ""
	}

	return partitionPath(spec, tbl.Schema(), g.Files[0].Data)
}
