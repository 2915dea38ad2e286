package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"compactor/pkg/claim"
)

const partClaim = "claim"

// claim opens the claim's authority as a run does, and asks its PostgreSQL who
// it is. Nothing is claimed.
func (d *checkup) claim(ctx context.Context) {
	ctx, cancel := d.within(ctx)
	defer cancel()
	s := d.session
	asked := claim.Mode(s.cfg.Claim.Mode)
	err := s.openClaim(ctx)
	var setup *claim.SetupError
	switch {
	case errors.As(err, &setup):
		bare := *setup
		bare.Hint = ""
		d.add(partClaim, "mode "+string(asked), checkWrong, bare.Error(), setup.Hint)
	case err != nil && isUsage(err):
		d.add(partClaim, "mode "+string(asked), checkWrong, err.Error(), "docs/bakery.md has the roles and grants of the mode; docs/configuration.md the settings")
	case err != nil:
		d.fail(partClaim, "mode "+string(asked), err, "check that PostgreSQL runs and can be reached from here: host and port in claim.postgres, firewall, pg_hba.conf")
	default:
		d.mode(asked, s.claimer.Mode())
	}
	if err != nil && setup == nil || s.cfg.Claim.Postgres == "" {
		return
	}
	switch asked {
	case claim.ModeFile, claim.ModeNone:
	default:
		d.postgres(ctx)
	}
}

// mode says which claim a run would take.
func (d *checkup) mode(asked, got claim.Mode) {
	text := "claims can be taken"
	if asked == claim.ModeAuto {
		text = fmt.Sprintf("auto chose %s; claims can be taken", got)
	}
	switch got {
	case claim.ModeNone:
		d.add(partClaim, "mode none", checkWarning, "no claim is taken: other writers may make commits fail, and theirs may fail",
			"set claim.mode to one that all writers of the tables take")

		return
	case claim.ModeBakery, claim.ModeColdFront:
		text += "; the other nodes are looked at by compactor claim doctor"
		if got == claim.ModeColdFront {
			text = "auto chose coldfront; claims can be taken"
			if asked != claim.ModeAuto {
				text = "claims can be taken"
			}
		}
	}
	d.add(partClaim, "mode "+string(asked), checkOK, text, "")
}

// postgres asks the server of the claim for version, role, encryption and time.
func (d *checkup) postgres(ctx context.Context) {
	conf, err := pgx.ParseConfig(d.session.cfg.Claim.Postgres.Reveal())
	if err != nil {
		return // The claim has said it.
	}
	conf.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // A pooler may give each transaction another session.
	conn, err := pgx.ConnectConfig(ctx, conf)
	if err != nil {
		return // As above.
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // What was asked is answered.
	var version, role, database string
	var now time.Time
	var encrypted bool
	sent := d.session.now()
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version'), current_user, current_database(), clock_timestamp(),
		coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false)`).Scan(&version, &role, &database, &now, &encrypted)
	if err != nil {
		d.fail(partClaim, "postgresql", fmt.Errorf("ask PostgreSQL for its version: %w", err), "look into the server's log")

		return
	}
	took := d.session.now().Sub(sent)
	text := fmt.Sprintf("PostgreSQL %s at %s:%d, database %s, role %s, answers in %s", version, conf.Host, conf.Port, database, role, took.Round(100*time.Microsecond))
	d.add(partClaim, "postgresql", checkOK, text, "")
	if local, known := isLocal(d.session.cfg.Claim.Postgres.Reveal()); known && !local && !encrypted {
		d.add(partClaim, "encryption", checkWarning, "the connection to PostgreSQL is not encrypted", "add sslmode=verify-full and sslrootcert to claim.postgres")
	}
	d.clock(partClaim, now.Sub(sent.Add(took/2)))
}
