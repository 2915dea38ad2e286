-- State of the protocol. Tables marked "published" are carried to the peers, each node publishing only the rows that bear its own
-- number; every key holds that number, so that a row filter works with the default replica identity. The others are this node's.

-- This node. membership is the version of the list of members that it follows.
CREATE TABLE bakery.self (
  only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  mesh       text NOT NULL,
  node       integer NOT NULL CHECK (node BETWEEN 1 AND 1023),
  name       text NOT NULL,
  state      text NOT NULL CHECK (state IN ('joining', 'active', 'leaving')),
  membership bigint NOT NULL,
  tracing    boolean NOT NULL DEFAULT false
);

-- The other registered nodes. slot is the replication slot on this node that feeds the peer.
CREATE TABLE bakery.peers (
  node integer PRIMARY KEY CHECK (node BETWEEN 1 AND 1023),
  name text NOT NULL UNIQUE,
  slot name NOT NULL
);

-- How many rows of a peer were applied here. It changes in the transaction that writes an ack, so that a belief that the peer is
-- dead ends no later than the ack begins. Unlogged: a crash resets the number, which reads as contact, the careful side.
CREATE UNLOGGED TABLE bakery.contacts (
  node     integer PRIMARY KEY,
  receipts bigint NOT NULL
) WITH (fillfactor = 50);

-- The largest ticket that this node has seen for a table. Kept after the claims are gone.
CREATE TABLE bakery.floors (
  table_name text PRIMARY KEY,
  ticket     bigint NOT NULL
) WITH (fillfactor = 50);

-- When this node poked for a ticket, by its own clock; only for writers that keep their lease in SQL (see keep).
CREATE TABLE bakery.pokes (
  ticket  bigint NOT NULL,
  poke    bigint NOT NULL,
  sent_at timestamptz NOT NULL,
  PRIMARY KEY (ticket, poke)
);

-- Steps of the protocol, written only while self.tracing is on.
CREATE TABLE bakery.trace (
  step       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  node       integer NOT NULL,
  event      text NOT NULL,
  table_name text,
  ticket     bigint,
  peer       integer,
  detail     text
);

CREATE SEQUENCE bakery.draws;
CREATE SEQUENCE bakery.hello_ids;

-- Published: a writer of the node that waits for a table or, once entered_at is set, holds it.
CREATE TABLE bakery.claims (
  node       integer NOT NULL,
  ticket     bigint NOT NULL,
  table_name text NOT NULL,
  poke       bigint NOT NULL DEFAULT 0,
  entered_at timestamptz,
  claimed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  pid        integer NOT NULL,
  holder     text NOT NULL,
  PRIMARY KEY (node, ticket)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX claims_by_table ON bakery.claims (table_name);

-- Published by the acker: node acker lets ticket of node pass.
CREATE TABLE bakery.acks (
  acker  integer NOT NULL,
  node   integer NOT NULL,
  ticket bigint NOT NULL,
  PRIMARY KEY (acker, node, ticket)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Published: a writer asks every peer for its floor before it draws a ticket. The ids are negative, so that they never meet a ticket.
CREATE TABLE bakery.hellos (
  node       integer NOT NULL,
  id         bigint NOT NULL CHECK (id < 0),
  table_name text NOT NULL,
  pid        integer NOT NULL,
  PRIMARY KEY (node, id)
);

-- Published by the acker: its answer to the poke with this number of a ticket, or to a hello (about < 0). reach holds the heartbeat
-- of each of its own peers as it sees it: an unchanged value means that the acker does not reach that peer.
CREATE TABLE bakery.answers (
  acker          integer NOT NULL,
  node           integer NOT NULL,
  about          bigint NOT NULL,
  poke           bigint NOT NULL,
  table_name     text NOT NULL,
  floor          bigint NOT NULL,
  reach          jsonb NOT NULL,
  membership     bigint NOT NULL,
  schema_version integer NOT NULL,
  answered_at    timestamptz NOT NULL,
  PRIMARY KEY (acker, node, about)
) WITH (fillfactor = 50);

-- Published: one relation per Iceberg table, registered by node under the table's claim.
CREATE TABLE bakery.registry (
  table_name    text NOT NULL UNIQUE,
  node          integer NOT NULL,
  relation      text NOT NULL,
  registered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (table_name, node)
);
