//go:build !long

package rewrite

import "compactor/pkg/rewrite/rewritetest"

// corpusCells has every version and encoding once, with a codec and a pattern of
// nulls each. With the build tag "long" it has all combinations.
func corpusCells() (out []rewritetest.Cell) {
	for i, c := range rewritetest.Covering() {
		if i%4 == i/4%4 {
			out = append(out, c)
		}
	}

	return out
}
