"""The rows of evidence that came before its hold."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from ledger.domain.model import Role
from ledger.domain.states import ResolutionKind


class Parked(NamedTuple):
    """Evidence that waits for its hold: what it takes to file its report again. A place in a queue, not a record.

    `report` is read by `ledger.domain.filing`, which also gives its `identity`: the same for the same report from the same
    caller. `role` and `actor` are the caller's.
    """

    tenant: str
    operation_id: str
    evidence_id: UUID
    identity: bytes
    kind: ResolutionKind
    source: str
    actor: str
    role: Role
    attempt: int
    report: Mapping[str, Any]
    parked_at: datetime


class Sign(NamedTuple):
    """A sign that the call of an operation was made, from before there was a hold: `at` the latest.

    Either it still waits, by its `identity`, or it waited in vain and is a case, by its `incident_id`.
    """

    tenant: str
    operation_id: str
    identity: bytes | None
    incident_id: UUID | None
    kind: str
    at: datetime
