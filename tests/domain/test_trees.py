"""Trees of budgets: a hold is debited on every level above the budgets that it names."""

import pytest

from tests.domain.table import run

FOUR_LEVELS = """
    adm: budget org USD 100 -> ok
    adm: budget team USD 50 under=org -> ok
    adm: budget user USD 20 under=team -> ok
    adm: budget key USD 10 under=user -> ok
"""


def test_a_hold_of_four_levels_moves_four_books_at_reserve_and_at_settle_alike() -> None:
    run(
        FOUR_LEVELS
        + """
    reserve op1 key 6 nonce=n1 -> ok send
    hold op1 DISPATCHING books=key#0,org#0,team#0,user#0 budget_ids=key
    balance org available=94 held=6
    balance team available=44 held=6
    balance user available=14 held=6
    balance key available=4 held=6
    charge op1 5 -> ok
    balance org available=95 held=0 spent=5
    balance team available=45 held=0 spent=5
    balance user available=15 held=0 spent=5
    balance key available=5 held=0 spent=5
    expense acme refunds 5                       # once, whatever the number of levels
    """
    )


@pytest.mark.parametrize(
    ("spent_on", "level"),
    [("org 97", "org"), ("team 47", "team"), ("user 17", "user"), ("key 7", "key")],
)
def test_a_refusal_names_the_level_that_has_too_little(spent_on: str, level: str) -> None:
    run(
        FOUR_LEVELS
        + f"""
    reserve op1 {spent_on} -> ok
    reserve op2 key 4 -> INSUFFICIENT_BUDGET budget_id={level} amount=4 available=3
    hold op2 none
    reserve op3 key 3 -> ok
    """
    )


def test_the_path_is_the_union_of_the_chains_of_all_named_budgets() -> None:
    run(
        FOUR_LEVELS
        + """
    adm: budget project USD 30 under=org -> ok
    adm: budget campaign USD 8 -> ok                       # another root
    reserve op1 key,project,campaign 5 -> ok
    hold op1 RESERVED books=campaign#0,key#0,org#0,project#0,team#0,user#0
    balance org available=95 held=5                        # shared by two chains, debited once
    balance project available=25 held=5
    balance campaign available=3 held=5
    reserve op2 key,project,campaign 4 -> INSUFFICIENT_BUDGET budget_id=campaign
    reserve op3 team,org,user 1 -> ok
    hold op3 RESERVED books=org#0,team#0,user#0
    release op1 -> ok
    balance campaign available=8 held=0
    """
    )


def test_an_unknown_budget_is_named_and_the_key_is_not_used_up() -> None:
    run(
        FOUR_LEVELS
        + """
    reserve op1 key,nobody 1 key=k1 -> NOT_FOUND budget_id=nobody
    adm: budget nobody USD 1 -> ok
    reserve op1 key,nobody 1 key=k1 -> ok
    """
    )


def test_named_budgets_of_two_currencies_admit_no_hold() -> None:
    run("""
    adm: budget dollars USD 10 -> ok
    adm: budget euros EUR 10 -> ok
    reserve op1 dollars,euros 1 -> CURRENCY_MISMATCH budget_id=euros
    reserve op2 dollars,euros 1 currency=EUR -> CURRENCY_MISMATCH budget_id=dollars
    """)


def test_an_unlimited_root_above_a_limited_team() -> None:
    run("""
    adm: budget org USD unlimited -> ok
    adm: budget team USD 5 under=org -> ok
    reserve op1 team 5 nonce=n1 -> ok send
    reserve op2 team 1 -> INSUFFICIENT_BUDGET budget_id=team
    fin: charge op1 7 accept=agreed -> ok
    balance org available=-7 spent=7 deficit=0
    balance team available=0 spent=7 deficit=2
    """)


def test_tenants_share_nothing() -> None:
    run("""
    adm: budget org USD 10 -> ok
    other/adm: budget org EUR 3 -> ok
    reserve op1 org 10 key=k1 -> ok
    other/gw: reserve op1 org 10 key=k1 -> CURRENCY_MISMATCH
    other/gw: reserve op1 org 3 key=k2 currency=EUR -> ok
    balance org available=0 held=10
    other/gw: release op1 -> ok
    hold op1 RESERVED
    """)
