package maintenance

import "sync"

// DeleteBudget bounds how many files are deleted, over all tables of a run. It
// counts the deletes that are asked for, whether they succeed or not; files that
// a step wrote itself and takes back are not counted. A nil budget has no bound. It is safe for concurrent use.
type DeleteBudget struct {
	mu    sync.Mutex
	limit int
	used  int
}

// NewDeleteBudget returns a budget of limit deletes.
func NewDeleteBudget(limit int) *DeleteBudget { return &DeleteBudget{limit: limit} }

// take returns how many of n deletes may be asked for now, and counts them.
func (b *DeleteBudget) take(n int) int {
	if b == nil {
		return n
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, b.limit-b.used)
	b.used += n

	return n
}

// left is how many deletes may still be asked for, at most n.
func (b *DeleteBudget) left(n int) int {
	if b == nil {
		return n
	}
	b.mu.Lock()
	defer b.mu.Unlock()

	return min(n, b.limit-b.used)
}

// spent says that no further delete may be asked for.
func (b *DeleteBudget) spent() bool { return b.left(1) == 0 }

// bound is the limit, and whether there is one.
func (b *DeleteBudget) bound() (int, bool) {
	if b == nil {
		return 0, false
	}

	return b.limit, true
}
