-- Nothing is open to everybody. bakery_writer may take claims and look; the rest is for bakery_owner, whose members install and
-- repair.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA bakery FROM PUBLIC;
REVOKE ALL ON ALL PROCEDURES IN SCHEMA bakery FROM PUBLIC;
GRANT USAGE ON SCHEMA bakery TO bakery_writer;
GRANT EXECUTE ON FUNCTION
  bakery.lock(text), bakery.claim(text, text), bakery.hello(text), bakery.goodbye(), bakery.waiting(bigint), bakery.poke(bigint),
  bakery.enter(bigint, integer[], text[]), bakery.holding(bigint), bakery.withdraw(bigint), bakery.release(text, bigint),
  bakery.register(bigint, text), bakery.registered(), bakery.sweep(), bakery.status(text), bakery.local_owner(text), bakery.node(),
  bakery.keep(bigint, interval)
TO bakery_writer;
GRANT EXECUTE ON PROCEDURE bakery.acquire(text, text, bigint, interval, interval) TO bakery_writer;
