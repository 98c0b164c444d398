"""What can be asked and said of the attempts of a hold."""

import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar

from ledger.domain.keyed import OnHold
from ledger.domain.model import Delivery


def hash_of(nonce: str) -> bytes:
    return hashlib.sha256(nonce.encode()).digest()


@dataclass(frozen=True, slots=True)
class _OfAnAttempt(OnHold):
    """From the process that was given the permission to send. The nonce is no part of the content, as in Dispatch."""

    nonce: str = field(repr=False)

    @property
    def nonce_hash(self) -> bytes:
        return hash_of(self.nonce)


@dataclass(frozen=True, slots=True)
class Heartbeat(_OfAnAttempt):
    """Say that the attempt still runs, and may run so long from now.

    It leaves no receipt, and its key is of no consequence: twice is the same as once, and a stored answer would be of the past.
    """

    NAME: ClassVar[str] = "Heartbeat"

    lease: timedelta

    def content(self) -> dict[str, Any]:
        return {"operation": self.operation_id, "lease": str(self.lease)}


@dataclass(frozen=True, slots=True)
class RecordFailedBeforeDispatch(_OfAnAttempt):
    """Say that the attempt failed before anything was sent. `attempt` 0 is the latest."""

    NAME: ClassVar[str] = "RecordFailedBeforeDispatch"

    cause: str
    adapter: str
    adapter_revision: str
    attempt: int = 0
    observed_at: datetime | None = None

    def content(self) -> dict[str, Any]:
        return {"operation": self.operation_id, "attempt": str(self.attempt), "cause": self.cause}


@dataclass(frozen=True, slots=True)
class Cancel(OnHold):
    """Take the permission to send away: before the dispatch with the money, after it without."""

    NAME: ClassVar[str] = "Cancel"

    reason: str

    def content(self) -> dict[str, Any]:
        return {"operation": self.operation_id, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class RecordReceipt(OnHold):
    """Bind the provider's id of the accepted call to the attempt. `attempt` 0 is the latest."""

    NAME: ClassVar[str] = "RecordReceipt"

    provider: str
    provider_receipt: str
    attempt: int = 0
    adapter: str = ""
    adapter_revision: str = ""
    observed_at: datetime | None = None

    def content(self) -> dict[str, Any]:
        return {
            "operation": self.operation_id,
            "attempt": str(self.attempt),
            "provider": self.provider,
            "receipt": self.provider_receipt,
        }

    @property
    def receipt_bound(self) -> tuple[str, str, str]:
        """(tenant, provider, receipt): what at most one operation may have."""
        return (self.caller.tenant, self.provider, self.provider_receipt)


@dataclass(frozen=True, slots=True)
class RecordDelivery(OnHold):
    """Say what the client received. `attempt` 0 is the latest."""

    NAME: ClassVar[str] = "RecordDelivery"

    delivery: Delivery
    attempt: int = 0
    adapter: str = ""
    adapter_revision: str = ""
    observed_at: datetime | None = None

    def content(self) -> dict[str, Any]:
        return {"operation": self.operation_id, "attempt": str(self.attempt), "delivery": self.delivery.value}
