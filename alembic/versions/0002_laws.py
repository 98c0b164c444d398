"""The laws over several rows and over time, as triggers.

They bind every program that writes here, not only the service. A trigger is named after the law that it guards; its
argument is the sentence that the offender reads. Only cheap kinds are used: a condition that is false in the ordinary
case costs next to nothing in an AFTER … WHEN trigger, and the balance of a whole batch is one statement trigger.

Revision ID: 0002
Revises: 0001
"""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'integrity_constraint_violation',
        MESSAGE = TG_ARGV[0],
        DETAIL = format('%s on %s was refused by the law %s.', TG_OP, TG_TABLE_NAME, TG_NAME),
        TABLE = TG_TABLE_NAME,
        CONSTRAINT = TG_NAME;
END
$$
"""

REFUSE_UNBALANCED = """
CREATE FUNCTION refuse_unbalanced() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    unbalanced record;
BEGIN
    SELECT tenant, book_id, entry_id, sum(amount) AS excess INTO unbalanced
        FROM written GROUP BY tenant, entry_id, book_id HAVING sum(amount) <> 0 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'integrity_constraint_violation',
            MESSAGE = 'An entry balances in each of its books, and is written whole.',
            DETAIL = format('Entry %s of tenant %s moves book %s by %s.',
                            unbalanced.entry_id, unbalanced.tenant, unbalanced.book_id, unbalanced.excess),
            TABLE = TG_TABLE_NAME,
            CONSTRAINT = TG_NAME;
    END IF;
    RETURN NULL;
END
$$
"""

ENTRY_BALANCES = """
CREATE TRIGGER entry_balances AFTER INSERT ON posting
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION refuse_unbalanced()
"""

APPEND_ONLY = {
    "entry": "A journal entry is never changed or removed: correct it with another.",
    "posting": "A posting is never changed or removed: correct it with another entry.",
    "evidence": "Evidence is never changed or removed.",
    "observation": "An observation is never changed or removed.",
    "receipt": "A receipt is never changed or removed.",
    "refused": "What was refused is never changed or removed.",
    "resolution": "A resolution is never changed or removed: correct it with a next revision.",
    "incident": "An incident is never changed or removed.",
    "budget_grant": "A grant is never changed or removed.",
    "evidence_policy": "A version of a policy is never changed or removed: put a new one beside it.",
    "price_card": "A version of a price card is never changed or removed: put a new one beside it.",
    "outbox": "An event is never changed or removed: its readers have it.",
}
NEVER_REMOVED = {
    "hold": "A hold is never removed.",
    "book": "A book is never removed.",
    "budget": "A budget is never removed.",
}

# name: (table, INSERT or UPDATE, when it is refused, the sentence)
ROW_LAWS = {
    "hold_birth": (
        "hold",
        "INSERT",
        "NEW.version <> 1 OR NEW.state NOT IN ('RESERVED', 'DISPATCHING')",
        "A hold is born RESERVED or DISPATCHING, at version 1.",
    ),
    "hold_transition": (
        "hold",
        "UPDATE",
        """
        NEW.state <> OLD.state AND NOT (
            OLD.state = 'RESERVED' AND NEW.state IN ('RELEASED', 'DISPATCHING')
            OR OLD.state = 'RESERVED' AND NEW.state = 'SETTLED' AND NEW.inferred
            OR OLD.state = 'DISPATCHING' AND NEW.state IN ('OUTCOME_UNKNOWN', 'SETTLED')
            OR OLD.state = 'OUTCOME_UNKNOWN' AND NEW.state = 'SETTLED')
        """,
        "A hold moves only from RESERVED to RELEASED, DISPATCHING or (by evidence of a call: inferred) SETTLED,"
        " from DISPATCHING to OUTCOME_UNKNOWN or SETTLED, and from OUTCOME_UNKNOWN to SETTLED.",
    ),
    "hold_release": (
        "hold",
        "UPDATE",
        "OLD.state = 'RESERVED' AND NEW.state = 'RELEASED' AND (OLD.attempt > 0 OR NEW.attempt > 0)",
        "A hold that was ever dispatched is never RELEASED: only evidence frees its money.",
    ),
    "hold_version": (
        "hold",
        "UPDATE",
        "NEW.version <> OLD.version + 1",
        "The version of a hold grows by one with each change.",
    ),
    "hold_identity": (
        "hold",
        "UPDATE",
        """
        NEW.tenant <> OLD.tenant OR NEW.operation_id <> OLD.operation_id OR NEW.amount <> OLD.amount
        OR NEW.currency <> OLD.currency OR NEW.quote <> OLD.quote OR NEW.books <> OLD.books
        OR NEW.budget_ids <> OLD.budget_ids OR NEW.fingerprint <> OLD.fingerprint
        OR NEW.fingerprint_version <> OLD.fingerprint_version OR NEW.created_at <> OLD.created_at
        OR NEW.exclusive_key IS DISTINCT FROM OLD.exclusive_key OR NEW.labels <> OLD.labels OR NEW.actor <> OLD.actor
        OR NEW.request_group IS DISTINCT FROM OLD.request_group
        """,
        "What a hold was reserved as never changes: operation, amount, quote, path, content, actor, keys, labels.",
    ),
    "hold_attempts": (
        "hold",
        "UPDATE",
        "NEW.attempt < OLD.attempt OR NEW.generation < OLD.generation OR OLD.inferred AND NOT NEW.inferred",
        "The attempts and generations of a hold only grow, and an inferred attempt stays inferred.",
    ),
    "hold_permission": (
        "hold",
        "UPDATE",
        """
        NEW.attempt > OLD.attempt + 1 OR NEW.attempt > OLD.attempt AND OLD.attempt > 0 AND OLD.failure IS NULL
        OR NEW.nonce_hash IS DISTINCT FROM OLD.nonce_hash AND NEW.nonce_hash IS NOT NULL AND NEW.attempt = OLD.attempt
        """,
        "The permission to send an attempt is given once, to one nonce; a next attempt only when the one before it failed"
        " before anything was sent.",
    ),
    "hold_execution": (
        "hold",
        "UPDATE",
        "OLD.execution_seen AND NOT NEW.execution_seen OR OLD.usage_seen AND NOT NEW.usage_seen",
        "Evidence that the call of a hold was executed is never forgotten.",
    ),
    "hold_resolution": (
        "hold",
        "UPDATE",
        """
        NEW.revision NOT IN (OLD.revision, OLD.revision + 1)
        OR NEW.revision = OLD.revision AND (
            NEW.settled IS DISTINCT FROM OLD.settled OR NEW.resolved_at IS DISTINCT FROM OLD.resolved_at
            OR NEW.resolution_kind IS DISTINCT FROM OLD.resolution_kind
            OR NEW.resolution_digest IS DISTINCT FROM OLD.resolution_digest)
        """,
        "What a hold was settled at changes only with the next revision of its resolution.",
    ),
    "book_version": (
        "book",
        "UPDATE",
        "NEW.version < OLD.version",
        "The version of a book counts its postings, and never goes back.",
    ),
    "book_crossed": (
        "book",
        "UPDATE",
        "NOT NEW.crossed @> OLD.crossed",
        "That a threshold of a period was crossed is never forgotten.",
    ),
    "book_identity": (
        "book",
        "UPDATE",
        """
        NEW.tenant <> OLD.tenant OR NEW.book_id <> OLD.book_id OR NEW.currency <> OLD.currency
        OR NEW.budget_id IS DISTINCT FROM OLD.budget_id OR NEW.provider IS DISTINCT FROM OLD.provider
        OR NEW.model IS DISTINCT FROM OLD.model
        """,
        "The budget, provider, model and currency of a book never change.",
    ),
    "book_period": (
        "book",
        "UPDATE",
        """
        NEW.period_start IS DISTINCT FROM OLD.period_start OR OLD.closed AND NOT NEW.closed
        OR OLD.period_end IS NOT NULL AND NEW.period_end IS DISTINCT FROM OLD.period_end
        """,
        "The boundaries of a period never change, and a book that is closed stays closed.",
    ),
    # What a reader relies on: nothing of a transaction that may still run stands before what is complete.
    "outbox_place": (
        "outbox",
        "INSERT",
        "NEW.xid <> pg_current_xact_id()::text::bigint",
        "Events are recorded under the number of the transaction that they are part of.",
    ),
    "outbox_isolation": (
        "outbox",
        "INSERT",
        "current_setting('transaction_isolation') <> 'read committed'",
        "Events are recorded in READ COMMITTED: their place is read when the locks are there.",
    ),
    "budget_version": (
        "budget",
        "UPDATE",
        "NEW.version <> OLD.version + 1",
        "The version of a budget grows by one with each change.",
    ),
    "budget_identity": (
        "budget",
        "UPDATE",
        """
        NEW.tenant <> OLD.tenant OR NEW.budget_id <> OLD.budget_id OR NEW.currency <> OLD.currency
        OR NEW.created_at <> OLD.created_at
        """,
        "The name, currency and beginning of a budget never change.",
    ),
    "budget_closed": (
        "budget",
        "UPDATE",
        "OLD.closed_at IS NOT NULL AND NEW.closed_at IS DISTINCT FROM OLD.closed_at",
        "A budget that is closed stays closed.",
    ),
}
# name: (table, events, the sentence)
STATEMENT_LAWS = {
    "parked_as_it_was": (
        "parked",
        "UPDATE OR TRUNCATE",
        "Parked evidence is filed as it came, or becomes a case: each row on its own.",
    ),
}


def upgrade() -> None:
    op.execute(REFUSE)
    op.execute(REFUSE_UNBALANCED)
    op.execute(ENTRY_BALANCES)
    for table, sentence in APPEND_ONLY.items():
        guard(f"{table}_append_only", f"BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} FOR EACH STATEMENT", sentence)
    for table, sentence in NEVER_REMOVED.items():
        guard(f"{table}_never_removed", f"BEFORE DELETE OR TRUNCATE ON {table} FOR EACH STATEMENT", sentence)
    for name, (table, events, sentence) in STATEMENT_LAWS.items():
        guard(name, f"BEFORE {events} ON {table} FOR EACH STATEMENT", sentence)
    for name, (table, event, refused, sentence) in ROW_LAWS.items():
        guard(name, f"AFTER {event} ON {table} FOR EACH ROW WHEN ({refused})", sentence)


def guard(name: str, event: str, sentence: str) -> None:
    """A trigger that refuses what it meets."""
    op.execute(f"CREATE TRIGGER {name} {event} EXECUTE FUNCTION refuse('{sentence}')")
