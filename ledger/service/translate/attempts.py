"""Requests about the attempts of a hold, to commands."""

from ledger.domain.attempt_commands import Cancel, Heartbeat, RecordDelivery, RecordFailedBeforeDispatch, RecordReceipt
from ledger.domain.model import Caller
from ledger.service.translate.fields import (
    LEAST_NONCE,
    MAX_INT32,
    identifier,
    lease,
    named,
    number,
    observed,
    text,
)
from ledger.service.translate.standings import DELIVERY_NUMBERS
from ledger.v1 import hold_pb2 as pb

CAUSES = {int(number): name.removeprefix("NEVER_SENT_CAUSE_") for name, number in pb.NeverSentCause.items() if number}
DELIVERIES = {int(number): delivery for delivery, number in DELIVERY_NUMBERS.items()}


def heartbeat(request: pb.HeartbeatRequest, caller: Caller) -> Heartbeat:
    operation_id = identifier(request.operation_id, "operation_id")
    # It has no key of its own: one heartbeat of a hold at a time is as good as many.
    return Heartbeat(
        caller,
        operation_id,
        operation_id,
        text(request.nonce, "nonce", least=LEAST_NONCE),
        lease(request, "lease"),
    )


def record_failed_before_dispatch(
    request: pb.RecordFailedBeforeDispatchRequest, caller: Caller
) -> RecordFailedBeforeDispatch:
    return RecordFailedBeforeDispatch(
        caller,
        identifier(request.idempotency_key, "idempotency_key"),
        identifier(request.operation_id, "operation_id"),
        text(request.nonce, "nonce", least=LEAST_NONCE),
        named(request.cause, "cause", CAUSES),
        text(request.adapter, "adapter"),
        text(request.adapter_revision, "adapter_revision"),
        number(request.attempt, "attempt", 0, MAX_INT32),
        observed(request),
    )


def cancel(request: pb.CancelRequest, caller: Caller) -> Cancel:
    return Cancel(
        caller,
        identifier(request.idempotency_key, "idempotency_key"),
        identifier(request.operation_id, "operation_id"),
        text(request.reason, "reason"),
    )


def record_receipt(request: pb.RecordReceiptRequest, caller: Caller) -> RecordReceipt:
    return RecordReceipt(
        caller,
        identifier(request.idempotency_key, "idempotency_key"),
        identifier(request.operation_id, "operation_id"),
        identifier(request.provider, "provider"),
        identifier(request.provider_receipt, "provider_receipt"),
        number(request.attempt, "attempt", 0, MAX_INT32),
        text(request.adapter, "adapter"),
        text(request.adapter_revision, "adapter_revision"),
        observed(request),
    )


def record_delivery(request: pb.RecordDeliveryRequest, caller: Caller) -> RecordDelivery:
    return RecordDelivery(
        caller,
        identifier(request.idempotency_key, "idempotency_key"),
        identifier(request.operation_id, "operation_id"),
        named(request.delivery, "delivery", DELIVERIES),
        number(request.attempt, "attempt", 0, MAX_INT32),
        text(request.adapter, "adapter"),
        text(request.adapter_revision, "adapter_revision"),
        observed(request),
    )
