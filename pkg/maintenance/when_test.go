package maintenance

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOneThresholdIsEnough(t *testing.T) {
	t.Parallel()
	live := Live{Files: 10, SmallFiles: 4, Bytes: 1000, SmallBytes: 100, Rows: 200, DeletedRows: 20}
	for _, c := range []struct {
		when CompactWhen
		want bool
	}{
		{CompactWhen{}, true},
		{CompactWhen{SmallFiles: 4}, true},
		{CompactWhen{SmallFiles: 5}, false},
		{CompactWhen{SmallShare: 0.1}, true},
		{CompactWhen{SmallShare: 0.11}, false},
		{CompactWhen{DeleteShare: 0.1}, true},
		{CompactWhen{DeleteShare: 0.11}, false},
		{CompactWhen{SmallFiles: 5, SmallShare: 0.5, DeleteShare: 0.1}, true},
		{CompactWhen{SmallFiles: 5, SmallShare: 0.5, DeleteShare: 0.5}, false},
	} {
		require.Equal(t, c.want, c.when.reached(live), "%+v", c.when)
	}
	require.Equal(t, "the policy asks for it from 5 small files (there are 4) or 50 % of the bytes in small files (there are 10 %) "+
		"or 20 % of the rows deleted (there are 10 %) on", CompactWhen{5, 0.5, 0.2}.describe(live))
	require.False(t, CompactWhen{SmallShare: 0.1}.reached(Live{}))
}
