package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"compactor/internal/catalog"
	"compactor/internal/config"
	"compactor/internal/progress"
	"compactor/internal/store"
	"compactor/internal/tablename"
	"compactor/internal/version"
	"compactor/pkg/claim"
	"compactor/pkg/maintenance"
	"compactor/pkg/rewrite"
)

// session is one run of the program: its configuration and what is open.
type session struct {
	cfg       *config.Config
	runID     string
	started   time.Time
	log       zerolog.Logger
	memory    int64 // of one table
	tempDir   string
	parallel  int // groups of a table at a time
	tables    int // tables at a time
	rateLimit int
	bandwidth int64                     // bytes per second; 0: no bound
	deletes   *maintenance.DeleteBudget // of the run; nil: no bound
	now       func() time.Time
	until     time.Time // no claim begins after it; zero: no limit
	progress  *progress.Sink
	claimer   claim.Claimer // nil in a dry run
	catalog   *catalog.Catalog
	counters  *store.Counters
	rewriting func(*rewrite.Options)
}

// openSession connects in the order that refuses early: the claim's database is
// checked before the catalog or the store is touched. A dry run needs no claim
// and does not connect to it.
func openSession(c *cli.Context, env environment, dryRun bool) (*session, error) {
	s := &session{runID: uuid.NewString(), started: time.Now().UTC(), now: env.clock(), counters: &store.Counters{}, rewriting: env.rewriting}
	if err := s.configure(c, env); err != nil {
		s.close()

		return nil, err
	}
	s.log.Debug().Str("config", s.cfg.Path).Int64("memory", s.memory).Int("parallel", s.parallel).Msg("start")
	if !dryRun {
		if err := s.openClaim(c.Context); err != nil {
			s.close()

			return nil, err
		}
	}
	if err := s.openCatalog(c.Context); err != nil {
		s.close()

		return nil, err
	}

	return s, nil
}

func (s *session) openClaim(ctx context.Context) error {
	if err := s.cfg.ValidateClaim(); err != nil {
		return &usageError{err}
	}
	claimer, err := claim.Open(ctx, s.claimConfig())
	if err != nil {
		return fmt.Errorf("open claim: %w", err)
	}
	s.claimer = claimer
	s.log.Info().Str("claim_mode", string(claimer.Mode())).Msg("claim authority reached")

	return nil
}

func (s *session) openCatalog(ctx context.Context) error {
	cat, err := catalog.Open(ctx, s.catalogOptions())
	if err != nil {
		return fmt.Errorf("open catalog: %w", err)
	}
	s.catalog = cat

	return nil
}

func (s *session) configure(c *cli.Context, env environment) error {
	log, err := s.openProgress(c, env)
	if err != nil {
		return err
	}
	s.log = log.With().Str("run_id", s.runID).Logger()
	s.cfg, err = loadConfig(c, env)
	if err != nil {
		return err
	}
	for _, w := range s.cfg.Warnings {
		s.log.Warn().Msg(w)
	}
	flag, given := lookup(c, "memory")
	if s.memory, err = memoryBudget(flag, given); err != nil {
		return err
	}
	if s.tempDir, err = tempDir(c, env); err != nil {
		return err
	}
	if err := s.configureFleet(c); err != nil {
		return err
	}
	limitHeap(env, s.memory)

	return nil
}

// openProgress makes the logger and what shows progress: log lines and what is
// drawn on a terminal share it.
func (s *session) openProgress(c *cli.Context, env environment) (zerolog.Logger, error) {
	opts := progress.Options{Quiet: isOn(c, "quiet")}
	if !canDraw(env) {
		log, err := newLogger(c, env)
		if err == nil {
			opts.Log = log.With().Str("run_id", s.runID).Logger()
			s.progress = progress.New(opts)
		}

		return log, err
	}
	opts.Terminal = env.stderr
	s.progress = progress.New(opts)
	log, err := newLoggerOn(c, env, s.progress.Writer())
	if err != nil {
		s.progress.Close()
	}

	return log, err
}

// limitHeap makes the garbage collector work harder near the budget, unless
// GOMEMLIMIT already says so. The pages of the program itself count as well.
func limitHeap(env environment, memory int64) {
	if _, set := env.getenv("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(memory - programMemory)
	}
}

func loadConfig(c *cli.Context, env environment) (*config.Config, error) {
	return readConfig(c, env, false)
}

// readConfig loads the configuration; noCatalog lets it be one without a catalog.
func readConfig(c *cli.Context, env environment, noCatalog bool) (*config.Config, error) {
	path, ok := lookup(c, "config")
	if ok && path == "" {
		return nil, usagef("--config has an empty value; name a file, or leave the flag out")
	}
	if !ok {
		path, _ = env.getenv("COMPACTOR_CONFIG")
	}
	values, names, err := configKeys(c)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(config.Source{Path: path, Env: env.getenv, Environ: env.environ, Flags: values, FlagNames: names, ReadFile: os.ReadFile, CatalogOptional: noCatalog})
	if err != nil {
		return nil, &usageError{err}
	}

	return cfg, nil
}

func (s *session) claimConfig() claim.Config {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	log := s.log
	if claim.Mode(s.cfg.Claim.Mode) == claim.ModeNone {
		log = log.Level(zerolog.ErrorLevel) // The configuration's warning says it, in dry runs too.
	}

	return claim.Config{
		Mode:     claim.Mode(s.cfg.Claim.Mode),
		DSN:      s.cfg.Claim.Postgres.Reveal(),
		Dir:      s.cfg.Claim.Dir,
		Pooler:   s.cfg.Claim.Pooler,
		DeadPeer: claim.DeadPeer(s.cfg.Claim.DeadPeer),
		Window:   time.Duration(s.cfg.Claim.Window),
		Holder:   fmt.Sprintf("compactor@%s %d %s", host, os.Getpid(), s.runID),
		Logger:   log,
	}
}

func (s *session) catalogOptions() catalog.Options {
	c := s.cfg.Catalog

	return catalog.Options{
		Catalog: catalog.Settings{
			Type: c.Type, Name: c.Name, URI: string(c.URI), Warehouse: c.Warehouse,
			Credential: c.Credential.Reveal(), Token: c.Token.Reveal(),
			OAuth2ServerURI: string(c.OAuth2ServerURI), Scope: c.Scope,
			SigV4: c.SigV4, SigningName: c.SigningName, SigningRegion: c.SigningRegion,
			CACert: c.CACert, Timeout: time.Duration(c.Timeout), Properties: c.Properties.Reveal(),
		},
		Storage:   s.storeOptions(),
		Counters:  s.counters,
		Logger:    s.log,
		UserAgent: "compactor/" + version.Get().Version,
	}
}

func (s *session) storeOptions() store.Options {
	o := storeOptions(s.cfg.Storage, s.log)
	o.RequestsPerSecond, o.BytesPerSecond = s.rateLimit, s.bandwidth

	return o
}

func storeOptions(c config.Storage, log zerolog.Logger) store.Options {
	o := store.Options{Logger: log}
	if a := c.Azure; a != nil {
		o.Azure = store.AzureOptions{
			ConnectionString: a.ConnectionString.Reveal(), AccountName: a.AccountName, AccountKey: a.AccountKey.Reveal(),
			SASToken: a.SASToken.Reveal(), Endpoint: string(a.Endpoint), ManagedIdentity: a.ManagedIdentity, ClientID: a.ClientID,
		}
	}
	if g := c.GCS; g != nil {
		o.GCS = store.GCSOptions{Endpoint: string(g.Endpoint), CredentialsFile: g.CredentialsFile, NoAuth: g.NoAuth}
	}
	if c.S3 == nil {
		return o
	}
	o.S3 = store.S3Options{
		Endpoint: string(c.S3.Endpoint), Region: c.S3.Region, Profile: c.S3.Profile,
		AccessKeyID: c.S3.AccessKeyID, SecretAccessKey: c.S3.SecretAccessKey.Reveal(),
		SessionToken: c.S3.SessionToken.Reveal(), URLStyle: c.S3.URLStyle, CACert: c.S3.CACert,
		Interop: c.S3.UseGCSInterop(), MaxAttempts: c.S3.MaxRetries + 1,
	}

	return o
}

// rewriter is a maintainer that rewrites data files as a policy says.
func (t target) rewriter(task func(rewrite.Progress), p config.Compact) *maintenance.Maintainer {
	m, s := t.maintainer(task), t.session
	m.Rewriter = rewrite.New(s.rewriteOptions(task, p))

	return m
}

func (s *session) rewriteOptions(task func(rewrite.Progress), p config.Compact) rewrite.Options {
	o := rewrite.Options{
		Memory: s.memory - reserved(s.parallel), Parallel: s.parallel, Progress: task, Engine: p.Engine, Recompress: p.Recompress, Logger: s.log,
		TempDir: s.tempDir,
	}
	if s.rewriting != nil {
		s.rewriting(&o)
	}

	return o
}

// maintainer wires the parts together for the work on one table.
func (t target) maintainer(task func(rewrite.Progress)) *maintenance.Maintainer {
	s := t.session

	return &maintenance.Maintainer{
		Catalog:  s.catalog,
		Claimer:  claimAdapter{session: s, show: t.show},
		Deleting: func(done, total int) { t.show.Files("deleting", done, total) },
		Rewriter: rewrite.New(s.rewriteOptions(task, config.Compact{Engine: rewrite.EngineAuto})),
		Version:  maintenance.Version{Name: "compactor", Version: version.Get().Version},
		RunID:    s.runID,
		Log:      s.log,
	}
}

func (s *session) close() {
	if s.progress != nil {
		s.progress.Close()
	}
	var errs []error
	if s.claimer != nil {
		errs = append(errs, s.claimer.Close())
	}
	if s.catalog != nil {
		errs = append(errs, s.catalog.Close())
	}
	if err := errors.Join(errs...); err != nil {
		s.log.Warn().Err(err).Msg("close")
	}
}

// claimAdapter takes the claim of a table for maintenance: it makes the key
// from the names that the catalog returned, logs the wait, and names a refusal
// in maintenance's words.
type claimAdapter struct {
	session *session
	show    *progress.Task // of the step; may be nil
}

func (a claimAdapter) Acquire(ctx context.Context, ident table.Identifier) (maintenance.Claim, error) {
	s := a.session
	key := s.claimKey(ident)
	log := s.log.With().Str("claim_key", key.String()).Logger()
	timeout, cut := s.claimTimeout()
	if s.timeUp() {
		return nil, errTimeUp
	}
	a.show.Doing("waiting for the claim")
	holder, told := "", false
	held, err := s.claimer.Acquire(ctx, key, claim.AcquireOptions{
		Timeout: timeout,
		OnWait: func(w claim.Waiting) {
			if told && holder == w.Holder {
				return // Progress says that it goes on.
			}
			holder, told = w.Holder, true
			a.show.Doing("waiting for the claim" + heldBy(w.Holder))
			log.Info().Str("holder", w.Holder).Dur("held_for", w.HeldFor).Dur("waiting", w.For).Msg("waiting for the claim")
		},
	})
	a.show.Doing("working under the claim")
	switch {
	case errors.Is(err, claim.ErrHeld) && cut:
		return nil, fmt.Errorf("%w: %w", errTimeUp, err)
	case errors.Is(err, claim.ErrHeld):
		return nil, fmt.Errorf("%w: %w", maintenance.ErrClaimHeld, err)
	case errors.Is(err, claim.ErrLost):
		return nil, fmt.Errorf("%w: %w", maintenance.ErrClaimLost, err)
	case err != nil:
		return nil, fmt.Errorf("acquire claim: %w", err)
	}
	log.Debug().Str("ticket", held.Ticket()).Dur("waited", held.Waited()).Msg("claim granted")

	return heldClaim{held}, nil
}

func heldBy(holder string) string {
	if holder == "" {
		return ""
	}

	return ", held by " + tablename.Visible(holder)
}

// claimKey is the key of a table; ident holds its names as the catalog returned
// them, where there is one.
func (s *session) claimKey(ident table.Identifier) claim.Key {
	return claim.Key{Realm: s.cfg.Claim.Realm, Namespace: ident[:len(ident)-1], Table: ident[len(ident)-1]}
}

// heldClaim names a loss in maintenance's words.
type heldClaim struct{ *claim.Claim }

func (h heldClaim) Verify(ctx context.Context) (time.Time, error) {
	deadline, err := h.Claim.Verify(ctx)
	switch {
	case errors.Is(err, claim.ErrLost):
		return time.Time{}, fmt.Errorf("%w: %w", maintenance.ErrClaimLost, err)
	case err != nil:
		return time.Time{}, fmt.Errorf("verify claim: %w", err)
	}

	return deadline, nil
}
