"""Read-back: the row decides, a wrong claim opens one case, and the log has what was refused."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from ledger.domain.claims import Claim, Difference, differences
from ledger.domain.commands import VerifyWrite
from ledger.domain.model import Caller, Role
from tests.domain.table import run

AUDITOR = Caller("t1", "eve", Role.AUDITOR)
SETTLED = """
    adm: budget org USD 10 -> ok
    adm: budget team USD unlimited under=org -> ok
    reserve op1 team,org 6 nonce=n1 key=k1 -> ok send
    charge op1 5 receipt=r1 -> ok
    reserve op2 org 1 key=k2 -> ok
    reserve op3 org 100 key=k3 -> INSUFFICIENT_BUDGET
"""


def test_a_true_claim_opens_no_case() -> None:
    world = run(SETTLED)
    digest = world.holds[("t1", "op1")].resolution_digest
    assert digest is not None
    run(
        f"""
    claim op1 state=SETTLED amount=6 settled=5 budgets=org,team receipt=r1 operation=op1 digest={digest.hex()} -> unchanged
    claim op2 state=RESERVED amount=1.0 -> unchanged
    claim op2 -> unchanged
    """,
        world,
    )
    assert world.incidents == []


def test_a_wrong_claim_is_one_case_whoever_repeats_it() -> None:
    world = run(
        SETTLED
        + """
    claim op1 amount=6 settled=6 -> unchanged incident
    claim op1 amount=6 settled=6 -> unchanged incident
    fin: claim op1 settled=6 -> unchanged incident
    claim op1 settled=7 -> unchanged incident
    claim op2 settled=0 -> unchanged incident           # not settled is not settled at 0
    """
    )
    assert [incident.kind for incident in world.incidents] == ["WRITE_MISMATCH"] * 3
    assert world.incidents[0].detail == {"claimed_settled": "6 USD", "actual_settled": "5 USD", "actor": "gw"}
    assert world.incidents[2].detail["actual_settled"] == "nothing"


@pytest.mark.parametrize(
    ("claim", "actual"),
    [
        ({"state": "RESERVED"}, "SETTLED"),
        ({"amount": (Decimal(6), "EUR")}, "6 USD"),
        ({"settled": (Decimal("5.000001"), "USD")}, "5 USD"),
        ({"budget_ids": frozenset({"team"})}, "org, team"),
        ({"digest": b"\1" * 32}, None),
        ({"provider_receipt": "r2"}, "r1"),
        ({"operation_id": "op2"}, "op1"),
        ({"outcome": "OK"}, "nothing"),
    ],
)
def test_each_field_is_compared(claim: dict[str, Any], actual: str | None) -> None:
    world = run(SETTLED)
    hold = world.holds[("t1", "op1")]
    assert hold.resolution_digest is not None
    ((field, _, found),) = differences(Claim(**claim), hold, None)
    assert field == next(iter(claim))
    assert found == (actual or hold.resolution_digest.hex())


def test_without_a_hold_everything_claimed_is_wrong_but_the_outcome_of_the_key() -> None:
    world = run(SETTLED)
    refused = world.receipts[("t1", "gw", "Reserve", "k3")]
    claim = Claim(outcome="INSUFFICIENT_BUDGET", state="RESERVED", amount=(Decimal(100), "USD"))
    assert differences(claim, None, refused) == (
        Difference("state", "RESERVED", "nothing"),
        Difference("amount", "100 USD", "nothing"),
    )
    (outcome,) = world.step(VerifyWrite(AUDITOR, "v", "op3", Claim(outcome="OK"), refused))
    assert outcome.incident_id is not None
    assert world.incidents[0].detail["actual_outcome"] == "INSUFFICIENT_BUDGET"
    assert not [key for key in world.receipts if key[2] == "VerifyWrite"], "it claims no key"


def test_a_key_about_a_budget_says_nothing_of_an_operation_with_the_same_name() -> None:
    world = run(SETTLED + "    reserve org team 2 key=k9 -> ok\n")
    made = world.receipts[("t1", "adm", "CreateBudget", next(k[3] for k in world.receipts if k[2] == "CreateBudget"))]
    assert made.resource == "org"
    (true,) = world.step(VerifyWrite(AUDITOR, "v", "org", Claim(outcome="OK"), made))
    (wrong,) = world.step(VerifyWrite(AUDITOR, "w", "org", Claim(state="RESERVED"), made))
    assert (true.hold, true.incident_id, wrong.hold) == (None, None, None)
    assert world.incidents[0].detail == {"claimed_state": "RESERVED", "actual_state": "nothing", "actor": "eve"}


def test_what_is_refused_and_not_remembered_is_in_the_log_with_the_state_that_was_found() -> None:
    world = run(
        SETTLED
        + """
    release op1 key=late -> HOLD_STATE
    release nowhere key=lost -> NOT_FOUND
    reserve op2 org 2 key=k1 -> IDEMPOTENCY_MISMATCH
    reserve op3 org 100 key=k3 -> INSUFFICIENT_BUDGET replayed    # the receipt stands for its repeats
    reserve op5 org 1 key=k5 -> ok
    charge op5 2 key=k6 -> EVIDENCE_REJECTED                     # and it becomes DISPATCHING by inference
    """
    )
    assert [(r.command, r.key, r.resource, r.reason, r.state) for r in world.refused] == [
        ("Release", "late", "op1", "HOLD_STATE", "SETTLED"),
        ("Release", "lost", "nowhere", "NOT_FOUND", None),
        ("Reserve", "k1", "op2", "IDEMPOTENCY_MISMATCH", "RESERVED"),
        ("Resolve", "k6", "op5", "EVIDENCE_REJECTED", "DISPATCHING"),
    ]
    assert len({r.refused_id for r in world.refused}) == 4


def test_a_budget_that_is_refused_has_no_state() -> None:
    world = run("adm: budget org USD 10 under=none -> NOT_FOUND")
    assert [(r.command, r.resource, r.state) for r in world.refused] == [("CreateBudget", "org", None)]


def test_a_claim_is_told_apart_by_its_content() -> None:
    one = VerifyWrite(AUDITOR, "v", "op1", Claim(state="SETTLED"))
    assert one.fingerprint != replace(one, claim=Claim(state="RESERVED")).fingerprint
