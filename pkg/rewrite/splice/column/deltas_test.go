package column

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
)

func TestPageWithoutValuesMayBeEmpty(t *testing.T) {
	for e, leaf := range map[format.Encoding]page.Leaf{
		format.DeltaBinaryPacked: {Type: format.Int32}, format.DeltaLengthByteArray: {Type: format.ByteArray}, format.DeltaByteArray: {Type: format.ByteArray},
	} {
		var d deltas
		require.NoError(t, d.append(nil, deltaPart{encoding: e, leaf: leaf}))
		assert.Zero(t, d.plain(leaf))
		require.Error(t, d.append(nil, deltaPart{encoding: e, leaf: leaf, count: 1}))
		// Readers look for a header all the same.
		assert.NotEmpty(t, d.encode(e, leaf))
	}
}

func TestOnlyPagesOfAtMostTheSizeOfOneAreJoined(t *testing.T) {
	b := &builder{opts: Options{PageBytes: 1000}}
	of := func(bytes, values int32) *page.Page {
		return &page.Page{Header: &format.PageHeader{Uncompressed: bytes, Data: &format.DataPageHeader{NumValues: values}}}
	}
	assert.True(t, b.joinable(of(1000, valuesPerPage)))
	assert.False(t, b.joinable(of(1001, 1)))
	assert.False(t, b.joinable(of(10, valuesPerPage+1)), "it would take memory out of proportion")
}
