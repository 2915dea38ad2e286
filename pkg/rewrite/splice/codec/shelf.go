package codec

import "sync"

// Shelf keeps what is used again. Other than a sync.Pool it is not emptied by the
// garbage collector, so it is for few things that take long to make, and lives no
// longer than the work they are for. The zero value is empty. It is safe for
// concurrent use.
type Shelf[T any] struct {
	mu   sync.Mutex
	free []T
}

// Take returns something that was put back, false when there is nothing.
func (s *Shelf[T]) Take() (one T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.free)
	if n == 0 {
		return one, false
	}
	one = s.free[n-1]
	s.free = s.free[:n-1]

	return one, true
}

// Put puts something back, which the caller does not use any more.
func (s *Shelf[T]) Put(one T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, one)
}
