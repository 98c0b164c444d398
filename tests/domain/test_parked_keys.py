"""What the key of a report says that came before its hold."""

from dataclasses import replace
from decimal import Decimal

import pytest

from ledger.domain.batch import StaleRows
from ledger.domain.commands import Resolve, Usage
from ledger.domain.decide import decide
from ledger.domain.model import Caller, Role
from tests.domain.table import run

ORG = "adm: budget org USD 10 -> ok\n"
GATEWAY = Caller("t1", "gw", Role.GATEWAY)
CHARGE = Usage("PROVIDER_RESPONSE", "acme", "", "", "sdk", "7", charged=Decimal(4), charged_currency="USD")


def test_the_same_key_with_other_content_is_a_mismatch_before_and_after_the_reserve() -> None:
    run(
        ORG
        + """
    charge op1 4 key=k1 -> ok parked
    charge op1 5 key=k1 -> IDEMPOTENCY_MISMATCH
    reserve op1 org 6 -> ok
    charge op1 5 key=k1 -> IDEMPOTENCY_MISMATCH
    """
    )


def test_the_key_of_a_report_that_was_parked_says_what_came_of_it() -> None:
    run(
        ORG
        + """
    charge op1 4 receipt=r1 key=k1 -> ok parked
    charge op2 9 key=k2 -> ok parked
    charge op3 1 key=k3 -> ok parked
    charge op3 2 key=k4 -> ok parked
    reserve op1 org 6 -> ok
    reserve op2 org 2 -> ok
    reserve op3 org 2 -> ok
    worker ok EVIDENCE_REJECTED ok RESOLUTION_CONFLICT
    charge op1 4 receipt=r1 key=k1 -> unchanged replayed
    charge op2 9 key=k2 -> EVIDENCE_REJECTED says="amount 9 is above hold 2"
    charge op3 1 key=k3 -> unchanged replayed
    charge op3 2 key=k4 -> RESOLUTION_CONFLICT
    fin: correct op1 charge 5 -> ok
    charge op1 4 receipt=r1 key=k1 -> unchanged replayed superseded
    charge op1 4.5 receipt=r1 key=k1 -> IDEMPOTENCY_MISMATCH
    evidence op1 PARKED AUTHORITATIVE AUTHORITATIVE          # a repeat of a key adds nothing
    """
    )


def test_the_key_of_a_report_that_waits_still_does_not_wait_for_the_worker() -> None:
    run(
        ORG
        + """
    charge op1 4 key=k1 -> ok parked
    reserve op1 org 6 -> ok
    charge op1 4 key=k1 -> ok
    hold op1 SETTLED settled=4
    charge op1 4 key=k1 -> unchanged replayed
    worker again
    evidence op1 PARKED AUTHORITATIVE CORROBORATING
    """
    )


def test_the_key_of_a_report_that_waited_in_vain_is_decided_on_when_the_hold_has_come() -> None:
    run(
        ORG
        + """
    charge op1 4 key=k1 -> ok parked
    after 24h
    worker orphan
    reserve op1 org 6 -> ok
    charge op1 4 key=k1 -> ok
    hold op1 SETTLED settled=4
    """
    )


def test_a_key_of_parked_evidence_is_the_same_report_when_its_actor_has_another_role() -> None:
    world = run(ORG + "charge op1 4 key=k1 -> ok parked")
    again = Resolve(GATEWAY._replace(role=Role.FINANCE), "k1", "op1", CHARGE)
    for end in ("waits op1 1", "after 24h\nworker orphan\nwaits op1 0"):
        run(end, world)
        (outcome,) = world.step(again)
        assert (outcome.parked, outcome.replayed, outcome.applied) == (True, True, False)
    assert outcome.incident_id is not None
    # Under another key it is another report, which may be believed.
    (outcome,) = world.step(replace(again, key="k2"))
    assert outcome.applied


def test_a_key_of_parked_evidence_that_is_neither_there_nor_a_case_is_loaded_again() -> None:
    """Between the look for the hold and the look for what waits the hold came, and the evidence was filed."""
    world = run(ORG + "charge op1 4 key=k1 -> ok parked")
    world.parked.clear()
    with pytest.raises(StaleRows):
        decide(world.load([again := Resolve(GATEWAY, "k1", "op1", CHARGE)]), [again])
