"""Damage to holds, their attempts and resolutions: laws 3 to 5."""

DAMAGE = [
    (
        "3.1",
        "HELD 5, its holds come to 2",
        "UPDATE hold SET state = 'OUTCOME_UNKNOWN' WHERE operation_id = 'dispatching'",
    ),
    ("3.2", "UNKNOWN 4, its holds come to 0", "UPDATE hold SET state = 'DISPATCHING' WHERE operation_id = 'unknown'"),
    ("3.2", "is on the path of a hold, and is not there", "DELETE FROM book WHERE book_id = 'team#0'"),
    (
        "3.5",
        "book org#0 of acme counts 9 open holds, and has",
        "UPDATE book SET open_holds = 9 WHERE book_id = 'org#0'",
    ),
    (
        "3.3",
        "operation dispatching of acme moved",
        "UPDATE entry SET operation_id = 'reserved' WHERE operation_id = 'dispatching'",
    ),
    ("3.3", "not on its path", "UPDATE hold SET books = '{key#0}' WHERE operation_id = 'settled'"),
    ("3.4", "its quote 3 USD", "UPDATE hold SET amount = 2 WHERE operation_id = 'dispatching'"),
    (
        "3.4",
        "has 4 books, of which 3 are there",
        "UPDATE hold SET books = books || 'none#0'::text WHERE operation_id = 'tokens'",
    ),
    ("3.4", "its books in {EUR,USD}", "UPDATE book SET currency = 'EUR' WHERE book_id = 'key#0'"),
    (
        "4.1",
        "operation dispatching of acme was dispatched, and is RELEASED",
        "ALTER TABLE hold DROP CONSTRAINT hold_once_dispatched_is_never_released;"
        "UPDATE hold SET state = 'RELEASED' WHERE operation_id = 'dispatching'",
    ),
    (
        "4.1",
        "was unknown, and is RELEASED",
        "UPDATE hold SET state = 'RELEASED', attempt = 0 WHERE operation_id = 'unknown'",
    ),
    ("4.1", "was dispatched, and is RESERVED", "UPDATE hold SET state = 'RESERVED' WHERE operation_id = 'unknown'"),
    (
        "4.1",
        "without an attempt",
        "ALTER TABLE hold DROP CONSTRAINT hold_beyond_reserved_has_an_attempt;"
        "UPDATE hold SET attempt = 0 WHERE operation_id = 'unknown'",
    ),
    ("4.1", "is GONE", "UPDATE hold SET state = 'GONE' WHERE operation_id = 'unknown'"),
    (
        "4.2",
        "DISPATCHING without a lease, and no failure",
        "ALTER TABLE hold DROP CONSTRAINT hold_dispatching_has_a_lease_or_a_failure;"
        "UPDATE hold SET lease_expires_at = NULL WHERE operation_id = 'dispatching'",
    ),
    (
        "4.2",
        "may be sent all the same",
        "ALTER TABLE hold DROP CONSTRAINT hold_failure_ends_the_permission;"
        "UPDATE hold SET nonce_hash = 'n' WHERE operation_id = 'failed'",
    ),
    ("4.2", "attempt 2 of generation 1", "UPDATE hold SET generation = 1 WHERE operation_id = 'retried'"),
    (
        "4.2",
        "retried of acme is at attempt 2, of those before it {} are recorded",
        "DELETE FROM observation WHERE operation_id = 'retried'",
    ),
    ("4.2", "is at attempt 3, of those before it {1}", "UPDATE hold SET attempt = 3, generation = 3 WHERE attempt = 2"),
    ("4.3", "operation cancelled of acme", "DELETE FROM observation WHERE operation_id = 'cancelled'"),
    ("5.1", "has no hold", "DELETE FROM hold WHERE operation_id = 'settled'"),
    ("5.1", "is SETTLED, with no resolution", "DELETE FROM resolution WHERE operation_id = 'settled'"),
    (
        "5.1",
        "is DISPATCHING, with resolution 1",
        "UPDATE hold SET state = 'DISPATCHING' WHERE operation_id = 'settled'",
    ),
    ("5.1", "says that it is resolved", "UPDATE hold SET settled = 1 WHERE operation_id = 'unknown'"),
    ("5.1", "USAGE 4, its resolution at 1, USAGE 4.5", "UPDATE hold SET settled = 4 WHERE operation_id = 'settled'"),
    ("5.1", "the digests differ", "UPDATE hold SET resolution_digest = 'x' WHERE operation_id = 'settled'"),
    (
        "5.1",
        "is RELEASED on NO_COST",
        "UPDATE hold SET resolution_kind = 'NO_COST' WHERE operation_id = 'released';"
        "UPDATE resolution SET kind = 'NO_COST' WHERE operation_id = 'released'",
    ),
    (
        "5.2",
        "is the 1. in its chain",
        "UPDATE resolution SET revision = 2, supersedes = 'x' WHERE operation_id = 'settled'",
    ),
    (
        "5.2",
        "does not name the digest before it",
        'INSERT INTO resolution SELECT (jsonb_populate_record(r, \'{"revision": 2, "supersedes": "\\\\x00"}\')).*'
        " FROM resolution r WHERE operation_id = 'settled'",
    ),
    ("5.2", "has 0 over the hold, not 2", "UPDATE resolution SET cost_over_hold = 0 WHERE operation_id = 'overrun'"),
    ("5.3", "is not there", "DELETE FROM evidence WHERE operation_id = 'late'"),
    ("5.3", "REJECTED USAGE", "UPDATE evidence SET classification = 'REJECTED' WHERE operation_id = 'late'"),
    ("5.3", "without evidence", "UPDATE resolution SET evidence_id = NULL WHERE operation_id = 'never-sent'"),
    (
        "5.3",
        "a provider receipt that nobody brought",
        "UPDATE hold SET provider_receipt = 'r-9' WHERE operation_id = 'settled'",
    ),
    (
        "5.3",
        "has not the receipt r-8 of its evidence",
        "UPDATE evidence SET provider_receipt = 'r-8' WHERE operation_id = 'settled' AND classification = 'AUTHORITATIVE';"
        "UPDATE hold SET provider_receipt = NULL WHERE operation_id = 'settled'",
    ),
    (
        "5.9",
        "receipt r-10 of provider psp of acme is bound 2 times",
        "DROP INDEX observation_one_per_provider_receipt; INSERT INTO observation SELECT"
        " (jsonb_populate_record(o, jsonb_build_object('operation_id', 'cancelled'))).* FROM observation o WHERE provider = 'psp'",
    ),
    ("5.9", "bound to attempt 7", "UPDATE observation SET attempt = 7 WHERE provider_receipt = 'r-10'"),
    ("5.9", "which has none", "UPDATE hold SET provider_receipt = NULL WHERE operation_id = 'retried'"),
    (
        "5.3",
        "ended by NEVER_SENT, against usage of its call",
        "UPDATE hold SET execution_seen = true WHERE operation_id = 'never-sent'",
    ),
    ("5.3", "says that none was seen", "UPDATE hold SET execution_seen = false WHERE operation_id = 'late'"),
    ("5.3", "says that none was seen", "UPDATE hold SET usage_seen = false WHERE operation_id = 'late'"),
    ("5.3", "has no entry", "UPDATE resolution SET entry_id = NULL WHERE operation_id = 'late'"),
    (
        "5.3",
        "of another or not there",
        "UPDATE resolution SET entry_id = gen_random_uuid() WHERE operation_id = 'late'",
    ),
    ("5.4", "settled at 4, its entries posted 4.5", "UPDATE hold SET settled = 4 WHERE operation_id = 'settled'"),
    ("5.4", "settled at nothing", "UPDATE entry SET operation_id = 'unknown' WHERE operation_id = 'settled'"),
    (
        "5.11",
        "operation rejected of acme was classified by policy psp#7",
        "UPDATE evidence SET policy = 'psp#7' WHERE operation_id = 'rejected'",
    ),
    (
        "5.11",
        "operation tokens of acme was classified by policy psp#1",
        "UPDATE evidence SET policy = 'psp#1' WHERE operation_id = 'tokens'",
    ),
    (
        "5.7",
        "operation settled of acme has no body",
        "ALTER TABLE evidence DROP CONSTRAINT evidence_what_resolves_is_kept_whole;"
        "UPDATE evidence SET body = NULL WHERE operation_id = 'settled'",
    ),
    (
        "5.6",
        "operation rejected of acme is AUTHORITATIVE, and no resolution rests on it",
        "UPDATE evidence SET classification = 'AUTHORITATIVE' WHERE operation_id = 'rejected'",
    ),
    (
        "5.5",
        "exclusive key order-1 of acme has 2 open holds",
        "DROP INDEX hold_one_open_per_exclusive_key;"
        "UPDATE hold SET exclusive_key = 'order-1' WHERE operation_id = 'unknown'",
    ),
    (
        "4.1",
        "operation billed-late of acme was dispatched, and is RELEASED",
        "ALTER TABLE hold DROP CONSTRAINT hold_once_dispatched_is_never_released,"
        " DROP CONSTRAINT hold_released_costs_only_by_correction;"
        "UPDATE hold SET revision = 1 WHERE operation_id = 'billed-late'",
    ),
    (
        "4.1",
        "at a cost that no correction brought",
        "ALTER TABLE hold DROP CONSTRAINT hold_released_costs_only_by_correction;"
        "UPDATE hold SET settled = 1 WHERE operation_id = 'released'",
    ),
    (
        "5.1",
        "operation not-free of acme stands at revision 1",
        "UPDATE hold SET revision = 1 WHERE operation_id = 'not-free'",
    ),
    (
        "5.2",
        "revision 3 of operation raised of acme is the 2. in its chain",
        "DELETE FROM resolution WHERE operation_id = 'raised' AND revision = 2",
    ),
    (
        "5.3",
        "operation not-free of acme ended by NEVER_SENT",
        "DELETE FROM resolution WHERE operation_id = 'not-free' AND revision = 2;"
        "UPDATE hold SET revision = 1 WHERE operation_id = 'not-free'",
    ),
    (
        "5.8",
        "revision 2 of operation not-free of acme changes the amount by 2, without an entry",
        "UPDATE resolution SET entry_id = NULL WHERE operation_id = 'not-free' AND revision = 2",
    ),
    (
        "5.8",
        "revision 1 of operation settled of acme posted an entry of kind CORRECT",
        "UPDATE entry SET kind = 'CORRECT' WHERE operation_id = 'settled' AND kind = 'SETTLE'",
    ),
    (
        "5.8",
        "revision 3 of operation raised of acme is linked to",
        "UPDATE entry SET corrects = (SELECT entry_id FROM resolution WHERE operation_id = 'raised' AND revision = 1)"
        " WHERE entry_id = (SELECT entry_id FROM resolution WHERE operation_id = 'raised' AND revision = 3)",
    ),
    ("5.8", "is linked to none", "UPDATE entry SET corrects = NULL WHERE operation_id = 'billed-late'"),
    (
        "5.8",
        "changes the amount by 2, its entry posted 1",
        "UPDATE posting p SET amount = amount / 2 FROM entry e WHERE e.entry_id = p.entry_id AND e.kind = 'CORRECT'"
        " AND e.operation_id = 'not-free'",
    ),
    (
        "5.8",
        "is a correction without a revision",
        "UPDATE entry SET kind = 'CORRECT' WHERE operation_id = 'dispatching'",
    ),
]
