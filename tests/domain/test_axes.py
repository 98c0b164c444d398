"""Delivery, execution and settlement are shown side by side, and none is made from another."""

import pytest

from ledger.domain.axes import Axes, Said, axes
from tests.domain.table import run

ORG = "    adm: budget org USD 10 -> ok\n"
SENT = ORG + "    reserve op1 org 6 nonce=n1 lease=10m -> ok send\n"


def shown(table: str) -> Axes:
    world = run(table)
    key = ("t1", "op1")
    in_force = [r for r in world.resolutions if (r.tenant, r.operation_id) == key]
    said = [o for o in world.observations if (o.tenant, o.operation_id) == key]
    evidence = [e for e in world.evidence if (e.tenant, e.operation_id) == key]
    return axes(world.holds[key], said, evidence, in_force[-1] if in_force else None)


def say(said: Said | None) -> str:
    """VALUE by ACTOR through SOURCE at HH:MM of ATTEMPT"""
    if said is None:
        return "none"
    return f"{said.value} by {said.actor} through {said.source} at {said.since:%H:%M} of {said.attempt}"


@pytest.mark.parametrize(
    ("told", "delivery", "execution", "settlement"),
    [
        (
            ORG + "reserve op1 org 6 -> ok",
            "none",
            "none",
            "RESERVED by gw through Reserve at 10:00 of 0",
        ),
        (
            SENT,
            "none",
            "UNKNOWN by gw through BeginDispatch at 10:00 of 1",
            "DISPATCHING by gw through BeginDispatch at 10:00 of 1",
        ),
        (
            ORG + "reserve op1 org 6 -> ok\ncancel op1 -> ok RESERVATION",
            "none",
            "none",
            "RELEASED by gw through NEVER_DISPATCHED at 10:00 of 0",
        ),
        (  # the client has it all, and nobody knows what the provider did
            SENT + "after 1m\ndelivery op1 PARTIAL -> ok\nafter 1m\ndelivery op1 COMPLETE -> ok\nafter 1m\nunknown op1 -> ok",
            "COMPLETE by gw through RecordDelivery at 10:02 of 1",
            "UNKNOWN by gw through MarkOutcomeUnknown at 10:03 of 1",
            "OUTCOME_UNKNOWN by gw through MarkOutcomeUnknown at 10:03 of 1",
        ),
        (  # the client has nothing, and the provider executed and charged
            SENT + "delivery op1 NOTHING -> ok\nafter 1m\ncharge op1 5 -> ok\nafter 1m\nfin: charge op1 5 -> unchanged replayed",
            "NOTHING by gw through RecordDelivery at 10:00 of 1",
            "EXECUTED by gw through PROVIDER_RESPONSE at 10:01 of 1",
            "SETTLED by gw through USAGE at 10:01 of 1",
        ),
        (
            SENT + "after 1m\nreceipt op1 r1 -> ok\nafter 9m\nsys: lapse op1 -> ok",
            "none",
            "ACCEPTED by gw through RecordReceipt at 10:01 of 1",
            "OUTCOME_UNKNOWN by sys through Lapse at 10:10 of 1",
        ),
        (  # usage of this call that cannot settle it shows all the same that it was executed
            SENT + "after 1m\ncharge op1 9 -> EVIDENCE_REJECTED",
            "none",
            "EXECUTED by gw through Resolve at 10:01 of 1",
            "DISPATCHING by gw through BeginDispatch at 10:00 of 1",
        ),
        (  # a gateway's own count establishes nothing, but for the receipt
            SENT + "after 1m\ncharge op1 5 source=GATEWAY_ESTIMATE -> EVIDENCE_REJECTED",
            "none",
            "UNKNOWN by gw through BeginDispatch at 10:00 of 1",
            "DISPATCHING by gw through BeginDispatch at 10:00 of 1",
        ),
        (  # nor does it stand in the way of what does
            SENT + "charge op1 5 source=GATEWAY_ESTIMATE -> EVIDENCE_REJECTED\nafter 1m\ncharge op1 9 -> EVIDENCE_REJECTED",
            "none",
            "EXECUTED by gw through Resolve at 10:01 of 1",
            "DISPATCHING by gw through BeginDispatch at 10:00 of 1",
        ),
        (
            ORG + "reserve op1 org 6 -> ok\ncharge op1 5 source=GATEWAY_ESTIMATE receipt=r1 -> EVIDENCE_REJECTED",
            "none",
            "ACCEPTED by gw through GATEWAY_ESTIMATE at 10:00 of 1",
            "DISPATCHING by  through inferred at 10:00 of 1",
        ),
        (
            SENT + "after 1m\nproof op1 REJECTED_BEFORE_EXECUTION status=429 request=q1 -> ok",
            "none",
            "REJECTED by gw through REJECTED_BEFORE_EXECUTION at 10:01 of 1",
            "SETTLED by gw through NO_COST at 10:01 of 1",
        ),
        (
            SENT + "after 1m\nproof op1 REJECTED_BEFORE_EXECUTION status=500 request=q1 -> EVIDENCE_REJECTED",
            "none",
            "UNKNOWN by gw through BeginDispatch at 10:00 of 1",
            "DISPATCHING by gw through BeginDispatch at 10:00 of 1",
        ),
        (
            SENT + "after 1m\nfailed op1 nonce=n1 -> ok\nafter 9m\nsys: lapse op1 -> ok",
            "none",
            "NOT_SENT by gw through RecordFailedBeforeDispatch at 10:01 of 1",
            "SETTLED by sys through NO_COST at 10:10 of 1",
        ),
        (  # what is known of the first attempt says nothing of the second
            SENT + "failed op1 nonce=n1 -> ok\nafter 2m\ngw2: dispatch op1 nonce=n2 -> ok send",
            "none",
            "UNKNOWN by gw2 through BeginDispatch at 10:02 of 2",
            "DISPATCHING by gw2 through BeginDispatch at 10:02 of 2",
        ),
    ],
)  # fmt: skip
def test_the_three_axes(told: str, delivery: str, execution: str, settlement: str) -> None:
    found = shown(told)
    assert (say(found.delivery), say(found.execution), say(found.settlement)) == (delivery, execution, settlement)


def test_a_report_says_which_adapter_saw_it() -> None:
    found = shown(SENT + "delivery op1 COMPLETE -> ok\ncharge op1 5 observed=09:59 -> ok")
    assert found.delivery is not None
    assert (found.delivery.adapter, found.delivery.adapter_revision) == ("sdk", "7")
    assert found.execution is not None
    assert found.execution.observed_at is not None
    assert f"{found.execution.observed_at:%H:%M}" == "09:59"
