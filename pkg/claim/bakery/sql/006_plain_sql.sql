-- The claim for writers that only speak SQL. They never skip a peer: while a registered node is away they wait. Their lease is kept
-- by the clock of their own server, and only while they ask for it.

-- Is the claim still ours, and was a majority of the nodes in contact within half a window? Asks again for the next time. A claim that
-- fails is withdrawn and stays lost. Call it at least every quarter of a window, and right before the commit, which then has half a
-- window.
CREATE FUNCTION bakery.keep(p_ticket bigint, p_window interval DEFAULT '20 s') RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_me integer := bakery._me();
  v_sent timestamptz := clock_timestamp();
  v_peers integer := (SELECT count(*) FROM bakery.peers);
  v_reached bigint;
  v_contact timestamptz;
  v_poke bigint;
BEGIN
  -- The newest poke that a majority has answered; an ack answers the claim itself, poke 0.
  SELECT greatest(coalesce(a.poke, -1), CASE WHEN k.acker IS NULL THEN -1 ELSE 0 END) INTO v_reached
    FROM bakery.peers p
    LEFT JOIN bakery.answers a ON a.acker = p.node AND a.node = v_me AND a.about = p_ticket
    LEFT JOIN bakery.acks k ON k.acker = p.node AND k.node = v_me AND k.ticket = p_ticket
   ORDER BY 1 DESC OFFSET greatest((v_peers + 1) / 2 - 1, 0) LIMIT 1;
  IF v_peers = 0 THEN
    v_contact := coalesce((SELECT max(sent_at) FROM bakery.pokes WHERE ticket = p_ticket),
                          (SELECT claimed_at FROM bakery.claims WHERE node = v_me AND ticket = p_ticket));
  ELSIF v_reached = 0 THEN
    v_contact := (SELECT claimed_at FROM bakery.claims WHERE node = v_me AND ticket = p_ticket);
  ELSE
    v_contact := (SELECT sent_at FROM bakery.pokes WHERE ticket = p_ticket AND poke = v_reached);
  END IF;
  IF v_contact IS NULL AND v_reached < 0 THEN -- Nobody has answered yet: count from the claim.
    v_contact := (SELECT claimed_at FROM bakery.claims WHERE node = v_me AND ticket = p_ticket);
  END IF;
  IF v_contact IS NULL OR v_sent - v_contact > p_window / 2 THEN
    PERFORM bakery.withdraw(p_ticket);
    RETURN false;
  END IF;
  v_poke := bakery.poke(p_ticket);
  IF v_poke IS NULL THEN
    RETURN false;
  END IF;
  INSERT INTO bakery.pokes (ticket, poke, sent_at) VALUES (p_ticket, v_poke, v_sent);
  DELETE FROM bakery.pokes WHERE ticket = p_ticket AND poke < v_poke - 100;
  RETURN true;
END
$$;

-- Waits for the table and returns the ticket of an entered claim; on a timeout it leaves no claim and raises. It commits on its way,
-- so it has to be called outside a transaction block. It runs with the caller's rights, because a procedure that commits cannot have
-- others, and therefore names every function in full.
CREATE PROCEDURE bakery.acquire(p_table text, p_holder text, INOUT p_ticket bigint DEFAULT NULL,
                                p_timeout interval DEFAULT '10 min', p_window interval DEFAULT '20 s')
LANGUAGE plpgsql AS $$
DECLARE
  v_deadline timestamptz := pg_catalog.clock_timestamp() + p_timeout;
  v_hello bigint;
  v_round integer;
  v_state text := 'greet';
BEGIN
  PERFORM bakery.lock(p_table);
  COMMIT;
  LOOP
    IF v_state = 'greet' THEN
      v_hello := bakery.hello(p_table);
      v_state := 'greeting';
      v_round := 0;
    ELSIF v_state = 'greeting' THEN
      IF (SELECT pg_catalog.count(*) FILTER (WHERE w.poke IS NOT NULL) * 2 + 2 > pg_catalog.count(*) + 1 FROM bakery.waiting(v_hello) w) THEN
        p_ticket := bakery.claim(p_table, p_holder);
        v_state := 'claimed';
        v_round := 0;
      END IF;
    ELSE
      IF bakery.enter(p_ticket) THEN
        COMMIT;
        RETURN;
      END IF;
      IF v_round % 100 = 99 AND NOT bakery.keep(p_ticket, p_window) THEN
        v_state := 'greet';
        p_ticket := NULL;
      END IF;
    END IF;
    COMMIT;
    IF pg_catalog.clock_timestamp() > v_deadline THEN
      PERFORM bakery.release(p_table, coalesce(p_ticket, 0));
      PERFORM bakery.goodbye();
      COMMIT;
      RAISE EXCEPTION 'bakery: % was not granted within %', p_table, p_timeout USING ERRCODE = 'BK009';
    END IF;
    v_round := v_round + 1;
    PERFORM pg_catalog.pg_sleep(0.005);
  END LOOP;
END
$$;
