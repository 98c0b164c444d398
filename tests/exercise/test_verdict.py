"""The verdict, without processes: what was seen is held against what was worked out, and against what may never be."""

from dataclasses import replace
from decimal import Decimal

import pytest

from ledger.exercise.boundaries import Boundary, Modes, Style
from ledger.exercise.cases import COST, SET_ASIDE, Case, Expected, Outcome
from ledger.exercise.kills import faults_after_kills
from ledger.exercise.verdict import Seen, SeenHold, judge, outcome_of

SETTLED = SeenHold("op", "SETTLED", SET_ASIDE, dispatched=True, age=1.0, settled=COST)
UNKNOWN = replace(SETTLED, state="OUTCOME_UNKNOWN", settled=None)
RELEASED = replace(UNKNOWN, state="RELEASED", dispatched=False)
FREE = replace(SETTLED, settled=Decimal(0))
ONCE = Seen(True, (), 1, 0, 0, (SETTLED,), ("RESERVE", "SETTLE"), COST, ())
GUARDED = Case(Boundary.AFTER_ACCEPTANCE, Style.GUARDED, True, Modes(), Expected(Outcome.ONCE, 1, ("SETTLED 0.012",)))


def test_what_is_as_it_must_be_has_no_faults() -> None:
    assert judge(GUARDED, ONCE).faults == ()
    assert judge(GUARDED, ONCE).outcome is Outcome.ONCE


@pytest.mark.parametrize(
    ("accepted", "holds", "incidents", "outcome"),
    [
        (0, (RELEASED,), (), Outcome.NOT_CHARGED),
        (0, (FREE,), (), Outcome.NOT_CHARGED),
        (0, (UNKNOWN,), (), Outcome.UNKNOWN),
        (1, (UNKNOWN,), (), Outcome.UNKNOWN),
        (1, (RELEASED, SETTLED), (), Outcome.ONCE),
        (1, (RELEASED,), (), Outcome.UNSEEN),
        (1, (FREE,), (), Outcome.UNSEEN),
        (2, (SETTLED,), (), Outcome.UNSEEN),
        (2, (SETTLED,), ("DOUBLE_ACCEPTANCE",), Outcome.TWICE_AND_A_CASE),
        (3, (SETTLED,), ("DOUBLE_ACCEPTANCE",), Outcome.UNSEEN),
        (2, (SETTLED, SETTLED), (), Outcome.TWICE_AND_BOOKED),
    ],
)
def test_the_outcome_is_what_was_charged_and_whether_the_books_say_so(
    accepted: int, holds: tuple[SeenHold, ...], incidents: tuple[str, ...], outcome: Outcome
) -> None:
    assert outcome_of(replace(ONCE, accepted=accepted, holds=holds, incidents=incidents)) is outcome


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (replace(ONCE, accepted=2, incidents=("DOUBLE_ACCEPTANCE",)), "a guarded call was accepted 2 times"),
        (
            replace(ONCE, holds=(replace(SETTLED, state="RELEASED", settled=None),)),
            "op was released after its dispatch",
        ),
        (replace(ONCE, holds=(replace(UNKNOWN, state="DISPATCHING"),)), "op is DISPATCHING still"),
        (replace(ONCE, spent=Decimal("0.024")), "the journal posted 0.024, and the holds settled at 0.012"),
        (replace(ONCE, entries=("SETTLE",)), "1 holds, and 0 entries that set money aside"),
        (replace(ONCE, incidents=("RESOLUTION_CONFLICT",)), "incidents: RESOLUTION_CONFLICT; must be none"),
        (replace(ONCE, reached=False, caller=("it died",)), "it was not played to its end: it died"),
    ],
)
def test_what_is_not_as_it_must_be_is_said(seen: Seen, says: str) -> None:
    assert says in judge(GUARDED, seen).faults


def test_a_blind_call_may_be_accepted_twice_if_that_was_expected() -> None:
    expected = Expected(Outcome.TWICE_AND_A_CASE, 2, ("SETTLED 0.012",), ("DOUBLE_ACCEPTANCE",))
    blind = replace(GUARDED, style=Style.RESENDS, expected=expected)
    assert judge(blind, replace(ONCE, accepted=2, incidents=("DOUBLE_ACCEPTANCE",))).faults == ()


@pytest.mark.parametrize(
    ("hold", "accepted", "acknowledged", "says"),
    [
        (SETTLED, 2, True, "op was accepted 2 times"),
        (UNKNOWN, 1, False, "op was accepted, and is OUTCOME_UNKNOWN"),
        (FREE, 1, False, "op was accepted, and is SETTLED 0"),
        (replace(RELEASED, dispatched=True), 0, False, "op was released after its dispatch"),
        (replace(RELEASED, state="RESERVED"), 0, False, "op is RESERVED still"),
        (SETTLED, 0, False, "op settled at 0.012, and was never accepted"),
        (UNKNOWN, 0, True, "the settlement of op was acknowledged, and it is OUTCOME_UNKNOWN"),
    ],
)
def test_what_may_not_be_after_kills_is_said(hold: SeenHold, accepted: int, acknowledged: bool, says: str) -> None:
    counted = {"op": accepted} if accepted else {}
    assert list(faults_after_kills([hold], counted, ["op"] if acknowledged else [])) == [says]


def test_after_kills_a_call_may_have_settled_once_or_be_unknown_or_never_sent() -> None:
    fine = [
        SETTLED,
        replace(UNKNOWN, operation_id="lost"),
        replace(RELEASED, operation_id="early"),
        replace(FREE, operation_id="proved"),
    ]
    assert list(faults_after_kills(fine, {"op": 1}, ["op"])) == []
    assert list(faults_after_kills([], {"gone": 1}, ["gone"])) == [
        "gone was accepted, and is not in the books",
        "the settlement of gone was acknowledged, and it is not in the books",
    ]
