"""The invocation log: what was asked, and what came of it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID


class Receipt(NamedTuple):
    """What one idempotency key did: the invocation log. `outcome` is OK or the reason of a remembered refusal."""

    tenant: str
    actor: str
    command: str
    key: str
    fingerprint: bytes
    fingerprint_version: int
    resource: str
    outcome: str
    refusal: Mapping[str, Any] | None
    state: str | None
    recorded_at: datetime


class RefusedCommand(NamedTuple):
    """A refusal that claimed no key: the rest of the invocation log. `state` is the hold's, if there is one."""

    tenant: str
    refused_id: UUID
    actor: str
    command: str
    key: str
    fingerprint: bytes
    resource: str
    reason: str
    state: str | None
    recorded_at: datetime
