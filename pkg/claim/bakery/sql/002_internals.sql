-- Helpers. Nobody but the owner may call them; they inherit the search path of the functions that do, and name every object in full.
-- Functions with queries are in plpgsql, which keeps their plans for the session; those in sql are expressions that are inlined.

CREATE FUNCTION bakery._me() RETURNS integer LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT s.node FROM bakery.self s);
END
$$;

-- The node-local lock of a table, held by a live writer from before its claim is inserted until after it is released.
CREATE FUNCTION bakery._owner_key(p_table text) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT pg_catalog.hashtextextended('bakery owner ' || p_table, 0) $$;

-- The gate of a table, held to the end of every transaction that decides: draw, enter, ack, release.
CREATE FUNCTION bakery._gate_key(p_table text) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT pg_catalog.hashtextextended('bakery gate ' || p_table, 0) $$;

-- Milliseconds since 2020 by this node's clock. A ticket keeps 41 bits of it, enough until 2089.
CREATE FUNCTION bakery._clock_ms() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint - 1577836800000 $$;

CREATE FUNCTION bakery._schema_version() RETURNS integer LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT coalesce(max(m.version), 0) FROM bakery.migrations m);
END
$$;

CREATE FUNCTION bakery._trace(p_event text, p_table text, p_ticket bigint, p_peer integer DEFAULT NULL, p_detail text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF (SELECT s.tracing FROM bakery.self s) THEN
    INSERT INTO bakery.trace (node, event, table_name, ticket, peer, detail)
    VALUES (bakery._me(), p_event, p_table, p_ticket, p_peer, p_detail);
  END IF;
END
$$;

-- Does this session hold the node-local lock of the table?
CREATE FUNCTION bakery._owns(p_table text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM pg_locks l
     WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted AND l.pid = pg_backend_pid()
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
       AND ((l.classid::bigint << 32) | l.objid::bigint) = bakery._owner_key(p_table));
END
$$;

-- The process that holds the node-local lock of the table, or NULL.
CREATE FUNCTION bakery._owner_pid(p_table text) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN (
    SELECT l.pid FROM pg_locks l
     WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
       AND ((l.classid::bigint << 32) | l.objid::bigint) = bakery._owner_key(p_table)
     LIMIT 1);
END
$$;

-- A snapshot taken before the gate is granted would show a state that others have changed since. Only READ COMMITTED takes a new
-- one for every statement, and a default set on the role or the database may have changed it.
CREATE FUNCTION bakery._require_ready() RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  v_me integer := bakery._me();
BEGIN
  IF pg_is_in_recovery() THEN
    RAISE EXCEPTION 'bakery: this server is a standby' USING ERRCODE = 'BK001', HINT = 'Connect to the primary.';
  END IF;
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'bakery: claims need the isolation level READ COMMITTED, not %', current_setting('transaction_isolation')
      USING ERRCODE = 'BK002', HINT = 'SET default_transaction_isolation = ''read committed'' in this session.';
  END IF;
  IF v_me IS NULL THEN
    RAISE EXCEPTION 'bakery: this database is not a node of a mesh' USING ERRCODE = 'BK008', HINT = 'Run: compactor claim install.';
  END IF;
  IF NOT pg_has_role('bakery_owner', 'pg_read_all_stats', 'USAGE') THEN
    RAISE EXCEPTION 'bakery: role bakery_owner cannot read the heartbeats of the peers'
      USING ERRCODE = 'BK005', HINT = 'GRANT pg_read_all_stats TO bakery_owner;';
  END IF;
  -- The walsender ships only what is flushed; with "off" every ack would wait for the WAL writer.
  PERFORM set_config('synchronous_commit', 'local', true);
  RETURN v_me;
END
$$;

-- The heartbeat of each peer: rows of it applied here, and the last sign of its apply worker. Compared for equality only, because
-- reply_time is taken from the peer's clock. The walsender is found by slot: an application name can be overridden. Stable, so that
-- the query that asks takes it in.
CREATE FUNCTION bakery._heartbeats() RETURNS TABLE (node integer, heartbeat text) LANGUAGE sql STABLE AS $$
  SELECT p.node, concat(coalesce(c.receipts, 0), '/', coalesce(extract(epoch FROM r.reply_time)::text, 'none'), '/',
                        coalesce(s.confirmed_flush_lsn::text, 'none'))
    FROM bakery.peers p
    LEFT JOIN bakery.contacts c ON c.node = p.node
    LEFT JOIN pg_catalog.pg_replication_slots s ON s.slot_name = p.slot
    LEFT JOIN pg_catalog.pg_stat_replication r ON r.pid = s.active_pid
$$;

CREATE FUNCTION bakery._raise_floor(p_table text, p_ticket bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO bakery.floors AS f (table_name, ticket) VALUES (p_table, p_ticket)
  ON CONFLICT (table_name) DO UPDATE SET ticket = excluded.ticket WHERE f.ticket < excluded.ticket;
END
$$;

-- Gate held. Acks every claim of a peer that no claim of ours stands before. What is visible and not acked is deferred, so there
-- is no list of deferrals that a release could miss.
CREATE FUNCTION bakery._ack_all(p_table text, p_me integer) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  v_ack record;
BEGIN
  FOR v_ack IN
    INSERT INTO bakery.acks (acker, node, ticket)
    SELECT p_me, c.node, c.ticket
      FROM bakery.claims c
     WHERE c.table_name = p_table AND c.node <> p_me
       AND NOT EXISTS (SELECT FROM bakery.claims o
                        WHERE o.table_name = p_table AND o.node = p_me
                          AND (o.entered_at IS NOT NULL OR o.ticket < c.ticket))
    ON CONFLICT DO NOTHING
    RETURNING node, ticket
  LOOP
    PERFORM bakery._trace('ack', p_table, v_ack.ticket, v_ack.node);
  END LOOP;
END
$$;

-- Gate and node-local lock held: no writer of this node owns a claim on the table. Deletes the claims that dead writers left. Their
-- acks are deleted by the ackers, who alone publish them, when the deletion reaches them.
CREATE FUNCTION bakery._reap(p_table text, p_me integer) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  v_claim record;
BEGIN
  FOR v_claim IN DELETE FROM bakery.claims c WHERE c.table_name = p_table AND c.node = p_me RETURNING c.ticket LOOP
    PERFORM bakery._trace('reap', p_table, v_claim.ticket);
  END LOOP;
END
$$;

-- Gate held. A fresh ticket above everything seen here; ms << 22 | node << 12 | a number that keeps draws of one millisecond apart.
CREATE FUNCTION bakery._draw(p_table text, p_me integer) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  v_seen bigint := greatest((SELECT max(c.ticket) FROM bakery.claims c WHERE c.table_name = p_table),
                            (SELECT f.ticket FROM bakery.floors f WHERE f.table_name = p_table), 0);
BEGIN
  RETURN (greatest(bakery._clock_ms(), (v_seen >> 22) + 1) << 22) | (p_me::bigint << 12) | (nextval('bakery.draws') & 4095);
END
$$;
