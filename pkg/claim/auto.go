package claim

import "context"

// openAuto looks at which claim the database offers. Exactly one must be there:
// guessing would put writers of one table into different protocols.
func openAuto(ctx context.Context, cfg Config) (Claimer, error) {
	server, err := newServer(cfg)
	if err != nil {
		return nil, err
	}
	f, err := server.probe(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case f.hasCold && f.hasOurs:
		return nil, &SetupError{
			What:  "both ColdFront and the bakery schema are installed",
			Where: server.where,
			Hint:  "set claim.mode to the one that the tables' other writers use: coldfront or bakery",
		}
	case f.hasCold:
		cfg.Mode = ModeColdFront
		return openColdFront(ctx, cfg)
	case f.hasOurs:
		cfg.Mode = ModeBakery
		return openBakery(ctx, cfg)
	}
	return nil, &SetupError{
		What:  "neither ColdFront nor the bakery schema is installed",
		Where: server.where,
		Hint:  "set claim.mode to advisory if this one PostgreSQL serves all writers, or to file or none",
	}
}
