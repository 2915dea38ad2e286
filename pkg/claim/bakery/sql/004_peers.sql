-- What a node does when rows of a peer arrive. The triggers fire in the apply workers only (ENABLE REPLICA). They must not raise,
-- because an error stops the whole stream of that peer, and must not block for long, because a blocked worker looks dead: they wait
-- for the gate at most 200 ms, give up otherwise, and the waiter's next poke asks again. What an apply worker writes itself fires them
-- as well; rows of this node are left alone.

-- Ends the belief that the node is dead.
CREATE FUNCTION bakery._received(p_node integer) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO bakery.contacts AS c (node, receipts) VALUES (p_node, 1)
  ON CONFLICT (node) DO UPDATE SET receipts = c.receipts + 1;
END
$$;

-- Answers a poke or a hello of the node with our floor and whom we reach. Update and insert are apart, because the apply worker also
-- fires skip_known for what it writes itself, which would end an insert on a row that is there before its ON CONFLICT is looked at.
CREATE FUNCTION bakery._answer(p_node integer, p_about bigint, p_poke bigint, p_table text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  v_self bakery.self;
  v_floor bigint := coalesce((SELECT f.ticket FROM bakery.floors f WHERE f.table_name = p_table), 0);
  v_reach jsonb := (SELECT coalesce(jsonb_object_agg(h.node, h.heartbeat), '{}') FROM bakery._heartbeats() h WHERE h.node <> p_node);
BEGIN
  SELECT * INTO v_self FROM bakery.self;
  UPDATE bakery.answers a
     SET poke = p_poke, floor = v_floor, reach = v_reach, membership = v_self.membership, schema_version = bakery._schema_version(),
         answered_at = clock_timestamp()
   WHERE a.acker = v_self.node AND a.node = p_node AND a.about = p_about;
  IF NOT FOUND THEN
    INSERT INTO bakery.answers (acker, node, about, poke, table_name, floor, reach, membership, schema_version, answered_at)
    VALUES (v_self.node, p_node, p_about, p_poke, p_table, v_floor, v_reach, v_self.membership, bakery._schema_version(), clock_timestamp());
  END IF;
END
$$;

-- Under the gate: raise the floor, reap orphans of ours that stand before the claim, ack or leave deferred.
CREATE FUNCTION bakery._decide(p_claim bakery.claims, p_me integer) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(bakery._gate_key(p_claim.table_name));
  PERFORM bakery._raise_floor(p_claim.table_name, p_claim.ticket);
  IF EXISTS (SELECT FROM bakery.claims WHERE table_name = p_claim.table_name AND node = p_me)
     AND pg_try_advisory_xact_lock(bakery._owner_key(p_claim.table_name)) THEN
    PERFORM bakery._reap(p_claim.table_name, p_me);
  END IF;
  PERFORM bakery._ack_all(p_claim.table_name, p_me);
END
$$;

CREATE FUNCTION bakery._apply_claim() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $$
DECLARE
  v_me integer := bakery._me();
  v_claim bakery.claims;
BEGIN
  IF TG_OP = 'DELETE' THEN v_claim := OLD; ELSE v_claim := NEW; END IF;
  IF v_me IS NULL OR v_claim.node = v_me THEN
    RETURN NULL;
  END IF;
  PERFORM bakery._received(v_claim.node);
  IF TG_OP = 'DELETE' THEN
    BEGIN -- A release of ours that still sees the claim could ack it once more; without the gate sweep has to find that ack.
      PERFORM pg_advisory_xact_lock(bakery._gate_key(v_claim.table_name));
    EXCEPTION WHEN lock_not_available THEN
      RAISE LOG 'bakery: deletion of claim % is applied without the gate', v_claim.ticket;
    END;
    DELETE FROM bakery.acks WHERE acker = v_me AND node = v_claim.node AND ticket = v_claim.ticket;
    DELETE FROM bakery.answers WHERE acker = v_me AND node = v_claim.node AND about = v_claim.ticket;
    RETURN NULL;
  END IF;
  IF TG_OP = 'UPDATE' AND NEW.poke = OLD.poke THEN
    RETURN NULL; -- The peer entered.
  END IF;
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE LOG 'bakery: apply worker is not READ COMMITTED, claim % is not answered', v_claim.ticket;
    RETURN NULL;
  END IF;
  BEGIN
    PERFORM bakery._decide(v_claim, v_me);
  EXCEPTION WHEN OTHERS THEN
    RAISE LOG 'bakery: % of claim % of node % is not decided: % (%)', TG_OP, v_claim.ticket, v_claim.node, SQLERRM, SQLSTATE;
  END;
  IF TG_OP = 'UPDATE' THEN
    PERFORM bakery._answer(v_claim.node, v_claim.ticket, v_claim.poke, v_claim.table_name);
  END IF;
  RETURN NULL;
END
$$;

CREATE FUNCTION bakery._apply_hello() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $$
DECLARE
  v_me integer := bakery._me();
BEGIN
  IF TG_OP = 'DELETE' THEN
    PERFORM bakery._received(OLD.node);
    DELETE FROM bakery.answers WHERE acker = v_me AND node = OLD.node AND about = OLD.id;
  ELSIF v_me <> NEW.node THEN
    PERFORM bakery._received(NEW.node);
    PERFORM bakery._answer(NEW.node, NEW.id, 0, NEW.table_name);
  END IF;
  RETURN NULL;
END
$$;

CREATE FUNCTION bakery._apply_ack() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_me integer := bakery._me();
BEGIN
  IF NEW.acker <> v_me THEN
    PERFORM bakery._received(NEW.acker);
    IF NEW.node = v_me THEN
      PERFORM pg_notify('bakery', NEW.ticket || ' ' || NEW.acker);
    END IF;
  END IF;
  RETURN NULL;
END
$$;

CREATE FUNCTION bakery._apply_answer() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_me integer := bakery._me();
BEGIN
  IF NEW.acker <> v_me THEN
    PERFORM bakery._received(NEW.acker);
    IF NEW.node = v_me THEN
      PERFORM bakery._raise_floor(NEW.table_name, NEW.floor);
      IF NEW.about < 0 THEN
        PERFORM pg_notify('bakery', NEW.about || ' ' || NEW.acker);
      END IF;
    END IF;
  END IF;
  RETURN NULL;
END
$$;

CREATE FUNCTION bakery._apply_registry() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM bakery._received(NEW.node);
  RETURN NULL;
END
$$;

-- A row that is already here (copied and streamed, or kept by a node that was away) must not stop the stream with a duplicate key.
-- The skipped insert fires no trigger; the next poke does what it would have done.
CREATE FUNCTION bakery._skip_known() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_known boolean;
BEGIN
  CASE TG_TABLE_NAME
    WHEN 'claims' THEN
      v_known := EXISTS (SELECT FROM bakery.claims WHERE node = NEW.node AND ticket = NEW.ticket);
    WHEN 'acks' THEN
      v_known := EXISTS (SELECT FROM bakery.acks WHERE acker = NEW.acker AND node = NEW.node AND ticket = NEW.ticket);
    WHEN 'hellos' THEN
      v_known := EXISTS (SELECT FROM bakery.hellos WHERE node = NEW.node AND id = NEW.id);
    WHEN 'answers' THEN
      v_known := EXISTS (SELECT FROM bakery.answers WHERE acker = NEW.acker AND node = NEW.node AND about = NEW.about);
    WHEN 'registry' THEN
      v_known := EXISTS (SELECT FROM bakery.registry WHERE table_name = NEW.table_name);
  END CASE;
  RETURN CASE WHEN v_known THEN NULL ELSE NEW END;
END
$$;

CREATE TRIGGER skip_known BEFORE INSERT ON bakery.claims FOR EACH ROW EXECUTE FUNCTION bakery._skip_known();
CREATE TRIGGER skip_known BEFORE INSERT ON bakery.acks FOR EACH ROW EXECUTE FUNCTION bakery._skip_known();
CREATE TRIGGER skip_known BEFORE INSERT ON bakery.hellos FOR EACH ROW EXECUTE FUNCTION bakery._skip_known();
CREATE TRIGGER skip_known BEFORE INSERT ON bakery.answers FOR EACH ROW EXECUTE FUNCTION bakery._skip_known();
CREATE TRIGGER skip_known BEFORE INSERT ON bakery.registry FOR EACH ROW EXECUTE FUNCTION bakery._skip_known();
CREATE TRIGGER applied AFTER INSERT OR UPDATE OR DELETE ON bakery.claims FOR EACH ROW EXECUTE FUNCTION bakery._apply_claim();
CREATE TRIGGER applied AFTER INSERT OR DELETE ON bakery.hellos FOR EACH ROW EXECUTE FUNCTION bakery._apply_hello();
CREATE TRIGGER applied AFTER INSERT ON bakery.acks FOR EACH ROW EXECUTE FUNCTION bakery._apply_ack();
CREATE TRIGGER applied AFTER INSERT OR UPDATE ON bakery.answers FOR EACH ROW EXECUTE FUNCTION bakery._apply_answer();
CREATE TRIGGER applied AFTER INSERT OR UPDATE ON bakery.registry FOR EACH ROW EXECUTE FUNCTION bakery._apply_registry();

ALTER TABLE bakery.claims ENABLE REPLICA TRIGGER skip_known, ENABLE REPLICA TRIGGER applied;
ALTER TABLE bakery.acks ENABLE REPLICA TRIGGER skip_known, ENABLE REPLICA TRIGGER applied;
ALTER TABLE bakery.hellos ENABLE REPLICA TRIGGER skip_known, ENABLE REPLICA TRIGGER applied;
ALTER TABLE bakery.answers ENABLE REPLICA TRIGGER skip_known, ENABLE REPLICA TRIGGER applied;
ALTER TABLE bakery.registry ENABLE REPLICA TRIGGER skip_known, ENABLE REPLICA TRIGGER applied;
