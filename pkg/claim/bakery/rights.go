package bakery

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// rights is what the installing role may do on a node.
type rights struct {
	super, subscribe, create, replicate bool
	// owner: it may act as bakery_owner, or make or grant itself that role. stats: bakery_owner reads the heartbeats, or can be given that.
	owner, stats bool
	// keeper is another role that owns publication or subscriptions and whose rights this one does not have; empty when there is none.
	keeper   string
	standby  bool
	role, db string
}

// rightsSQL asks for them. Roles may be there from another database of the server, or prepared by a superuser; then the right to make
// them is not needed. Membership with the administration option alone is enough, because it lets a role grant itself the rest.
const rightsSQL = `
SELECT r.rolsuper, CASE WHEN to_regrole('pg_create_subscription') IS NULL THEN r.rolsuper ELSE pg_has_role('pg_create_subscription', 'USAGE') END,
       has_database_privilege(current_database(), 'CREATE'), r.rolreplication,
       CASE WHEN to_regrole('bakery_owner') IS NULL OR to_regrole('bakery_writer') IS NULL THEN r.rolcreaterole
            ELSE pg_has_role('bakery_owner', 'MEMBER') END,
       r.rolsuper OR coalesce(pg_has_role(to_regrole('bakery_owner'), 'pg_read_all_stats', 'USAGE'), false)
         OR EXISTS (SELECT FROM pg_auth_members a WHERE a.member = r.oid AND a.admin_option AND a.roleid = 'pg_read_all_stats'::regrole),
       coalesce((SELECT min(k.owner::regrole::text) FROM (
         SELECT pubowner AS owner FROM pg_publication WHERE pubname = 'bakery' UNION ALL
         SELECT subowner FROM pg_subscription
          WHERE subname LIKE 'bakery\_%' AND subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())) k
          WHERE NOT pg_has_role(k.owner, 'USAGE')), ''),
       pg_is_in_recovery(), quote_ident(current_user), quote_ident(current_database())
  FROM pg_roles r WHERE r.rolname = current_user`

// checkRights finds out whether the installing role may do what Install does.
func (m *member) checkRights(ctx context.Context) ([]Finding, error) {
	var r rights
	err := m.ask(ctx, "read rights", []any{&r.super, &r.subscribe, &r.create, &r.replicate, &r.owner, &r.stats, &r.keeper, &r.standby, &r.role, &r.db}, rightsSQL)
	if err != nil {
		return nil, err
	}
	m.super = r.super
	found := r.missing(m.version)
	if user := userOf(m.PeerDSN); user != "" {
		var exists, replicates bool
		err := m.ask(ctx, "read role "+user, []any{&exists, &replicates},
			"SELECT count(*) > 0, coalesce(bool_or(rolcanlogin AND (rolsuper OR rolreplication)), false) FROM pg_roles WHERE rolname = $1", user)
		if err != nil {
			return nil, err
		}
		if !exists || !replicates {
			found = append(found, Finding{Code: "link_role", Text: fmt.Sprintf("the other nodes log in as %q, which may not replicate", user),
				Remedy: fmt.Sprintf("ALTER ROLE %q LOGIN REPLICATION; (create it if it is not there)", user)})
		}
	}
	for i := range found {
		found[i].Node, found[i].Severity = m.Name, Error
	}
	return found, nil
}

// missing lists what the role lacks, with the statement that gives it.
func (r rights) missing(version int) []Finding {
	var found []Finding
	add := func(code, text, remedy string) {
		found = append(found, Finding{Code: code, Text: text, Remedy: remedy})
	}
	if version < 150000 {
		add("version", fmt.Sprintf("PostgreSQL %d has no row filters", version/10000), "upgrade to PostgreSQL 15 or later.")
	}
	if r.standby {
		add("standby", "the server is a standby", "name the primary.")
	}
	if r.super {
		return found
	}
	if version < 160000 {
		add("rights", "role "+r.role+" is no superuser, and before PostgreSQL 16 only a superuser may create subscriptions", "install as a superuser.")
		return found
	}
	for _, need := range []struct {
		has          bool
		text, remedy string
	}{
		{r.subscribe, "create subscriptions", "GRANT pg_create_subscription TO " + r.role + ";"},
		{r.create, "create in database " + r.db, "GRANT CREATE ON DATABASE " + r.db + " TO " + r.role + ";"},
		{r.replicate, "create replication slots", "ALTER ROLE " + r.role + " REPLICATION;"},
		{r.owner, "create the roles bakery_owner and bakery_writer, or act as them", "ALTER ROLE " + r.role + " CREATEROLE; or, if they exist: GRANT bakery_owner TO " + r.role + ";"},
		{r.stats, "hand on pg_read_all_stats", "GRANT pg_read_all_stats TO " + r.role + " WITH ADMIN OPTION;"},
	} {
		if !need.has {
			add("rights", "role "+r.role+" may not "+need.text, need.remedy)
		}
	}
	if r.keeper != "" {
		add("rights", "publication and subscriptions belong to role "+r.keeper, "install as "+r.keeper+", or: GRANT "+r.keeper+" TO "+r.role+";")
	}
	return found
}

// checkLinkPasswords finds connection strings that PostgreSQL will refuse: the subscription of a role that is no superuser needs a
// password in the string itself.
func (in *install) checkLinkPasswords() []Finding {
	var found []Finding
	for _, to := range in.members {
		for _, from := range in.members {
			if to != from && !to.super && !names(from.PeerDSN, "password") {
				found = append(found, Finding{Severity: Error, Code: "link_password", Node: to.Name,
					Text:   "the connection string to node " + from.Name + " holds no password, and without a superuser a subscription needs one",
					Remedy: "give node " + from.Name + " a string with a password, or install as a superuser."})
			}
		}
	}
	return found
}

// grantLink lets the role as which the other nodes log in read what is published.
func (m *member) grantLink(ctx context.Context) error {
	user := userOf(m.PeerDSN)
	if user == "" {
		return nil
	}
	var sql string
	err := m.ask(ctx, "read grants of role "+user, []any{&sql}, `
SELECT CASE WHEN NOT has_schema_privilege(r.oid, 'bakery', 'USAGE') OR EXISTS (
         SELECT FROM unnest(ARRAY['claims', 'acks', 'hellos', 'answers', 'registry']) t WHERE NOT has_table_privilege(r.oid, 'bakery.' || t, 'SELECT'))
       THEN format('GRANT USAGE ON SCHEMA bakery TO %1$I; GRANT SELECT ON bakery.claims, bakery.acks, bakery.hellos, bakery.answers, bakery.registry TO %1$I', r.rolname)
       ELSE '' END FROM pg_roles r WHERE r.rolname = $1`, user)
	if err != nil || sql == "" {
		return err
	}
	if _, err := m.conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		return fmt.Errorf("grant the published tables to role %s on node %s: %w", user, m.Name, err)
	}
	return nil
}

// denied turns a refusal to read the schema into a finding.
func (m *member) denied(err error) error {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != "42501" {
		return err
	}
	role := fmt.Sprintf("%q", m.conn.Config().User)
	return &CheckError{Findings: []Finding{{Severity: Error, Code: "rights", Node: m.Name,
		Text: "role " + role + " is no member of bakery_owner: " + pgErr.Message, Remedy: "GRANT bakery_owner TO " + role + ";"}}}
}
