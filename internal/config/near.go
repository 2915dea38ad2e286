package config

import (
	"sort"
	"strings"
)

// maxNearLength is the longest name worth comparing; the work grows with it.
const maxNearLength = 100

// Nearest returns the name among candidates that is spelled nearly like name, or
// nothing when none is near enough to be what was meant. It sorts candidates.
func Nearest(name string, candidates []string) string { return nearest(name, candidates) }

// nearest returns the candidate closest to name, or nothing when none is near
// enough to be what was meant.
func nearest(name string, candidates []string) string {
	if len(name) > maxNearLength {
		return ""
	}
	sort.Strings(candidates)
	best, bestDistance := "", len(name)/3+2
	for _, c := range candidates {
		d := distance(strings.ToLower(name), strings.ToLower(c))
		if d < bestDistance && d < max(len(name), len(c))*2/3+1 {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b (optimal string alignment).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}
