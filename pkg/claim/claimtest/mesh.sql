-- What makes the stand-in one node of a mesh: the node list, tickets that tell
-- their node, and the notice that a claim has reached the peers.
CREATE EXTENSION dblink SCHEMA public;

CREATE SCHEMA spock;
CREATE TABLE spock.node (node_id oid PRIMARY KEY, node_name name NOT NULL);
CREATE TABLE spock.local_node (node_id oid PRIMARY KEY);
INSERT INTO spock.node VALUES (1, 'n1'), (2, 'n2');
INSERT INTO spock.local_node VALUES (1);

CREATE SCHEMA snowflake;
CREATE SEQUENCE snowflake.id_seq;
CREATE FUNCTION snowflake.mint(p_node int) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT (nextval('snowflake.id_seq') << 12) | p_node
$$;
CREATE FUNCTION snowflake.nextval() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT snowflake.mint(current_setting('snowflake.node')::int)
$$;
CREATE FUNCTION snowflake.get_node(p_ticket bigint) RETURNS int LANGUAGE sql IMMUTABLE AS $$
    SELECT (p_ticket & 1023)::int
$$;

CREATE FUNCTION coldfront._double_arrived() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    PERFORM pg_notify('double_claim', NEW.ticket::text);
    RETURN NULL;
END $$;
CREATE TRIGGER double_arrived AFTER INSERT ON coldfront.claims
    FOR EACH ROW EXECUTE FUNCTION coldfront._double_arrived();
