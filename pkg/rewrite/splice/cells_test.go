//go:build !long

package splice

import "compactor/pkg/rewrite/rewritetest"

// cells are all combinations with the build tag "long".
func cells() []rewritetest.Cell { return rewritetest.Covering() }
