"""Why a command is refused. A refusal is a value, not an exception.

The names are those of the contract's ErrorReason; the service gives each its gRPC status and its public sentence.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Reason(StrEnum):
    INVALID_FIELD = "INVALID_FIELD"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    ROLE_NOT_ALLOWED = "ROLE_NOT_ALLOWED"
    NOT_FOUND = "NOT_FOUND"
    INSUFFICIENT_BUDGET = "INSUFFICIENT_BUDGET"
    HOLD_STATE = "HOLD_STATE"
    EVIDENCE_NOT_PARKED = "EVIDENCE_NOT_PARKED"
    EVIDENCE_REJECTED = "EVIDENCE_REJECTED"
    RESOLUTION_CONFLICT = "RESOLUTION_CONFLICT"
    DIGEST_NOT_IN_FORCE = "DIGEST_NOT_IN_FORCE"
    UNQUOTABLE = "UNQUOTABLE"
    BUDGET_CLOSED = "BUDGET_CLOSED"
    QUOTE_EXPIRED = "QUOTE_EXPIRED"
    CURRENCY_MISMATCH = "CURRENCY_MISMATCH"
    IDEMPOTENCY_MISMATCH = "IDEMPOTENCY_MISMATCH"
    OPERATION_EXISTS = "OPERATION_EXISTS"
    EXCLUSIVE_HOLD = "EXCLUSIVE_HOLD"
    RESOURCE_EXISTS = "RESOURCE_EXISTS"
    THROTTLED = "THROTTLED"
    CONTENTION = "CONTENTION"
    UNKNOWN_WRITE_OUTCOME = "UNKNOWN_WRITE_OUTCOME"
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
    DEADLINE_PASSED = "DEADLINE_PASSED"
    INTERNAL = "INTERNAL"
    HOLD_TOO_LARGE = "HOLD_TOO_LARGE"
    TOO_MANY_HOLDS = "TOO_MANY_HOLDS"
    ATTEMPT_NOT_CURRENT = "ATTEMPT_NOT_CURRENT"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason, a sentence for people that says what to do next, and facts for programs (all strings)."""

    reason: Reason
    message: str
    metadata: Mapping[str, str] = field(default_factory=dict)
