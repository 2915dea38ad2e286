package claim

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// What the parts of mode bakery call. Each list is checked before the first call, because a claim whose release is refused would stay.

func claimFunctions() []string {
	return []string{
		"bakery.node()", "bakery.sweep()", "bakery.lock(text)", "bakery.claim(text, text)", "bakery.hello(text)", "bakery.goodbye()",
		"bakery.waiting(bigint)", "bakery.poke(bigint)", "bakery.enter(bigint, integer[], text[])", "bakery.holding(bigint)",
		"bakery.withdraw(bigint)", "bakery.release(text, bigint)", "bakery.local_owner(text)",
	}
}

func statusFunctions() []string   { return []string{"bakery.status(text)"} }
func registryFunctions() []string { return []string{"bakery.registered()"} }
func registerFunctions() []string { return []string{"bakery.register(bigint, text)"} }

func forceFunctions() []string {
	return []string{"bakery.status(text)", "bakery.node()", "bakery.release_force(bigint)"}
}

// Roles of the schema: who takes claims is a member of the first, who repairs of the second.
const (
	writerRole = "bakery_writer"
	ownerRole  = "bakery_owner"
)

// granted checks that the session may call the functions, as a member of the role or otherwise. The *SetupError names the one grant that
// is missing.
func (s *pgServer) granted(ctx context.Context, conn *pgx.Conn, role string, functions []string) error {
	var member, usage bool
	err := conn.QueryRow(ctx, `SELECT coalesce(pg_has_role(to_regrole($1::text), 'USAGE'), false), has_schema_privilege('bakery', 'USAGE')`, role).
		Scan(&member, &usage)
	if err != nil {
		return s.classifyBakery(fmt.Errorf("read grants at PostgreSQL %s: %w", s.where, err))
	}
	user := pgx.Identifier{s.conf.User}.Sanitize()
	lacks := func(what, grant string) error {
		if !member {
			return &SetupError{What: "the role may not " + what, Where: s.where, Hint: "GRANT " + role + " TO " + user}
		}
		return &SetupError{What: "role " + role + " may not " + what, Where: s.where, Hint: "GRANT " + grant + " TO " + role}
	}
	if !usage {
		return lacks("use schema bakery", "USAGE ON SCHEMA bakery")
	}
	var missing []string
	err = conn.QueryRow(ctx, `SELECT ARRAY(SELECT f FROM unnest($1::text[]) WITH ORDINALITY u (f, n)
 WHERE NOT has_function_privilege(f, 'EXECUTE') ORDER BY n)`, functions).Scan(&missing)
	if err != nil {
		return s.classifyBakery(fmt.Errorf("read grants at PostgreSQL %s: %w", s.where, err))
	}
	if len(missing) > 0 {
		names := strings.Join(missing, ", ")
		return lacks("execute "+names, "EXECUTE ON FUNCTION "+names)
	}
	return nil
}

// classifyBakery turns what only an operator can mend into a *SetupError. The codes BK… are raised by the schema.
func (s *pgServer) classifyBakery(err error) error {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return err
	}
	setup := func(what, hint string) error {
		return &SetupError{What: what, Where: s.where, Hint: hint, Err: err}
	}
	switch {
	case pgErr.Code == "42501":
		return setup("the role may not take claims", "GRANT "+writerRole+" TO "+pgx.Identifier{s.conf.User}.Sanitize())
	case pgErr.Code == "42883" || pgErr.Code == "3F000":
		return setup("schema bakery is not complete", "run: compactor claim install")
	case strings.HasPrefix(pgErr.Code, "BK"):
		return setup(strings.TrimPrefix(pgErr.Message, "bakery: "), pgErr.Hint)
	}
	return err
}
