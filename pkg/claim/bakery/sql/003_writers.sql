-- What a writer calls, each as one statement outside a transaction block, all on one session of its own. After any error the session
-- has to be closed: the node-local lock belongs to it and outlives a rollback.

-- Takes the node-local lock of the table and waits for it without a limit. Returns at once when this session holds it already.
CREATE FUNCTION bakery.lock(p_table text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM bakery._require_ready();
  IF NOT bakery._owns(p_table) THEN
    PERFORM pg_advisory_lock(bakery._owner_key(p_table));
  END IF;
END
$$;

-- Locks, reaps what dead writers of this node left on the table, draws a ticket and inserts the claim, in one transaction.
CREATE FUNCTION bakery.claim(p_table text, p_holder text DEFAULT '') RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_me integer := bakery._require_ready();
  v_state text := (SELECT state FROM bakery.self);
  v_ticket bigint;
BEGIN
  IF v_state <> 'active' THEN
    RAISE EXCEPTION 'bakery: this node is %, it takes no claims', v_state USING ERRCODE = 'BK004';
  END IF;
  IF NOT bakery._owns(p_table) THEN
    PERFORM pg_advisory_lock(bakery._owner_key(p_table));
  ELSIF EXISTS (SELECT FROM bakery.claims WHERE table_name = p_table AND node = v_me AND pid = pg_backend_pid()) THEN
    RAISE EXCEPTION 'bakery: this session has a claim on % already', p_table USING ERRCODE = 'BK003';
  END IF;
  PERFORM pg_advisory_xact_lock(bakery._gate_key(p_table));
  PERFORM bakery._reap(p_table, v_me);
  PERFORM bakery._ack_all(p_table, v_me);
  DELETE FROM bakery.hellos WHERE node = v_me AND pid = pg_backend_pid();
  LOOP
    v_ticket := bakery._draw(p_table, v_me);
    INSERT INTO bakery.claims (node, ticket, table_name, pid, holder)
    VALUES (v_me, v_ticket, p_table, pg_backend_pid(), p_holder)
    ON CONFLICT DO NOTHING;
    EXIT WHEN FOUND;
  END LOOP;
  PERFORM bakery._raise_floor(p_table, v_ticket);
  PERFORM bakery._trace('claim', p_table, v_ticket);
  RETURN v_ticket;
END
$$;

-- Asks every peer for its floor of the table; the answers have the returned number. A majority of answers holds every ticket that
-- ever entered, and each raises the floor here when it is applied. claim deletes the question.
CREATE FUNCTION bakery.hello(p_table text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_me integer := bakery._require_ready();
  v_id bigint := -nextval('bakery.hello_ids');
BEGIN
  DELETE FROM bakery.hellos WHERE node = v_me AND pid = pg_backend_pid();
  INSERT INTO bakery.hellos (node, id, table_name, pid) VALUES (v_me, v_id, p_table, pg_backend_pid());
  RETURN v_id;
END
$$;

-- Withdraws the question of this session, if there is one.
CREATE FUNCTION bakery.goodbye() RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  DELETE FROM bakery.hellos WHERE node = bakery._me() AND pid = pg_backend_pid()
$$;

-- One row for every peer: whether it acked the ticket, its heartbeat here, its newest answer about the ticket (or hello), and the
-- claim of it that stands before ours. Only reads.
CREATE FUNCTION bakery.waiting(p_about bigint)
RETURNS TABLE (node integer, name text, acked boolean, heartbeat text, poke bigint, reach jsonb, membership bigint,
               schema_version integer, answered_at timestamptz, behind_ticket bigint, behind_holder text, behind_since timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY
  SELECT p.node, p.name,
         EXISTS (SELECT FROM bakery.acks k WHERE k.acker = p.node AND k.node = me.node AND k.ticket = p_about),
         h.heartbeat, a.poke, a.reach, a.membership, a.schema_version, a.answered_at,
         b.ticket, b.holder, coalesce(b.entered_at, b.claimed_at)
    FROM bakery.self me
    CROSS JOIN bakery.peers p
    JOIN bakery._heartbeats() h ON h.node = p.node
    LEFT JOIN bakery.answers a ON a.acker = p.node AND a.node = me.node AND a.about = p_about
    LEFT JOIN LATERAL (
      SELECT c.ticket, c.holder, c.entered_at, c.claimed_at
        FROM bakery.claims m JOIN bakery.claims c ON c.table_name = m.table_name AND c.node = p.node
       WHERE m.node = me.node AND m.ticket = p_about AND (c.entered_at IS NOT NULL OR c.ticket < p_about)
       ORDER BY c.entered_at NULLS LAST, c.ticket LIMIT 1) b ON true
   ORDER BY p.node;
END
$$;

-- Touches our claim, so that the peers look at it again and answer. Returns the number of the poke, NULL when the claim is gone.
CREATE FUNCTION bakery.poke(p_ticket bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_me integer := bakery._require_ready();
  v_poke bigint;
BEGIN
  UPDATE bakery.claims SET poke = poke + 1
   WHERE node = v_me AND ticket = p_ticket AND pid = pg_backend_pid() RETURNING poke INTO v_poke;
  RETURN v_poke;
END
$$;

-- Enters when every peer has acked or is skipped, and marks the claim. A peer is skipped only while its heartbeat is still the one
-- that the caller judged it by. Returns false when the claim has to go on waiting or is gone.
CREATE FUNCTION bakery.enter(p_ticket bigint, p_skip integer[] DEFAULT '{}', p_heartbeats text[] DEFAULT '{}') RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_me integer := bakery._require_ready();
  v_table text := (SELECT table_name FROM bakery.claims WHERE node = v_me AND ticket = p_ticket);
BEGIN
  IF v_table IS NULL THEN
    RETURN false;
  END IF;
  PERFORM pg_advisory_xact_lock(bakery._gate_key(v_table));
  UPDATE bakery.claims m SET entered_at = coalesce(m.entered_at, clock_timestamp())
   WHERE m.node = v_me AND m.ticket = p_ticket AND m.pid = pg_backend_pid()
     AND NOT EXISTS (SELECT FROM bakery.claims o WHERE o.table_name = v_table AND o.node = v_me AND o.ticket < p_ticket)
     AND NOT EXISTS (
       SELECT FROM bakery._heartbeats() h
        WHERE NOT EXISTS (SELECT FROM bakery.acks k WHERE k.acker = h.node AND k.node = v_me AND k.ticket = p_ticket)
          AND NOT EXISTS (SELECT FROM unnest(p_skip, p_heartbeats) s (node, heartbeat)
                           WHERE s.node = h.node AND s.heartbeat = h.heartbeat));
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM bakery._trace('enter', v_table, p_ticket, NULL, array_to_string(p_skip, ','));
  RETURN true;
END
$$;

-- Is the ticket still an entered claim of this session?
CREATE FUNCTION bakery.holding(p_ticket bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN EXISTS (SELECT FROM bakery.claims
                  WHERE node = bakery._me() AND ticket = p_ticket AND pid = pg_backend_pid() AND entered_at IS NOT NULL);
END
$$;

-- Gives the claim up and acks what waited behind it, in one transaction; the session keeps the node-local lock and its place.
CREATE FUNCTION bakery.withdraw(p_ticket bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_me integer := bakery._require_ready();
  v_table text := (SELECT table_name FROM bakery.claims WHERE node = v_me AND ticket = p_ticket);
  v_gone boolean;
BEGIN
  IF v_table IS NULL THEN
    RETURN false;
  END IF;
  PERFORM pg_advisory_xact_lock(bakery._gate_key(v_table));
  DELETE FROM bakery.claims WHERE node = v_me AND ticket = p_ticket AND pid = pg_backend_pid();
  v_gone := FOUND;
  DELETE FROM bakery.pokes WHERE ticket = p_ticket;
  PERFORM bakery._ack_all(v_table, v_me);
  PERFORM bakery._trace('withdraw', v_table, p_ticket);
  RETURN v_gone;
END
$$;

-- Withdraws the claim, if it is still there, and drops the node-local lock. The gate is held to the end of the transaction, so the
-- next owner of the lock sees the deletion. False when the claim was gone.
CREATE FUNCTION bakery.release(p_table text, p_ticket bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_me integer := bakery._require_ready();
  v_gone boolean;
BEGIN
  PERFORM pg_advisory_xact_lock(bakery._gate_key(p_table));
  DELETE FROM bakery.claims WHERE node = v_me AND ticket = p_ticket AND table_name = p_table AND pid = pg_backend_pid();
  v_gone := FOUND;
  DELETE FROM bakery.pokes WHERE ticket = p_ticket;
  PERFORM bakery._ack_all(p_table, v_me);
  PERFORM bakery._trace('release', p_table, p_ticket);
  IF bakery._owns(p_table) THEN
    PERFORM pg_advisory_unlock(bakery._owner_key(p_table));
  END IF;
  RETURN v_gone;
END
$$;
