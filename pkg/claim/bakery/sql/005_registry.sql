-- The registry, the sweep, and what people look at.

-- Registers the relation that stands for an Iceberg table, under an entered claim of this node, from any session. The claim cannot be
-- released before this transaction is over, so a second node, whose claim comes later, reads the first one's row: it was sent before
-- any ack of the release. True when the row is new; false when the same relation is registered already; another relation is an error.
CREATE FUNCTION bakery.register(p_ticket bigint, p_relation text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_me integer := bakery._require_ready();
  v_table text;
  v_relation text;
BEGIN
  SELECT c.table_name INTO v_table FROM bakery.claims c
   WHERE c.node = v_me AND c.ticket = p_ticket AND c.entered_at IS NOT NULL FOR KEY SHARE;
  IF v_table IS NULL THEN
    RAISE EXCEPTION 'bakery: ticket % is not an entered claim of this node', p_ticket USING ERRCODE = 'BK006';
  END IF;
  SELECT relation INTO v_relation FROM bakery.registry WHERE table_name = v_table;
  IF v_relation IS NOT NULL AND v_relation <> p_relation THEN
    RAISE EXCEPTION 'bakery: % is registered as % already', v_table, v_relation USING ERRCODE = 'BK007';
  END IF;
  INSERT INTO bakery.registry (table_name, node, relation)
  SELECT v_table, v_me, p_relation WHERE v_relation IS NULL;
  PERFORM bakery._trace('register', v_table, p_ticket, NULL, p_relation);
  RETURN v_relation IS NULL;
END
$$;

-- What is registered on any node, by table.
CREATE FUNCTION bakery.registered()
RETURNS TABLE (table_name text, relation text, node integer, node_name text, registered_at timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT r.table_name, r.relation, r.node, coalesce(m.name, 'node ' || r.node), r.registered_at
    FROM bakery.registry r
    LEFT JOIN (SELECT s.node, s.name FROM bakery.self s UNION ALL SELECT p.node, p.name FROM bakery.peers p) m ON m.node = r.node
   ORDER BY r.table_name
$$;

-- Deletes what nobody will ever collect: claims of this node without an owner, its acks and answers without a claim or hello, hellos
-- of dead sessions, and rows of nodes that are no members. Returns how many rows of each kind. Safe at any time, from any session.
CREATE FUNCTION bakery.sweep() RETURNS TABLE (claims bigint, acks bigint, answers bigint, hellos bigint, strangers bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_me integer := bakery._require_ready();
  v_count bigint;
  v_table text;
BEGIN
  claims := 0; strangers := 0;
  FOR v_table IN SELECT DISTINCT c.table_name FROM bakery.claims c WHERE c.node = v_me ORDER BY 1 LOOP
    -- A claim is an orphan when the node-local lock is free. Waiting for the gate after it cannot deadlock: whoever holds the gate
    -- either owns that lock already or only tries for it.
    IF NOT bakery._owns(v_table) AND pg_try_advisory_xact_lock(bakery._owner_key(v_table)) THEN
      PERFORM pg_advisory_xact_lock(bakery._gate_key(v_table));
      SELECT count(*) INTO v_count FROM bakery.claims c WHERE c.table_name = v_table AND c.node = v_me;
      claims := claims + v_count;
      PERFORM bakery._reap(v_table, v_me);
      PERFORM bakery._ack_all(v_table, v_me);
    END IF;
  END LOOP;
  DELETE FROM bakery.acks k WHERE k.acker = v_me
     AND NOT EXISTS (SELECT FROM bakery.claims c WHERE c.node = k.node AND c.ticket = k.ticket);
  GET DIAGNOSTICS acks = ROW_COUNT;
  DELETE FROM bakery.answers a WHERE a.acker = v_me
     AND NOT EXISTS (SELECT FROM bakery.claims c WHERE c.node = a.node AND c.ticket = a.about)
     AND NOT EXISTS (SELECT FROM bakery.hellos h WHERE h.node = a.node AND h.id = a.about);
  GET DIAGNOSTICS answers = ROW_COUNT;
  DELETE FROM bakery.hellos h WHERE h.node = v_me
     AND NOT EXISTS (SELECT FROM pg_stat_activity s WHERE s.pid = h.pid);
  GET DIAGNOSTICS hellos = ROW_COUNT;
  DELETE FROM bakery.claims c WHERE c.node <> v_me AND NOT EXISTS (SELECT FROM bakery.peers p WHERE p.node = c.node)
     AND (SELECT s.state FROM bakery.self s) = 'active';
  GET DIAGNOSTICS strangers = ROW_COUNT;
  DELETE FROM bakery.pokes p WHERE NOT EXISTS (SELECT FROM bakery.claims c WHERE c.node = v_me AND c.ticket = p.ticket);
  RETURN NEXT;
END
$$;

-- Every claim that this node knows of. orphan is known for this node's own claims only: its node-local lock is free. missing names
-- the nodes whose ack has not arrived here; away names those of them that do not read what this node sends, again for its own claims.
CREATE FUNCTION bakery.status(p_table text DEFAULT NULL)
RETURNS TABLE (table_name text, ticket bigint, node integer, node_name text, state text, holder text, pid integer,
               claimed_at timestamptz, entered_at timestamptz, orphan boolean, missing text[], away text[])
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH members AS (
    SELECT s.node, s.name, NULL::name AS slot FROM bakery.self s UNION ALL SELECT p.node, p.name, p.slot FROM bakery.peers p)
  SELECT c.table_name, c.ticket, c.node, coalesce(m.name, 'node ' || c.node),
         CASE WHEN c.entered_at IS NULL THEN 'waiting' ELSE 'entered' END, c.holder, c.pid, c.claimed_at, c.entered_at,
         c.node = s.node AND bakery._owner_pid(c.table_name) IS NULL,
         lack.missing, CASE WHEN c.node = s.node THEN lack.away ELSE '{}' END
    FROM bakery.claims c CROSS JOIN bakery.self s LEFT JOIN members m ON m.node = c.node
    CROSS JOIN LATERAL (
      SELECT coalesce(array_agg(o.name ORDER BY o.node), '{}') AS missing,
             coalesce(array_agg(o.name ORDER BY o.node) FILTER (WHERE NOT EXISTS (
               SELECT FROM pg_catalog.pg_replication_slots r WHERE r.slot_name = o.slot AND r.active)), '{}') AS away
        FROM members o
       WHERE o.node <> c.node
         AND NOT EXISTS (SELECT FROM bakery.acks k WHERE k.acker = o.node AND k.node = c.node AND k.ticket = c.ticket)) lack
   WHERE p_table IS NULL OR c.table_name = p_table
   ORDER BY c.table_name, c.entered_at NULLS LAST, c.ticket
$$;

-- Who holds the node-local lock of the table here, for a writer that is blocked in it.
CREATE FUNCTION bakery.local_owner(p_table text) RETURNS TABLE (pid integer, holder text, ticket bigint, since timestamptz, entered boolean)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT o.pid, coalesce(c.holder, s.application_name), c.ticket, coalesce(c.entered_at, c.claimed_at, s.query_start),
         c.entered_at IS NOT NULL
    FROM (SELECT bakery._owner_pid(p_table) AS pid) o
    LEFT JOIN bakery.claims c ON c.node = bakery._me() AND c.table_name = p_table AND c.pid = o.pid
    LEFT JOIN pg_stat_activity s ON s.pid = o.pid
   WHERE o.pid IS NOT NULL
$$;

-- This node and its peers, for the claim's own checks and for doctor.
CREATE FUNCTION bakery.node() RETURNS TABLE (mesh text, node integer, name text, state text, membership bigint, schema_version integer,
                                             peers integer)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.mesh, s.node, s.name, s.state, s.membership, bakery._schema_version(), (SELECT count(*)::integer FROM bakery.peers)
    FROM bakery.self s
$$;

-- For an operator: deletes a claim of this node whatever its owner is doing. The owner finds out at its next look, within a second
-- when it is a compactor; a commit that is under way meanwhile meets the catalog's compare-and-swap. Only for bakery_owner.
CREATE FUNCTION bakery.release_force(p_ticket bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_me integer := bakery._require_ready();
  v_table text := (SELECT table_name FROM bakery.claims WHERE node = v_me AND ticket = p_ticket);
BEGIN
  IF v_table IS NULL THEN
    RETURN false;
  END IF;
  PERFORM pg_advisory_xact_lock(bakery._gate_key(v_table));
  DELETE FROM bakery.claims WHERE node = v_me AND ticket = p_ticket;
  PERFORM bakery._ack_all(v_table, v_me);
  PERFORM bakery._trace('force', v_table, p_ticket);
  RETURN true;
END
$$;
