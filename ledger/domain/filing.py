"""Parked reports of evidence: kept as JSON until there is a hold, then filed as they were."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from ledger.domain.canonical import digest
from ledger.domain.commands import FileParked, NoCostProof, Resolve, Usage
from ledger.domain.model import Caller
from ledger.domain.money import plain
from ledger.domain.waiting import Parked

# Of a proof that can wait nobody needs the nonce, and nothing keeps one.
_NEVER_KEPT: Final = frozenset({"nonce"})
_WRITE: Final[Mapping[str, Callable[[Any], Any]]] = {
    "buckets": lambda buckets: {bucket: str(quantity) for bucket, quantity in buckets},
    "charged": plain,
    "defects": list,
    "observed_at": datetime.isoformat,
    "payload_digest": bytes.hex,
    "provider_status": str,
}
_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "buckets": lambda buckets: tuple(sorted((bucket, int(quantity)) for bucket, quantity in buckets.items())),
    "charged": Decimal,
    "defects": tuple,
    "observed_at": datetime.fromisoformat,
    "payload_digest": bytes.fromhex,
    "provider_status": int,
}


def identity_of(command: Resolve) -> bytes:
    """Equal for the same report from the same caller, under whatever key. Another role is another report: it may be believed."""
    tenant, actor, role = command.caller
    return digest("parked", 1, {"tenant": tenant, "actor": actor, "role": role.value, "report": command.content()})


def to_document(command: Resolve) -> dict[str, Any]:
    """The whole report but its caller, operation and attempt, as JSON; numbers as strings, what is absent left out."""
    evidence = command.evidence
    said = {f.name: getattr(evidence, f.name) for f in fields(evidence) if f.name not in _NEVER_KEPT}
    kept = {name: _WRITE.get(name, str)(value) for name, value in said.items() if value is not None}
    return {type(evidence).__name__: kept, "accept_overrun_reason": command.accept_overrun_reason}


def filing(parked: Parked, patience: timedelta) -> FileParked:
    """The command that files a report. Its key is the same whoever files it."""
    kind = Usage if Usage.__name__ in parked.report else NoCostProof
    said = {name: _READ.get(name, str)(value) for name, value in parked.report[kind.__name__].items()}
    return FileParked(
        Caller(parked.tenant, parked.actor, parked.role),
        str(parked.evidence_id),
        parked.operation_id,
        kind(**said),
        parked.attempt,
        parked.report["accept_overrun_reason"],
        evidence_id=parked.evidence_id,
        patience=patience,
    )
