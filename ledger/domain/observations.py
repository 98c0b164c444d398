"""What was said of a call, kept beside its settlement."""

from collections.abc import Mapping

from ledger.domain.attempt_commands import RecordDelivery, RecordFailedBeforeDispatch, RecordReceipt
from ledger.domain.commands import Correct, HoldCommand, Resolve
from ledger.domain.model import Axis, Observation
from ledger.domain.work import Work

_REPORTS = (RecordDelivery, RecordFailedBeforeDispatch, RecordReceipt)


def observe(
    work: Work,
    command: HoldCommand,
    axis: Axis,
    value: str,
    attempt: int,
    detail: Mapping[str, str] | None = None,
    provider: str | None = None,
    provider_receipt: str | None = None,
) -> None:
    """Keeps what a command says of the call; of a report also which adapter saw it, and when."""
    report = (
        command.evidence
        if isinstance(command, (Resolve, Correct))
        else command
        if isinstance(command, _REPORTS)
        else None
    )
    tenant, operation_id = command.hold_key
    work.decision.observations.append(
        Observation(
            tenant=tenant,
            operation_id=operation_id,
            observation_id=work.loaded.new_id(),
            axis=axis,
            value=value,
            attempt=attempt,
            source=command.NAME,
            actor=command.caller.actor,
            adapter="" if report is None else report.adapter,
            adapter_revision="" if report is None else report.adapter_revision,
            observed_at=None if report is None else report.observed_at,
            received_at=work.now,
            provider=provider,
            provider_receipt=provider_receipt,
            detail=dict(detail or {}),
        )
    )
