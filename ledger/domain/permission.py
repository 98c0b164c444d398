"""The permission to send: given once for each attempt, to one nonce; and why it is not given."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from ledger.domain.commands import Dispatch
from ledger.domain.model import Hold
from ledger.domain.states import HoldState


class Denial(StrEnum):
    """Why the permission to send was not given."""

    NOT_DISPATCHED = "NOT_DISPATCHED"
    ANOTHER_ATTEMPT_RUNS = "ANOTHER_ATTEMPT_RUNS"
    LEASE_RAN_OUT = "LEASE_RAN_OUT"
    ATTEMPT_ENDED = "ATTEMPT_ENDED"
    CALL_WAS_SEEN = "CALL_WAS_SEEN"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    RESOLVED = "RESOLVED"


_NEW_INTENT: Final = "a new intent is a new operation with a hold of its own, linked by request_group"
WAY_OUT: Final[Mapping[Denial, str]] = {
    Denial.NOT_DISPATCHED: "Ask for the permission with BeginDispatch, under an idempotency key that has not asked before.",
    Denial.ANOTHER_ATTEMPT_RUNS: "Wait for what the process that sends will report, or for its lease to run out; if it failed"
    " before anything was sent, its own RecordFailedBeforeDispatch allows the next attempt.",
    Denial.LEASE_RAN_OUT: f"Report what is known of the call, by Resolve or MarkOutcomeUnknown; {_NEW_INTENT}.",
    Denial.ATTEMPT_ENDED: "That attempt failed before anything was sent: begin the next with another idempotency key and nonce.",
    Denial.CALL_WAS_SEEN: f"The call was made: resolve the hold by the provider's final usage; {_NEW_INTENT}.",
    Denial.OUTCOME_UNKNOWN: f"Do not send again: resolve the hold by evidence of the provider; {_NEW_INTENT}.",
    Denial.RESOLVED: f"The hold is resolved: {_NEW_INTENT}.",
}


class Stopped(StrEnum):
    """What a Cancel ended."""

    RESERVATION = "RESERVATION"
    PERMISSION_TO_SEND = "PERMISSION_TO_SEND"
    NEXT_ATTEMPT = "NEXT_ATTEMPT"


def denial(hold: Hold, dispatch: Dispatch, now: datetime) -> Denial | None:
    """Why this nonce may not send on the hold as it is; None if it may.

    The permission belongs to the nonce that was given it, while the attempt runs, its lease is current, and nobody saw the call.
    """
    if hold.state is not HoldState.DISPATCHING:
        return _WITHOUT_ATTEMPT[hold.state]
    if hold.call_was_seen:
        return Denial.CALL_WAS_SEEN
    if hold.lease_expires_at is None:
        return Denial.ATTEMPT_ENDED
    if hold.lease_expires_at <= now:
        return Denial.LEASE_RAN_OUT
    return None if hold.nonce_hash == dispatch.nonce_hash else Denial.ANOTHER_ATTEMPT_RUNS


_WITHOUT_ATTEMPT: Final[Mapping[HoldState, Denial]] = {
    HoldState.RESERVED: Denial.NOT_DISPATCHED,
    HoldState.OUTCOME_UNKNOWN: Denial.OUTCOME_UNKNOWN,
    HoldState.SETTLED: Denial.RESOLVED,
    HoldState.RELEASED: Denial.RESOLVED,
}


def permit(number: int, generation: int, actor: str, dispatch: Dispatch, now: datetime) -> dict[str, Any]:
    """The fields of a hold whose attempt begins now."""
    return {
        "attempt": number,
        "generation": generation,
        "executor": dispatch.executor,
        "dispatcher": actor,
        "nonce_hash": dispatch.nonce_hash,
        "dispatched_at": now,
        "lease_expires_at": now + dispatch.lease,
    }
