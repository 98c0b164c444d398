"""Commands on holds, each with its idempotency key: the caller's, or the one derived from it (see `ledger.client.keys`)."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from ledger.client.keys import permission_key, report_key
from ledger.client.messages import Evidence, span
from ledger.v1 import hold_pb2 as pb


class Request(Protocol):
    """What a command carries. All but a heartbeat have an `idempotency_key`, too."""

    operation_id: str


def reserve_request(
    operation_id: str,
    budgets: Sequence[str],
    quote: pb.QuoteSpec,
    *,
    key: str | None,
    ttl: timedelta | None,
    exclusive_key: str,
    request_group: str,
    labels: Mapping[str, str] | None,
) -> pb.ReserveRequest:
    return pb.ReserveRequest(
        idempotency_key=key or permission_key(operation_id, "reserve"),
        operation_id=operation_id,
        budget_ids=budgets,
        quote=quote,
        ttl=None if ttl is None else span(ttl),
        exclusive_key=exclusive_key,
        request_group=request_group,
        labels=labels,
    )


def begin_command(operation_id: str, dispatch: pb.Dispatch, *, attempt: int = 1, key: str | None = None) -> pb.Command:
    """The permission for each attempt is one of its own, and has a key of its own."""
    name = "dispatch" if attempt == 1 else f"dispatch/{attempt}"
    request = pb.BeginDispatchRequest(
        idempotency_key=key or permission_key(operation_id, name), operation_id=operation_id, dispatch=dispatch
    )
    return pb.Command(begin_dispatch=request)


def resolve_command(
    operation_id: str,
    evidence: Evidence,
    *,
    attempt: int = 0,
    accept_overrun_reason: str = "",
    key: str | None = None,
) -> pb.Command:
    request = pb.ResolveRequest(operation_id=operation_id, attempt=attempt, accept_overrun_reason=accept_overrun_reason)
    if isinstance(evidence, pb.UsageEvidence):
        request.usage.CopyFrom(evidence)
    else:
        request.no_cost.CopyFrom(evidence)
    request.idempotency_key = key or report_key(operation_id, "resolve", request)
    return pb.Command(resolve=request)


def unknown_command(operation_id: str, observation: str, *, key: str | None = None) -> pb.Command:
    request = pb.MarkOutcomeUnknownRequest(operation_id=operation_id, observation=observation)
    request.idempotency_key = key or report_key(operation_id, "unknown", request)
    return pb.Command(mark_outcome_unknown=request)


def failed_command(
    operation_id: str,
    nonce: str,
    cause: pb.NeverSentCause.ValueType,
    *,
    attempt: int,
    adapter: str = "",
    adapter_revision: str = "",
    key: str | None = None,
) -> pb.Command:
    request = pb.RecordFailedBeforeDispatchRequest(
        operation_id=operation_id,
        attempt=attempt,
        nonce=nonce,
        cause=cause,
        adapter=adapter,
        adapter_revision=adapter_revision,
    )
    request.idempotency_key = key or report_key(operation_id, "failed", request)
    return pb.Command(record_failed_before_dispatch=request)


def receipt_command(
    operation_id: str,
    provider: str,
    receipt: str,
    *,
    attempt: int = 0,
    adapter: str = "",
    adapter_revision: str = "",
    key: str | None = None,
) -> pb.Command:
    request = pb.RecordReceiptRequest(
        operation_id=operation_id,
        provider=provider,
        provider_receipt=receipt,
        attempt=attempt,
        adapter=adapter,
        adapter_revision=adapter_revision,
    )
    request.idempotency_key = key or report_key(operation_id, "receipt", request)
    return pb.Command(record_receipt=request)


def delivery_command(
    operation_id: str,
    delivery: pb.Delivery.ValueType,
    *,
    attempt: int = 0,
    adapter: str = "",
    adapter_revision: str = "",
    key: str | None = None,
) -> pb.Command:
    request = pb.RecordDeliveryRequest(
        operation_id=operation_id,
        delivery=delivery,
        attempt=attempt,
        adapter=adapter,
        adapter_revision=adapter_revision,
    )
    request.idempotency_key = key or report_key(operation_id, "delivery", request)
    return pb.Command(record_delivery=request)


def cancel_command(operation_id: str, reason: str, *, key: str | None = None) -> pb.Command:
    request = pb.CancelRequest(operation_id=operation_id, reason=reason)
    request.idempotency_key = key or report_key(operation_id, "cancel", request)
    return pb.Command(cancel=request)


def correct_command(
    operation_id: str,
    evidence: Evidence,
    digest_in_force: str,
    reason: str,
    *,
    attempt: int = 0,
    accept_overrun_reason: str = "",
    key: str | None = None,
) -> pb.Command:
    request = pb.CorrectRequest(
        operation_id=operation_id,
        digest_in_force=digest_in_force,
        reason=reason,
        attempt=attempt,
        accept_overrun_reason=accept_overrun_reason,
    )
    if isinstance(evidence, pb.UsageEvidence):
        request.usage.CopyFrom(evidence)
    else:
        request.no_cost.CopyFrom(evidence)
    request.idempotency_key = key or report_key(operation_id, "correct", request)
    return pb.Command(correct=request)


def release_command(operation_id: str, *, key: str | None = None) -> pb.Command:
    request = pb.ReleaseRequest(
        idempotency_key=key or permission_key(operation_id, "release"), operation_id=operation_id
    )
    return pb.Command(release=request)


def request_of(command: pb.Command) -> Request:
    """The request that a command carries. Raises ValueError if it carries none."""
    name = command.WhichOneof("command")
    if name is None:
        raise ValueError("the command has no request")
    request: Request = getattr(command, name)
    return request
