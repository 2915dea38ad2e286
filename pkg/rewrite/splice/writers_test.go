package splice

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/rewritetest"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/layout"
	"compactor/pkg/rewrite/splice/refuse"
)

func TestPrefixesOfOldWritersAreLeftToReadersThatKnowThem(t *testing.T) {
	raw := sample(t, rewritetest.Cell{Version: "v2", Encoding: "deltabytes", Codec: "zstd"}, 1)
	plain := sample(t, rewritetest.Cell{Version: "v2", Encoding: "plain", Codec: "zstd"}, 1)
	for writer, refused := range map[string]bool{
		"parquet-mr": true, "parquet-mr version 1.7.0 (build 0)": true, "parquet-mr version 1.6.0rc7": true, "parquet-mr version 0.9": true,
		"parquet-mr compiled on a Sunday":     true,
		"parquet-mr version 1.8.0 (build 0)":  false,
		"parquet-mr version 1.13.1 (build 0)": false, "parquet-mr version 2.0.0": false, "parquet-cpp version 1.5.1": false, "": false,
	} {
		_, err := OpenBytes(writtenBy(t, raw, writer), &layout.Finder{Schema: fuzzSchema()})
		if !refused {
			require.NoError(t, err, writer)

			continue
		}
		var why *refuse.Error
		require.ErrorAs(t, err, &why, writer)
		require.Equal(t, &refuse.Error{Rule: RulePrefixes, Detail: "s"}, why, writer)
		_, err = OpenBytes(writtenBy(t, plain, writer), &layout.Finder{Schema: fuzzSchema()})
		require.NoError(t, err, "its other values are good")
	}
}

// writtenBy is the file with another program named in its footer.
func writtenBy(t *testing.T, raw []byte, createdBy string) []byte {
	t.Helper()
	end := len(raw) - tailBytes
	start := end - int(binary.LittleEndian.Uint32(raw[end:]))
	footer, err := format.ReadFooter(raw[start:end])
	require.NoError(t, err)
	footer.CreatedBy = createdBy
	out := footer.Append(append([]byte(nil), raw[:start]...))

	return append(binary.LittleEndian.AppendUint32(out, uint32(len(out)-start)), magic...)
}
