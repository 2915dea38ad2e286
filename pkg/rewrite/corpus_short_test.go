//go:build !long

package rewrite

import "compactor/pkg/rewrite/rewritetest"

// corpusCells are all combinations with the build tag "long".
func corpusCells() (out []rewritetest.Cell) {
	for i, c := range rewritetest.Covering() {
		if i%4 == 0 {
			out = append(out, c)
		}
	}

	return out
}
