"""Caps: how much one hold may set aside, and how many may be open at a time."""

import pytest

from tests.domain.table import run

TREE = """
    adm: budget org USD 100 max_hold=10 max_open=3 -> ok
    adm: budget team USD 50 under=org max_hold=6 -> ok
    adm: budget key USD 20 under=team max_open=2 -> ok
"""


@pytest.mark.parametrize(
    ("budget", "amount", "told"),
    [
        ("org", "10", "ok"),
        ("org", "10.000000000000000001", "HOLD_TOO_LARGE budget_id=org amount=10.000000000000000001 max_hold=10"),
        ("team", "6", "ok"),
        (
            "team",
            "6.5",
            'HOLD_TOO_LARGE budget_id=team amount=6.5 max_hold=6 currency=USD says="may be 6 USD at most, not 6.5"',
        ),
        ("key", "6", "ok"),
        ("key", "7", "HOLD_TOO_LARGE budget_id=team"),
        ("key", "11", "HOLD_TOO_LARGE budget_id=org"),
    ],
)
def test_no_hold_is_larger_than_the_cap_of_any_level(budget: str, amount: str, told: str) -> None:
    run(TREE + f"reserve op1 {budget} {amount} -> {told}")


def test_the_cap_comes_before_the_balance_and_a_refusal_moves_nothing() -> None:
    run("""
    adm: budget org USD 5 max_hold=4 -> ok
    reserve op1 org 6 key=k1 -> HOLD_TOO_LARGE
    reserve op1 org 6 key=k1 -> HOLD_TOO_LARGE replayed max_hold=4      # a refusal of permission is remembered
    adm: update org max_hold=none -> ok
    reserve op1 org 6 -> INSUFFICIENT_BUDGET limit=5 available=5
    balance org available=5 held=0 open_holds=0
    hold op1 none
    """)


def test_so_many_holds_are_open_and_no_more() -> None:
    run(
        TREE
        + """
    reserve op1 key 1 -> ok
    | reserve op2 key 1 nonce=n2 -> ok send
    | reserve op3 key 1 -> TOO_MANY_HOLDS budget_id=key open_holds=2 max_open_holds=2 says="resolve or release some"
    reserve op4 team 1 -> ok
    reserve op5 org 1 -> TOO_MANY_HOLDS budget_id=org open_holds=3 max_open_holds=3
    unknown op2 -> ok
    reserve op6 key 1 -> TOO_MANY_HOLDS budget_id=key          # an unknown outcome is an open hold
    charge op2 1 -> ok
    reserve op7 key 1 -> ok
    release op7 -> ok
    release op1 -> ok
    reserve op8 key 0 -> ok                                    # so is one of amount 0
    balance key open_holds=1 held=0 version=16                 # of eight entries, two postings each
    balance team open_holds=2
    balance org open_holds=2
    """
    )


def test_what_time_does_and_what_evidence_infers_is_counted_too() -> None:
    run("""
    adm: budget org USD 9 max_open=2 -> ok
    reserve op1 org 1 ttl=1m -> ok
    reserve op2 org 1 nonce=n2 lease=1m -> ok send
    reserve op3 org 1 -> TOO_MANY_HOLDS
    after 2m
    sys: lapse op1 -> ok
    sys: lapse op2 -> ok
    balance org open_holds=1 held=0 unknown=1
    reserve op4 org 1 -> ok
    charge op4 1 provider=other -> EVIDENCE_REJECTED
    charge op4 1 -> ok                                         # RESERVED, and settled by evidence
    balance org open_holds=1
    charge op4 1 -> unchanged replayed
    balance org open_holds=1
    """)


def test_a_cap_of_zero_admits_nothing_and_none_is_no_cap() -> None:
    run("""
    adm: budget org USD unlimited max_open=0 -> ok
    reserve op1 org 1 -> TOO_MANY_HOLDS open_holds=0 max_open_holds=0
    adm: update org max_open=none max_hold=0 -> ok
    reserve op2 org 0.1 -> HOLD_TOO_LARGE
    reserve op3 org 0 -> ok
    """)


def test_caps_that_are_lowered_refuse_what_is_new_and_touch_nothing_that_is_there() -> None:
    run("""
    adm: budget org USD 9 -> ok
    reserve op1 org 3 -> ok
    reserve op2 org 3 -> ok
    adm: update org max_hold=2 max_open=1 key=k1 -> ok
    adm: update org max_hold=2 max_open=1 key=k1 -> unchanged replayed
    adm: update org max_hold=2 -> unchanged replayed
    adm: update org max_hold=3 key=k1 -> IDEMPOTENCY_MISMATCH
    reserve op3 org 1 -> TOO_MANY_HOLDS open_holds=2 max_open_holds=1
    dispatch op1 nonce=n1 -> ok send
    charge op1 3 -> ok
    release op2 -> ok
    reserve op4 org 1 -> ok
    adm: update nobody max_open=1 -> NOT_FOUND field=budget_id budget_id=nobody
    adm: budget org USD 9 -> RESOURCE_EXISTS field=max_hold
    adm: budget org USD 9 max_hold=2 -> RESOURCE_EXISTS field=max_open_holds
    """)


def test_a_refusal_for_want_of_money_names_the_level_and_all_its_balances() -> None:
    run("""
    adm: budget org USD 10 -> ok
    adm: grant org 2 -> ok
    reserve op1 org 4 nonce=n1 -> ok send
    reserve op2 org 5 nonce=n2 -> ok send
    reserve op3 org 1 -> ok
    charge op1 3 -> ok
    unknown op2 -> ok
    reserve op4 org 4 -> INSUFFICIENT_BUDGET budget_id=org limit=10 available=3 held=1 unknown=5 spent=3 deficit=0 amount=4
    """)


def test_a_hold_for_key_project_and_end_user_moves_the_union_of_three_chains_of_eight_levels() -> None:
    def chain(end: str) -> str:
        lines = [f"adm: budget {end}{level} USD 9 under={end}{level - 1} -> ok" for level in range(3, 9)]
        return "\n".join([f"adm: budget {end}2 USD 9 under=org -> ok", *lines, ""])

    world = run(
        "adm: budget org USD 10 -> ok\n"
        + "".join(map(chain, ("key", "project", "user")))
        + """
    reserve op1 key8,project8,user8 4 nonce=n1 -> ok send
    adm: update project5 max_hold=3 -> ok
    reserve op2 key8,project8,user8 4 -> HOLD_TOO_LARGE budget_id=project5
    reserve op3 key8,user8 5 -> ok
    balance org available=1 held=9 open_holds=2                # shared by the chains, counted and debited once
    balance user8 available=0 held=9
    """
    )
    hold = world.holds[("t1", "op1")]
    assert len(hold.books) == 1 + 3 * 7
    assert {world.books[("t1", book)].open_holds for book in hold.books} == {1, 2}
