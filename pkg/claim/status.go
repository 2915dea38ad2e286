package claim

import (
	"context"
	"fmt"
	"time"
)

// Status is what the authority of a mode says about one table at one moment. It
// is for people: by the time it is read it may be over.
type Status struct {
	Key  Key
	Mode Mode
	// Reference is the exact text that is locked.
	Reference string
	// Holder is who has the table; nil when nobody does.
	Holder *Party
	// Waiters are those who queue, the next one first.
	Waiters []Party
	// Notes say in words what could not be read, or what the lists cannot show.
	Notes []string
}

// Party is one who holds or waits for a table.
type Party struct {
	// Name is what it calls itself; empty when that is unknown.
	Name string
	// Role is its PostgreSQL role, empty where there is none.
	Role string
	// PID is its server process, 0 when it is unknown or on another node.
	PID int64
	// Node is the node of the mesh that it is on, empty without a mesh.
	Node string
	// Ticket is its ticket, empty where the mode has none.
	Ticket string
	// For is how long it has held or waited, 0 when unknown.
	For time.Duration
	// AtLeast says that For is only a lower bound.
	AtLeast bool
	// Detail says more in words, such as whose answers are missing.
	Detail string
	// Missing lists the nodes of a mesh whose answers have not arrived; for a holder, those that it went on without. Only in mode bakery.
	Missing []Missing
}

// Missing is an answer that has not arrived.
type Missing struct {
	Node string
	// Why says in words what it waits for.
	Why string
}

// Observer is a Claimer that can say who holds a table and who waits for it.
// Every Claimer that Open returns is one.
type Observer interface {
	// Status looks at a table. It claims nothing, waits for nobody, and leaves
	// nothing behind, also when ctx ends; a retry is safe. It may be called while
	// claims are held. The error is that of a key that cannot be, or of an
	// authority that could not be asked.
	Status(ctx context.Context, key Key) (Status, error)
}

// StatusOf asks a Claimer for the status of a table. See Observer.
func StatusOf(ctx context.Context, c Claimer, key Key) (Status, error) {
	o, ok := c.(Observer)
	if !ok {
		return Status{}, fmt.Errorf("claim mode %s cannot say who holds a table", c.Mode())
	}
	return o.Status(ctx, key) //nolint:wrapcheck // It says what could not be read, and where.
}
