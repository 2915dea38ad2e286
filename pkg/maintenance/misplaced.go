package maintenance

import (
	"fmt"
	"strings"

	"github.com/apache/iceberg-go/table"
)

// inPlace refuses a table whose new files would not land in the folders that its
// location and its properties name. The library makes a URL of these: it
// escapes spaces and other signs, takes # and ? for the end of a path, and joins
// double slashes. The files would be read back, but they would lie in a folder
// that may be another table's, whose owner may delete them as orphans.
func inPlace(tbl *table.Table) error {
	locations, err := tbl.LocationProvider()
	if err != nil {
		return fmt.Errorf("location %q of %s: %w: %w", tbl.Location(), name(tbl), err, ErrRefused)
	}
	for _, f := range []struct{ property, folder, file string }{
		{table.WriteDataPathKey, "data", locations.NewDataLocation("f")},
		{table.WriteMetadataPathKey, "metadata", locations.NewMetadataLocation("f")},
	} {
		root, ok := tbl.Properties()[f.property]
		if !ok {
			root = strings.TrimRight(tbl.Location(), "/") + "/" + f.folder
		}
		root = strings.TrimRight(root, "/") + "/"
		if len(f.file) < len(root) || !strings.EqualFold(f.file[:len(root)], root) {
			return fmt.Errorf("new files for %s would land at %s, which is another folder: set the table property %s to a folder of this "+
				"table alone, without spaces, double slashes and signs that a URL escapes: %w", root, f.file, f.property, ErrRefused)
		}
	}

	return nil
}
