-- A stand-in for the part of the ColdFront extension that an outside committer
-- calls. It keeps the properties that matter to a caller:
--   * one node-local lock per table, taken for the transaction, under the literal
--     key that ColdFront uses;
--   * on a mesh the claim row is written over a second session, so it is committed
--     at once and outlives a cancelled statement;
--   * the wait for the peers has no bound;
--   * the release is arranged only when the claim function returns.
CREATE SCHEMA coldfront;

CREATE TABLE coldfront.claims (
    iceberg_table text NOT NULL,
    ticket        bigint PRIMARY KEY
);
CREATE TABLE coldfront.claim_acks (
    ticket        bigint NOT NULL,
    ack_from_name name   NOT NULL,
    iceberg_table text   NOT NULL,
    PRIMARY KEY (ticket, ack_from_name)
);
CREATE TABLE coldfront.deferred_acks (
    pending_ticket bigint NOT NULL,
    ack_for_ticket bigint NOT NULL,
    iceberg_table  text   NOT NULL,
    PRIMARY KEY (pending_ticket, ack_for_ticket)
);

CREATE FUNCTION coldfront._bakery_armed() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(current_setting('snowflake.node', true), '') <> ''
       AND coalesce(current_setting('coldfront.dblink_self', true), '') <> ''
$$;

-- One statement in a session of its own, committed at once.
CREATE FUNCTION coldfront._double_aside(p_sql text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    IF NOT 'double_aside' = ANY (coalesce(public.dblink_get_connections(), '{}')) THEN
        PERFORM public.dblink_connect('double_aside', current_setting('coldfront.dblink_self'));
    END IF;
    PERFORM public.dblink_exec('double_aside', p_sql);
END $$;
REVOKE ALL ON FUNCTION coldfront._double_aside(text) FROM PUBLIC;

CREATE FUNCTION coldfront._claim_iceberg_lock(p_iceberg_table text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    v_node   int := current_setting('snowflake.node')::int;
    v_gate   int := hashtext('coldfront_claim:' || p_iceberg_table);
    v_ticket bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('coldfront_iceberg:' || p_iceberg_table));
    PERFORM pg_advisory_lock(v_gate);
    v_ticket := snowflake.nextval();
    PERFORM coldfront._double_aside(format(
        'INSERT INTO coldfront.claims VALUES (%L, %s)', p_iceberg_table, v_ticket));
    PERFORM pg_advisory_unlock(v_gate);
    WHILE EXISTS (SELECT FROM coldfront.claims c
                   WHERE c.iceberg_table = p_iceberg_table AND c.ticket < v_ticket
                     AND snowflake.get_node(c.ticket) = v_node)
       OR EXISTS (SELECT FROM spock.node n
                   WHERE n.node_id NOT IN (SELECT l.node_id FROM spock.local_node l)
                     AND NOT EXISTS (SELECT FROM coldfront.claim_acks a
                                      WHERE a.ticket = v_ticket AND a.ack_from_name = n.node_name))
    LOOP
        PERFORM pg_sleep(0.005);
    END LOOP;
    RETURN v_ticket;
END $$;

CREATE FUNCTION coldfront._release_iceberg_lock(p_ticket bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    PERFORM coldfront._double_aside(format('DELETE FROM coldfront.claims WHERE ticket = %s', p_ticket));
END $$;

-- The extension's callback runs when the transaction ends, in whatever way. Plain
-- SQL has no such hook, so the transaction takes a lock named after the ticket,
-- and a watcher outside deletes the claim when it gets that lock.
CREATE FUNCTION coldfront._enqueue_release(p_ticket bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(-p_ticket);
    PERFORM coldfront._double_aside(format(
        'DO $do$ BEGIN PERFORM pg_notify(''double_release'', ''%s''); END $do$', p_ticket));
END $$;

CREATE FUNCTION coldfront._claim_iceberg_external(p_iceberg_table text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION 'a standby takes no claims';
    END IF;
    IF coldfront._bakery_armed() THEN
        PERFORM coldfront._enqueue_release(coldfront._claim_iceberg_lock(p_iceberg_table));
    ELSE
        PERFORM pg_advisory_xact_lock(hashtext('coldfront_iceberg:' || p_iceberg_table));
    END IF;
END $$;
