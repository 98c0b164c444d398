"""How a hold stands, axis by axis, and what happened to it, to the contract's messages."""

from typing import Final

from ledger.domain.axes import Axes, Said
from ledger.domain.model import Delivery, Execution
from ledger.domain.states import HoldState
from ledger.service.translate.answers import write_money, write_time
from ledger.service.translate.fields import STATE_NUMBERS
from ledger.store.read import HoldEvent
from ledger.v1 import hold_pb2 as pb

DELIVERY_NUMBERS: Final = {value: pb.Delivery.Value(f"DELIVERY_{value}") for value in Delivery}
EXECUTION_NUMBERS: Final = {value: pb.Execution.Value(f"EXECUTION_{value}") for value in Execution}


def write_axes(message: pb.Hold, axes: Axes) -> None:
    if axes.delivery is not None:
        message.delivery.value = DELIVERY_NUMBERS[Delivery(axes.delivery.value)]
        _write_provenance(message.delivery.provenance, axes.delivery)
    if axes.execution is not None:
        message.execution.value = EXECUTION_NUMBERS[Execution(axes.execution.value)]
        _write_provenance(message.execution.provenance, axes.execution)
    message.settlement.value = STATE_NUMBERS[HoldState(axes.settlement.value)]
    _write_provenance(message.settlement.provenance, axes.settlement)


def _write_provenance(message: pb.Provenance, said: Said) -> None:
    write_time(message.since, said.since)
    message.actor = said.actor
    message.source = said.source
    message.adapter = said.adapter
    message.adapter_revision = said.adapter_revision
    message.attempt = said.attempt
    if said.observed_at is not None:
        write_time(message.observe_time, said.observed_at)


def write_event(message: pb.HoldEvent, event: HoldEvent) -> None:
    write_time(message.record_time, event.at)
    message.kind = pb.HoldEventKind.Value(f"HOLD_EVENT_KIND_{event.kind}")
    message.what = event.what
    message.actor = event.actor
    message.attempt = event.attempt
    message.event_id = event.event_id
    message.detail.update(event.detail)
    if event.amount is not None and event.currency is not None:
        write_money(message.amount, event.amount, event.currency)
    if event.observed_at is not None:
        write_time(message.observe_time, event.observed_at)
