package rewrite

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/splice"
	"compactor/pkg/rewrite/splice/codec"
	"compactor/pkg/rewrite/splice/delta"
	"compactor/pkg/rewrite/splice/dict"
	"compactor/pkg/rewrite/splice/hybrid"
	"compactor/pkg/rewrite/splice/layout"
	"compactor/pkg/rewrite/splice/page"
	"compactor/pkg/rewrite/splice/remake"
	"compactor/pkg/rewrite/splice/thrift"
)

func TestDamageIsLeftToTheGeneralEngine(t *testing.T) {
	for _, damage := range []error{
		splice.ErrCorrupt, codec.ErrCorrupt, delta.ErrCorrupt, dict.ErrCorrupt, hybrid.ErrCorrupt, layout.ErrCorrupt, page.ErrCorrupt,
		remake.ErrCorrupt, thrift.ErrCorrupt,
	} {
		refused := notSpliced(fmt.Errorf("column id: %w: 3 values", damage))
		require.NotNil(t, refused, damage)
		assert.Equal(t, ruleDamage, refused.Rule, damage)
	}
	assert.Nil(t, notSpliced(fmt.Errorf("column id: %w", page.ErrChecksum)), "the general engine would not see it")
	assert.Nil(t, notSpliced(errors.New("read file: no such host")))
}
