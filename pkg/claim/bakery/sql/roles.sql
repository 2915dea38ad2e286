-- Roles and schema. Runs before the migrations, as the role that installs, and may run again at any time.
--
-- bakery_owner owns everything and cannot log in; the claim functions run with its rights. It reads the heartbeats of peers in
-- pg_stat_replication, which a role without pg_read_all_stats sees as NULL: every peer would look dead.
-- bakery_writer is granted to whoever takes claims.
DO $$
BEGIN
  IF to_regrole('bakery_owner') IS NULL THEN
    CREATE ROLE bakery_owner NOLOGIN;
  END IF;
  IF to_regrole('bakery_writer') IS NULL THEN
    CREATE ROLE bakery_writer NOLOGIN;
  END IF;
  IF NOT pg_has_role('bakery_owner', 'pg_read_all_stats', 'USAGE') THEN
    GRANT pg_read_all_stats TO bakery_owner;
  END IF;
  -- From PostgreSQL 16 on whoever creates a role may administer it, and has to grant himself the rest: to act as the owner, which the
  -- migrations do, and to have its rights, which publications need and apply workers that write in the owner's name.
  IF current_setting('server_version_num')::integer < 160000 THEN
    IF NOT pg_has_role(current_user, 'bakery_owner', 'MEMBER') THEN
      EXECUTE format('GRANT bakery_owner TO %I', current_user);
    END IF;
  ELSIF NOT (pg_has_role(current_user, 'bakery_owner', 'SET') AND pg_has_role(current_user, 'bakery_owner', 'USAGE')) THEN
    EXECUTE format('GRANT bakery_owner TO %I WITH INHERIT TRUE, SET TRUE', current_user);
  END IF;
END
$$;
CREATE SCHEMA IF NOT EXISTS bakery AUTHORIZATION bakery_owner;
