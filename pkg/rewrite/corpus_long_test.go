//go:build long

package rewrite

import "compactor/pkg/rewrite/rewritetest"

func corpusCells() []rewritetest.Cell { return rewritetest.Cells() }
