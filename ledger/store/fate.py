"""What became of a transaction whose COMMIT did not answer."""

from enum import Enum

from sqlalchemy import Connection, Select, exists, literal, select, text
from sqlalchemy.exc import DBAPIError

from ledger.domain.batch import Decision
from ledger.store.records import evidence, incident, parked, receipt, refused
from ledger.store.tables import entry, hold

_STATUS = text("SELECT pg_xact_status(CAST(:id AS xid8))")
_IN_THE_FUTURE = "22023"


class Fate(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


def fate_of(connection: Connection, transaction_id: str, decision: Decision) -> Fate:
    """Asks PostgreSQL. UNKNOWN while the transaction is still in progress, or is too old to be known.

    A transaction id that never reached the log before a crash is given out again, to a stranger; so "committed" is believed only
    if a row of the decision is there.
    """
    try:
        status = connection.execute(_STATUS, {"id": transaction_id}).scalar_one()
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == _IN_THE_FUTURE:
            # Not given out yet, so lost in a crash.
            return Fate.ABORTED
        raise
    if status == "aborted":
        return Fate.ABORTED
    if status != "committed":
        return Fate.UNKNOWN
    witness = _witness(decision)
    if witness is None:
        return Fate.COMMITTED
    return Fate.COMMITTED if connection.execute(witness).first() is not None else Fate.ABORTED


def _witness(decision: Decision) -> Select[int] | None:
    """A query for one row that only this decision can have written; None if it wrote nothing.

    The rest of what a decision may have comes with an entry, evidence, or the receipt of its command.
    """
    one = select(literal(1))
    if decision.entries:
        row = decision.entries[0]
        return one.where(entry.c.tenant == row.tenant, entry.c.entry_id == row.entry_id)
    if decision.evidence:
        seen = decision.evidence[0]
        return one.where(
            evidence.c.tenant == seen.tenant,
            evidence.c.operation_id == seen.operation_id,
            evidence.c.evidence_id == seen.evidence_id,
        )
    if decision.receipts:
        claimed = decision.receipts[0]
        return one.where(
            receipt.c.tenant == claimed.tenant,
            receipt.c.actor == claimed.actor,
            receipt.c.command == claimed.command,
            receipt.c.key == claimed.key,
            receipt.c.recorded_at == claimed.recorded_at,
            receipt.c.fingerprint == claimed.fingerprint,
        )
    if decision.refused:
        refusal = decision.refused[0]
        return one.where(refused.c.tenant == refusal.tenant, refused.c.refused_id == refusal.refused_id)
    if decision.incidents:
        # A case that was open already is not written: then it is told as lost, and tried again. Twice is the same as once.
        opened = decision.incidents[0]
        return one.where(
            incident.c.tenant == opened.tenant,
            incident.c.incident_id == opened.incident_id,
            incident.c.opened_at == opened.opened_at,
        )
    if decision.holds:
        # Heartbeats alone. If the row has moved on they are told as lost, and tried again, as above.
        extended = next(iter(decision.holds.values()))
        return one.where(
            hold.c.tenant == extended.tenant,
            hold.c.operation_id == extended.operation_id,
            hold.c.version == extended.version,
            hold.c.updated_at == extended.updated_at,
        )
    if decision.unparked:
        tenant, operation_id, evidence_id = decision.unparked[0]
        waits = (
            parked.c.tenant == tenant,
            parked.c.operation_id == operation_id,
            parked.c.evidence_id == evidence_id,
        )
        return one.where(~exists().where(*waits))
    return None
