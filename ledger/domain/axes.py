"""Delivery, execution and settlement of a call: three things that are known apart, and of which none says another.

Delivery is what the client received, as its gateway said last. Execution is what is established of the call at the provider, by
evidence, receipts and records. Settlement is the state of the hold.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from ledger.domain.model import Axis, Classification, Evidence, Execution, Hold, Observation, Resolution
from ledger.domain.states import TERMINAL, HoldState, ResolutionKind


class Said(NamedTuple):
    """A value on an axis: since when it is known here, who said so, and by which command or source of evidence."""

    value: str
    since: datetime
    actor: str
    source: str
    attempt: int
    adapter: str = ""
    adapter_revision: str = ""
    observed_at: datetime | None = None


class Axes(NamedTuple):
    """`delivery` is None if nobody said anything of it, `execution` if no attempt is recorded."""

    delivery: Said | None
    execution: Said | None
    settlement: Said


def axes(
    hold: Hold, observations: Sequence[Observation], evidence: Iterable[Evidence], in_force: Resolution | None
) -> Axes:
    """The three axes of a hold. `observations` and `evidence` are the hold's, in the order in which they came; `in_force` is its
    resolution, if it is terminal."""
    deliveries = [_observed(o) for o in observations if o.axis == Axis.DELIVERY]
    said = [_observed(o) for o in observations if o.axis == Axis.EXECUTION]
    established = [_brought(value, e) for e in evidence if (value := _established(hold, e)) is not None]
    return Axes(
        delivery=deliveries[-1] if deliveries else None,
        execution=_execution(hold, said + established) if hold.attempt else None,
        settlement=_settlement(hold, said, in_force),
    )


def _execution(hold: Hold, said: Sequence[Said]) -> Said:
    """What shows the most: that it was executed, or else accepted, whichever attempt it was. Of the latest attempt, that it was
    refused or not sent; else nobody knows."""
    for value in (Execution.EXECUTED, Execution.ACCEPTED, Execution.REJECTED, Execution.NOT_SENT, Execution.UNKNOWN):
        of_any = value in (Execution.EXECUTED, Execution.ACCEPTED)
        found = [one for one in said if one.value == value and (of_any or one.attempt == hold.attempt)]
        if found:
            return min(found, key=lambda one: one.since)
    return _dispatched(hold, Execution.UNKNOWN)


def _established(hold: Hold, evidence: Evidence) -> Execution | None:
    """What evidence establishes of the execution. A gateway's own count establishes nothing, nor does what was rejected, but for
    the receipt that it brought; usage that was rejected though it is of this call has an observation of its own. What was parked
    is evidence once more when it is filed."""
    if evidence.classification is Classification.PARKED:
        return None
    settled = evidence.classification not in (Classification.REJECTED, Classification.ESTIMATE)
    if evidence.kind is ResolutionKind.USAGE:
        if settled:
            return Execution.EXECUTED
        brought = evidence.provider_receipt is not None and evidence.provider_receipt == hold.provider_receipt
        return Execution.ACCEPTED if brought else None
    if evidence.classification not in (Classification.AUTHORITATIVE, Classification.CORROBORATING):
        return None
    return Execution.REJECTED if evidence.source == "REJECTED_BEFORE_EXECUTION" else Execution.NOT_SENT


def _settlement(hold: Hold, said: Sequence[Said], in_force: Resolution | None) -> Said:
    if hold.state in TERMINAL:
        assert in_force is not None, "a terminal hold has a resolution"
        return Said(hold.state, in_force.recorded_at, in_force.actor, in_force.kind, hold.attempt)
    if hold.state is HoldState.OUTCOME_UNKNOWN:
        # Written with the change of state.
        told = next(one for one in reversed(said) if one.value == Execution.UNKNOWN)
        return told._replace(value=hold.state)
    if hold.state is HoldState.RESERVED:
        return Said(hold.state, hold.created_at, hold.actor, "Reserve", 0)
    return _dispatched(hold, hold.state)


def _dispatched(hold: Hold, value: str) -> Said:
    assert hold.dispatched_at is not None, "an attempt has a time"
    source = "inferred" if hold.inferred else "BeginDispatch"
    return Said(value, hold.dispatched_at, hold.dispatcher or "", source, hold.attempt)


def _observed(seen: Observation) -> Said:
    return Said(
        seen.value, seen.received_at, seen.actor, seen.source, seen.attempt, seen.adapter, seen.adapter_revision,
        seen.observed_at,
    )  # fmt: skip


def _brought(value: Execution, evidence: Evidence) -> Said:
    return Said(
        value, evidence.received_at, evidence.actor, evidence.source, evidence.attempt, evidence.adapter,
        evidence.adapter_revision, evidence.observed_at,
    )  # fmt: skip
