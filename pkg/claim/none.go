package claim

import (
	"context"
	"fmt"
)

// none takes no claim at all: the catalog's compare-and-swap is the only fence.
type none struct {
	registry
	cfg Config
}

// openNone says out loud that nothing protects other writers from conflicts.
func openNone(cfg Config) Claimer {
	cfg.Logger.Warn().Str("claim_mode", string(ModeNone)).
		Msg("no claim is taken; another writer's commit and ours may reject each other")
	return &none{cfg: cfg}
}

// Mode returns ModeNone.
func (n *none) Mode() Mode { return ModeNone }

// Acquire returns at once with a claim that excludes nobody. The timeout has no
// meaning here.
func (n *none) Acquire(ctx context.Context, key Key, _ AcquireOptions) (*Claim, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("acquire claim %s: %w", key, context.Cause(ctx))
	}
	return n.adopt(ctx, n.cfg, grant{
		key: key, mode: ModeNone, reference: key.String(), started: n.cfg.Now(),
		lease: noLease{}, term: n.cfg.Timing.FileCAS,
	})
}

// noLease can not be lost.
type noLease struct{}

func (noLease) check(context.Context) error   { return nil }
func (noLease) release(context.Context) error { return nil }
func (noLease) abandon()                      {}
func (noLease) idle(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
