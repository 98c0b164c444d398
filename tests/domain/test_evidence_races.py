"""A report and the reserve of its operation that commit at the same moment: neither sees the other."""

from decimal import Decimal

import pytest

from ledger.domain.commands import Resolve, Usage
from ledger.domain.decide import decide
from ledger.domain.model import Caller, Role
from tests.domain.table import run
from tests.domain.world import World

ORG = "adm: budget org USD 10 -> ok\n"
GATEWAY = Caller("t1", "gw", Role.GATEWAY)


def race(*lines: str) -> World:
    """A report is parked at the very moment at which its operation is reserved: neither sees the other."""
    world = run(ORG)
    report = Resolve(GATEWAY, "k1", "op1", _charge())
    seen = world.load([report])
    run("\n".join(lines), world)
    decision = decide(seen, [report])
    assert decision.outcomes[0].parked
    world._apply(decision)
    return world


def test_a_reserve_that_did_not_see_the_evidence_is_caught_up_with() -> None:
    run(
        """
    waits op1 1
    hold op1 RESERVED
    release op1 -> HOLD_STATE says="is being filed"
    after 15m
    sys: lapse op1 -> unchanged
    worker ok
    hold op1 SETTLED settled=4 inferred=yes
    balance org available=6 spent=4
    """,
        race("reserve op1 org 6 -> ok"),
    )
    run(
        """
    worker ok
    hold op1 SETTLED settled=4 inferred=no
    """,
        race("reserve op1 org 6 nonce=n1 -> ok send"),
    )


def test_a_dispatch_after_the_race_gets_no_permission() -> None:
    run(
        """
    dispatch op1 nonce=n1 -> unchanged CALL_WAS_SEEN
    hold op1 RESERVED
    worker ok
    hold op1 SETTLED settled=4 attempt=1 inferred=yes
    """,
        race("reserve op1 org 6 -> ok"),
    )


@pytest.mark.parametrize(
    ("given", "again"),
    [
        ("reserve op1 org 6 nonce=n1 key=k -> ok send", "reserve op1 org 6 nonce=n1 key=k -> unchanged replayed"),
        ("reserve op1 org 6 nonce=n1 -> ok send", "reserve op1 org 6 nonce=n1 key=other -> unchanged matched"),
        ("reserve op1 org 6 nonce=n1 -> ok send", "dispatch op1 nonce=n1 -> unchanged"),
    ],
)
def test_a_permission_whose_answer_was_lost_is_not_repeated_past_the_evidence(given: str, again: str) -> None:
    """Whoever asks again does not know that he may send, and evidence of the call was acknowledged since."""
    run(
        f"""
    {again} CALL_WAS_SEEN
    worker ok
    hold op1 SETTLED inferred=no
    """,
        race(given),
    )


def test_a_cancel_frees_nothing_past_the_evidence() -> None:
    run(
        """
    cancel op1 -> HOLD_STATE says="is being filed"
    worker ok
    hold op1 SETTLED settled=4
    """,
        race("reserve op1 org 6 -> ok"),
    )
    # An attempt that is said not to have been sent, against evidence that it was.
    run(
        """
    dispatch op1 nonce=n2 -> unchanged CALL_WAS_SEEN
    cancel op1 -> ok PERMISSION_TO_SEND
    hold op1 OUTCOME_UNKNOWN
    worker ok
    hold op1 SETTLED settled=4
    balance org available=6 unknown=0 spent=4
    """,
        race("reserve op1 org 6 nonce=n1 -> ok send", "failed op1 nonce=n1 -> ok"),
    )


def test_a_proof_frees_nothing_past_the_evidence() -> None:
    run(
        """
    proof op1 NEVER_SENT cause=DNS_FAILURE nonce=n1 -> EVIDENCE_REJECTED says="ruled out by the usage"
    fin: proof op1 GATEWAY_CACHE_HIT -> EVIDENCE_REJECTED says="ruled out by the usage"
    proof op1 REJECTED_BEFORE_EXECUTION status=429 request=q1 -> EVIDENCE_REJECTED says="needs a finance actor"
    hold op1 DISPATCHING usage_seen=no
    balance org available=4 held=6
    worker ok
    hold op1 SETTLED settled=4
    """,
        race("reserve op1 org 6 nonce=n1 -> ok send"),
    )


def test_what_ended_before_it_was_seen_is_a_conflict() -> None:
    run(
        """
    hold op1 RELEASED
    worker RESOLUTION_CONFLICT
    waits op1 0
    incidents op1 RESOLUTION_CONFLICT amount=4
    """,
        race("reserve op1 org 6 -> ok", "release op1 -> ok"),
    )


def _charge() -> Usage:
    return Usage("WEBHOOK", "acme", "", "", "sdk", "7", charged=Decimal(4), charged_currency="USD")
