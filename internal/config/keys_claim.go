package config

// Claim modes this package has rules for.
const (
	modeAuto      = "auto"
	modeBakery    = "bakery"
	modeAdvisory  = "advisory"
	modeColdFront = "coldfront"
	modeFile      = "file"
	modeNone      = "none"
)

const (
	keyClaimMode     = "claim.mode"
	keyClaimRealm    = "claim.realm"
	keyClaimPostgres = "claim.postgres"
	keyClaimDir      = "claim.dir"
)

func claimKeys() []*key {
	return []*key{
		{name: keyClaimMode, doc: "How a table is claimed. auto takes coldfront or bakery, whichever is installed in the database.",
			def: modeAuto, enum: []string{modeAuto, modeColdFront, modeBakery, modeAdvisory, modeFile, modeNone},
			field: func(c *Config) any { return &c.Claim.Mode }},
		{name: keyClaimRealm, doc: "First part of the key of every table; all writers of a table must use the same.", form: realmName,
			note: "catalog.warehouse, or catalog.name without one", field: func(c *Config) any { return &c.Claim.Realm }},
		{name: keyClaimPostgres, doc: "PostgreSQL that holds the claims; a password stands here only in the environment or in the file named.",
			note: "what PGHOST and the other PG names give", field: func(c *Config) any { return &c.Claim.Postgres }},
		{name: keyClaimDir, doc: "Folder of the lock files in mode file; required there.",
			field: func(c *Config) any { return &c.Claim.Dir }},
		{name: "claim.pooler", doc: "What to do behind a connection pooler: refuse, or session when it pools whole sessions.",
			def: "refuse", enum: []string{"refuse", "session"}, field: func(c *Config) any { return &c.Claim.Pooler }},
		{name: "claim.dead_peer", doc: "Bakery: when a silent peer may be skipped.", def: "quorum", enum: []string{"quorum", "wait", "escape"},
			field: func(c *Config) any { return &c.Claim.DeadPeer }},
		{name: "claim.window", doc: "Bakery: how long a peer's heartbeat may stand still before it may be skipped; half of it is the lease and the most a commit may take.",
			def: "20s", low: "2s", high: "10m", field: func(c *Config) any { return &c.Claim.Window }},
		{name: "claim.timeout", doc: "How long to wait for a claim.", def: "10m", low: "1ms", high: "7d", zero: "wait for ever",
			field: func(c *Config) any { return &c.Claim.Timeout }},
		{name: "claim.max_hold", doc: "How long one claim is held before waiting writers go first.", def: "15s", low: "1ms", high: "1d",
			zero: "one claim for all the work of a step", field: func(c *Config) any { return &c.Claim.MaxHold }},
		{name: "claim.max_rounds", doc: "The most claims one step takes in turn; the rest of the work is reported as left.",
			def: "20", low: "1", high: "100000", field: func(c *Config) any { return &c.Claim.MaxRounds }},
	}
}
