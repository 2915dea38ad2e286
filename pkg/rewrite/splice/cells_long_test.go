//go:build long

package splice

import "compactor/pkg/rewrite/rewritetest"

func cells() []rewritetest.Cell { return rewritetest.Cells() }
