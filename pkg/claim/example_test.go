package claim_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"compactor/pkg/claim"
)

// A writer claims the table, reads its head under the claim, works under the
// claim's context, asks once more, commits before the deadline and releases.
func Example() {
	dir, err := os.MkdirTemp("", "claims")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir) //nolint:errcheck // A folder left behind harms nobody.

	write := func(ctx context.Context, claimer claim.Claimer, key claim.Key) error {
		held, err := claimer.Acquire(ctx, key, claim.AcquireOptions{Timeout: time.Minute})
		if err != nil {
			return err
		}
		defer held.Release(ctx) //nolint:errcheck // The server frees what it was not told to.
		fmt.Println("read the head of", held.Key(), "and prepare the commit")
		deadline, err := held.Verify(held.Context()) //nolint:contextcheck // A claim's context is a child of ctx.
		if err != nil {
			return err
		}
		commitCtx, cancel := context.WithDeadline(held.Context(), deadline)
		defer cancel()
		fmt.Println("commit:", commitCtx.Err() == nil)
		return held.Release(ctx)
	}

	claimer, err := claim.Open(context.Background(), claim.Config{Mode: claim.ModeFile, Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	key := claim.Key{Realm: "analytics", Namespace: []string{"sales"}, Table: "orders"}
	err = write(context.Background(), claimer, key)
	fmt.Println("held by somebody else:", errors.Is(err, claim.ErrHeld), "lost:", errors.Is(err, claim.ErrLost))
	// Output:
	// read the head of analytics"sales"."orders" and prepare the commit
	// commit: true
	// held by somebody else: false lost: false
}
