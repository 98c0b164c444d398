"""Closing a budget, and putting it elsewhere in the tree."""

import pytest

from ledger.domain.batch import NotLoaded
from ledger.domain.budget_commands import CloseBudget, MoveBudget, UpdateBudget
from ledger.domain.commands import CreateBudget
from ledger.domain.model import Caller, Role
from ledger.domain.needs import tree_changed
from tests.domain.table import run

TREE = """
    adm: budget org USD 100 -> ok
    adm: budget lab USD 100 -> ok
    adm: budget team USD 50 under=org -> ok
    adm: budget key USD 20 under=team -> ok
"""


def test_a_closed_budget_takes_nothing_new_on_any_path_through_it() -> None:
    run(
        TREE
        + """
    reserve op1 key 1 nonce=n1 -> ok send
    reserve op2 key 1 -> ok
    reserve op3 org 1 -> ok
    adm: close team key=k1 -> ok
    adm: close team key=k1 -> unchanged replayed
    adm: close team key=k2 -> unchanged replayed
    reserve op4 key 1 -> BUDGET_CLOSED budget_id=team
    reserve op5 org 1 -> ok                                    # above it nothing is closed
    adm: grant team 1 -> BUDGET_CLOSED budget_id=team
    adm: grant key 1 -> ok                                     # below it there is a budget that is not
    adm: update team max_hold=1 -> BUDGET_CLOSED budget_id=team
    adm: budget user USD 1 under=key -> BUDGET_CLOSED budget_id=team
    adm: move lab under=key -> BUDGET_CLOSED budget_id=team
    dispatch op2 nonce=n2 -> BUDGET_CLOSED budget_id=team
    dispatch op3 nonce=n3 -> ok send
    unknown op1 -> ok
    charge op1 0.5 -> ok
    release op2 -> ok
    balance team available=49.5 held=0 spent=0.5 open_holds=0
    adm: close nobody -> NOT_FOUND field=budget_id
    """
    )


def test_a_close_counts_within_its_batch() -> None:
    run(
        TREE
        + """
    reserve op1 team 1 -> ok
    adm: close team -> ok
    | reserve op2 key 1 -> BUDGET_CLOSED
    | dispatch op1 nonce=n1 -> BUDGET_CLOSED
    | adm: close team key=again -> unchanged replayed
    | adm: move team under=lab -> ok                           # one that is closed may be put away
    tree team=lab/team
    reserve op3 key 1 -> BUDGET_CLOSED budget_id=team
    """
    )


def test_a_move_takes_the_subtree_with_it_and_concerns_future_holds_only() -> None:
    world = run(
        TREE
        + """
    reserve op1 key 4 nonce=n1 -> ok send
    adm: move team under=lab key=k1 -> ok
    adm: move team under=lab key=k1 -> unchanged replayed
    adm: move team under=lab key=k2 -> unchanged replayed
    tree org=org lab=lab team=lab/team key=lab/team/key
    reserve op2 key 3 -> ok
    hold op2 RESERVED books=key#0,lab#0,team#0
    charge op1 4 -> ok                                         # the path of its reserve
    balance org available=96 spent=4
    balance lab available=97 held=3 spent=0
    balance key available=13 held=3 spent=4
    adm: move key -> ok
    tree key=key team=lab/team
    reserve op3 key 13 -> ok
    balance lab available=97
    adm: move key under=team -> ok
    tree key=lab/team/key
    """
    )
    assert world.budgets[("t1", "key")].version == 4
    assert world.budgets[("t1", "team")].version == 2


def test_what_a_move_refuses() -> None:
    run(
        TREE
        + """
    adm: budget euros EUR 1 -> ok
    adm: move team under=team -> INVALID_FIELD field=parent_id says="itself or below it"
    adm: move org under=key -> INVALID_FIELD field=parent_id
    adm: move team under=euros -> CURRENCY_MISMATCH budget_currency=EUR currency=USD
    adm: move team under=nobody key=k1 -> NOT_FOUND field=parent_id
    adm: move nobody under=org -> NOT_FOUND field=budget_id
    adm: close lab -> ok
    adm: move team under=lab -> BUDGET_CLOSED budget_id=lab
    adm: budget nobody USD 1 -> ok
    adm: move team under=nobody key=k1 -> ok                   # a refused move is not remembered
    tree org=org team=nobody/team key=nobody/team/key
    """
    )


def test_no_level_of_the_subtree_comes_to_stand_too_deep() -> None:
    chain = "\n".join(f"adm: budget l{level} USD 1 under=l{level - 1} -> ok" for level in range(2, 8))
    run(
        "adm: budget l1 USD 1 -> ok\n"
        + chain
        + TREE
        + """
    adm: move team under=l7 -> INVALID_FIELD field=parent_id levels=9 says="at most 8 levels"
    adm: move team under=l6 -> ok
    tree key=l1/l2/l3/l4/l5/l6/team/key
    adm: budget user USD 1 under=key -> INVALID_FIELD levels=9
    adm: move l2 under=org -> ok
    adm: move l2 under=lab -> ok
    adm: move lab under=org -> INVALID_FIELD levels=9
    """
    )


def test_moves_of_one_batch_are_decided_one_after_the_other() -> None:
    run(
        TREE
        + """
    adm: move org under=lab -> ok
    | adm: move lab under=key -> INVALID_FIELD field=parent_id
    | adm: budget user USD 1 under=key -> ok
    | adm: move key under=org -> ok
    | adm: close user -> ok
    tree team=lab/org/team key=lab/org/key user=lab/org/key/user
    """
    )


@pytest.mark.parametrize(
    "later", ["reserve op1 key 1 -> ok", "adm: budget user USD 1 under=key -> ok\n| reserve op1 user 1 -> ok"]
)
def test_a_reserve_on_a_path_that_its_own_batch_made_is_decided_apart(later: str) -> None:
    with pytest.raises(NotLoaded):
        run(TREE + "adm: move team under=lab -> ok\n| " + later)


def test_only_what_gives_a_path_waits_for_the_tree() -> None:
    admin = Caller("t1", "adm", Role.ADMIN)
    assert tree_changed(CreateBudget(admin, "k", "org", None, "USD", "", None)) == "t1"
    assert tree_changed(MoveBudget(admin, "k", "org", None)) == "t1"
    assert tree_changed(CloseBudget(admin, "k", "org")) is None
    assert tree_changed(UpdateBudget(admin, "k", "org", ("max_hold",))) is None
