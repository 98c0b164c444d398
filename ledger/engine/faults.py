"""What a failed transaction means: try again, give up, or look for the one command that makes it fail.

Decided by SQLSTATE and exception class, never by the text of an error, and no text of the database is passed on to callers.
"""

from enum import Enum

import psycopg
import sqlalchemy.exc as sa

from ledger.domain.batch import Outcome, StaleRows
from ledger.domain.refusals import Reason, Refusal
from ledger.engine.apply import TookTooLong
from ledger.store.clocks import NoClocks
from ledger.store.fitness import UnfitDatabase
from ledger.store.pipeline import StaleRow


class Fault(Enum):
    CONTENTION = "Others were in the way; the same transaction may succeed next time."
    LOST = "The connection broke, or none could be had."
    TAKEN = "Another transaction took a key first; tried again alone, the command finds its row."
    UNFIT = "The database cannot take this write until somebody repairs it."
    ZONE = "This machine lacks the time zone of a budget that is named; what names no such budget goes on."
    POISON = "Something in the batch makes it fail."


_TAKEN = "23505"
_CONTENTION = frozenset({"40001", "40P01", "55P03", "57014"})
# 08: connection exceptions. 57P0x: the server is being shut down or is starting. 53300: no connection is free.
_LOST = frozenset({"57P01", "57P02", "57P03", "57P05", "53300", "25P03", "25P04"})
_REMEDIES = {
    "25006": "The database is read-only: connect the ledger to the primary, or end the read-only mode.",
    "53100": "The database's disk is full: make room, then ask again.",
    "53200": "The database is out of memory: give it more, then ask again.",
    "58030": "The database cannot read or write its files: look at its log.",
    "42501": "The database role lacks a privilege: grant it, then ask again.",
    "28000": "The database refuses the login: correct the connection's user.",
    "28P01": "The database refuses the login: correct the connection's password.",
    "3D000": "The database does not exist: correct the connection, or create it and migrate.",
}
_SCHEMA = frozenset({"42P01", "42703", "42883", "42704", "3F000"})
_MIGRATE = "The database's schema is not this version's: run the migration, then ask again."
_UNREACHABLE = "The database cannot be reached; nothing was done. Ask again with the same key."


def classify(error: BaseException) -> Fault:
    """What kind of fault an exception out of a transaction is."""
    if isinstance(error, (StaleRow, StaleRows, TookTooLong)):
        return Fault.CONTENTION
    if isinstance(error, UnfitDatabase):
        return Fault.UNFIT
    if isinstance(error, NoClocks):
        return Fault.ZONE
    if isinstance(error, sa.TimeoutError):
        return Fault.LOST
    cause = _driver_error(error)
    if cause is None:
        lost = (isinstance(error, sa.DBAPIError) and error.connection_invalidated) or isinstance(error, OSError)
        return Fault.LOST if lost else Fault.POISON
    return _by_state(cause)


def _by_state(error: psycopg.Error) -> Fault:
    state = error.sqlstate
    if state is None:
        # The driver's own: without a SQLSTATE an OperationalError says that the connection is gone.
        return Fault.LOST if isinstance(error, psycopg.OperationalError) else Fault.POISON
    if state in _CONTENTION:
        return Fault.CONTENTION
    if state == _TAKEN:
        return Fault.TAKEN
    if state in _LOST or state.startswith("08"):
        return Fault.LOST
    if state in _REMEDIES or state in _SCHEMA:
        return Fault.UNFIT
    return Fault.POISON


def remedy(error: BaseException) -> str:
    """What to do about an UNFIT database, or about a machine without a ZONE."""
    if isinstance(error, UnfitDatabase):
        return " ".join(error.faults)
    if isinstance(error, NoClocks):
        return (
            f"This server's machine does not know the time zone {error.zone!r} of the budget; nothing was done. Install a current"
            " tzdata there and restart the server, or ask another one."
        )
    state = sqlstate(error)
    return _MIGRATE if state in _SCHEMA else _REMEDIES.get(state, "The database cannot be used: look at its log.")


def sqlstate(error: BaseException) -> str:
    """PostgreSQL's code for an exception out of a transaction; empty if it has none."""
    cause = _driver_error(error)
    return "" if cause is None else cause.sqlstate or ""


def outcome(fault: Fault, error: BaseException) -> Outcome:
    """What a command is told that was given up."""
    match fault:
        case Fault.CONTENTION | Fault.TAKEN:
            sentence = "The request collided with others too often; nothing was done. Ask again with the same key."
            return refused(Reason.CONTENTION, sentence)
        case Fault.LOST:
            return refused(Reason.STORE_UNAVAILABLE, _UNREACHABLE)
        case Fault.UNFIT | Fault.ZONE:
            return refused(Reason.STORE_UNAVAILABLE, remedy(error))
        case Fault.POISON:
            return refused(Reason.INTERNAL, "A fault of the server; nothing was done. Its log says more.")


def in_doubt() -> Outcome:
    return refused(
        Reason.UNKNOWN_WRITE_OUTCOME,
        "The database was lost while it committed. Ask again with the same idempotency key to find out.",
        {"recovery_action": "retry_same_key"},
    )


def too_late() -> Outcome:
    return refused(Reason.DEADLINE_PASSED, "The deadline passed before the request was begun; nothing was done.")


def stopping() -> Outcome:
    return refused(Reason.STORE_UNAVAILABLE, "This server is being stopped; nothing was done. Ask again, of another.")


def throttled() -> Outcome:
    return refused(Reason.THROTTLED, "Too many requests at once; nothing was done. Ask again after a pause.")


def refused(reason: Reason, message: str, metadata: dict[str, str] | None = None) -> Outcome:
    return Outcome(refusal=Refusal(reason, message, metadata or {}), applied=False)


def _driver_error(error: BaseException) -> psycopg.Error | None:
    if isinstance(error, psycopg.Error):
        return error
    if isinstance(error, sa.DBAPIError) and isinstance(error.orig, psycopg.Error):
        return error.orig
    return None
