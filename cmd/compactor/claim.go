package main

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"compactor/internal/store"
	"compactor/internal/tablename"
)

func claimCommand(env environment) *cli.Command {
	return &cli.Command{
		Name:  "claim",
		Usage: "look at the claims of tables, run commands under them, and look after the bakery",
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownCommand("compactor claim", c.Args().First(), c.Command.Subcommands)
			}

			return usagef("name what to do; see compactor claim --help")
		},
		Subcommands: []*cli.Command{
			claimStatusCommand(env), claimListCommand(env), claimExecCommand(env), claimInstallCommand(env), claimUninstallCommand(env),
			claimDoctorCommand(env), claimAdoptCommand(env), claimRegistryCommand(env), claimReleaseCommand(env),
		},
	}
}

const noCatalogFlag = "no-catalog"

func claimFlagSet() []cli.Flag {
	return append([]cli.Flag{&cli.BoolFlag{
		Name: noCatalogFlag, Category: "Claim:",
		Usage: "take the names in TABLE as they are typed, instead of asking the catalog how it spells them",
	}}, commonFlags()...)
}

// openClaimSession opens what the commands about claims need: the claim's
// authority, and then the catalog, unless there is none or it is not wanted. quiet
// leaves out remarks about what goes well, unless a log level was asked for.
func openClaimSession(c *cli.Context, env environment, quiet bool) (*session, error) {
	s := &session{runID: uuid.NewString(), started: time.Now().UTC(), counters: &store.Counters{}}
	log, err := newLogger(c, env)
	if err != nil {
		return nil, err
	}
	s.log = log.With().Str("run_id", s.runID).Logger()
	if _, asked := lookup(c, "log-level"); quiet && !asked {
		s.log = s.log.Level(zerolog.WarnLevel)
	}
	if s.cfg, err = readConfig(c, env, true); err != nil {
		return nil, err
	}
	for _, w := range s.cfg.Warnings {
		s.log.Warn().Msg(w)
	}
	if err := s.openClaim(c.Context); err != nil {
		s.close()

		return nil, err
	}
	switch {
	case isOn(c, noCatalogFlag):
		s.log.Info().Msg("the catalog is not asked: the names of the table are taken as they are typed")
	case !s.cfg.HasCatalog():
		s.log.Warn().Str("realm", s.cfg.Claim.Realm).Msg("no catalog is configured: the names of the table are taken as they are typed")
	default:
		if err := s.openCatalog(c.Context); err != nil {
			s.close()

			return nil, err
		}
	}

	return s, nil
}

// Where the names in the key of a table came from.
const (
	namesFromCatalog = "catalog"
	namesAsTyped     = "command line"
)

// spelling returns the names of a table as the catalog spells them, or as they
// are where there is no catalog. Two spellings would be two claims.
func (s *session) spelling(ctx context.Context, typed table.Identifier) (ident table.Identifier, from string, err error) {
	if s.catalog == nil {
		return typed, namesAsTyped, nil
	}
	tbl, err := s.catalog.LoadTable(ctx, typed)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w (--%s takes the names as they are typed)", tablename.String(typed), err, noCatalogFlag)
	}

	return tbl.Identifier(), namesFromCatalog, nil
}
