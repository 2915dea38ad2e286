package splice

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/rewritetest"
	"compactor/pkg/rewrite/splice/format"
)

// Spark's reader of vectors returns wrong rows for indices after values.
func TestIndicesNeverComeAfterValues(t *testing.T) {
	for _, version := range []string{"v1", "v2"} {
		of := func(encoding, nulls string, seed uint64) []byte {
			return sample(t, rewritetest.Cell{Version: version, Encoding: encoding, Codec: "zstd", Nulls: nulls}, seed)
		}
		for name, c := range map[string]struct {
			files [][]byte
			kept  bool
		}{
			"indices, then values":          {[][]byte{of("dictionary", "some", 1), of("plain", "some", 2)}, true},
			"values, then indices":          {[][]byte{of("plain", "some", 1), of("dictionary", "some", 2)}, false},
			"indices, values, then indices": {[][]byte{of("dictionary", "some", 1), of("plain", "some", 2), of("dictionary", "some", 3)}, false},
			"deltas, then indices":          {[][]byte{of("delta", "some", 1), of("dictionary", "some", 2)}, false},
			"nulls, then indices":           {[][]byte{of("plain", "all", 1), of("dictionary", "some", 2)}, false},
		} {
			t.Run(version+" "+name, func(t *testing.T) {
				out, _, err := join(fuzzSchema(), Options{Column: columnOptions()}, c.files...)
				require.NoError(t, err)
				assert.Equal(t, c.kept, dataPages(t, fuzzSchema(), out)[format.RLEDictionary] > 0)
				sameValues(t, out, c.files...)
			})
		}
	}
}
