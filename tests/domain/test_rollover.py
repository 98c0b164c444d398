"""Budgets with periods: opened by the first hold, nothing zeroed, and what is carried on. Tables begin at 2025-03-01T10:00Z."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from ledger.domain.batch import StaleRows
from ledger.domain.commands import Command, GrantBudget, Release
from ledger.domain.decide import decide
from ledger.domain.model import Caller, Role
from tests.domain.table import run
from tests.domain.world import World


def test_a_period_is_opened_by_the_first_hold_after_the_end_of_the_last() -> None:
    world = run("""
    adm: budget org USD 10 day=Asia/Shanghai -> ok
    reserve op1 org 6 nonce=n1 -> ok send
    reserve op2 org 5 -> INSUFFICIENT_BUDGET available=4
    at 2025-03-01T23:59:59.999999+08:00
    reserve op3 org 5 -> INSUFFICIENT_BUDGET available=4
    at 2025-03-02T00:00:00+08:00
    shown org authority=10 available=10 held=0                 # it is a new day, whether or not anybody asked
    periods org 2025-02-28T16:00Z
    reserve op4 org 10 -> ok
    periods org 2025-02-28T16:00Z 2025-03-01T16:00Z
    balance org@1 authority=10 available=4 held=6 closed=yes
    balance org@2 authority=10 available=0 held=10 closed=no period_end=2025-03-02T16:00Z
    hold op1 DISPATCHING books=org#20250228T160000Z
    hold op4 RESERVED books=org#20250301T160000Z
    """)
    assert [entry.kind for entry in world.entries.values()] == ["OPEN", "RESERVE", "OPEN", "RESERVE"]


def test_a_hold_belongs_to_the_period_in_which_it_was_reserved() -> None:
    run("""
    adm: budget org USD 10 day=Europe/Berlin -> ok
    at 2025-03-01T23:59:59.9+01:00
    reserve op1 org 6 nonce=n1 -> ok send
    reserve op2 org 1 -> ok
    reserve op3 org 1 nonce=n3 -> ok send
    at 2025-03-02T00:00:01+01:00
    charge op1 5 -> ok                                         # the period is over, and no later one is open yet
    reserve op4 org 10 -> ok
    dispatch op2 nonce=n2 -> ok send
    unknown op3 -> ok
    charge op2 0.5 -> ok
    balance org@1 spent=5.5 unknown=1 held=0 available=3.5 authority=10
    balance org@2 spent=0 held=10 available=0 carried=0        # nothing is carried without a policy
    """)


def test_what_is_left_is_carried_on_by_policy() -> None:
    run("""
    adm: budget none USD 10 day=UTC -> ok
    adm: budget all USD 10 day=UTC rollover=all -> ok
    adm: budget cap USD 10 day=UTC rollover=cap:3 -> ok
    reserve op1 all,cap,none 6 nonce=n1 -> ok send
    charge op1 5 -> ok                                         # 5 are left
    after 24h
    reserve op2 all,cap,none 1 -> ok
    balance none@1 authority=10 available=5 spent=5
    balance none authority=10 available=9 carried=0 held=1
    balance all@1 authority=5 available=0 spent=5              # 5 went on
    balance all authority=15 available=14 carried=5 held=1
    balance cap@1 authority=7 available=2 spent=5              # 3 went on
    balance cap authority=13 available=12 carried=3 held=1
    """)


def test_what_is_missing_is_carried_on_whole_or_not_at_all() -> None:
    run("""
    adm: budget none USD 10 day=UTC -> ok
    adm: budget all USD 10 day=UTC rollover=all -> ok
    adm: budget cap USD 10 day=UTC rollover=cap:3 -> ok
    reserve op1 all,cap,none 10 nonce=n1 -> ok send
    fin: charge op1 14 accept=agreed -> ok
    balance all available=0 deficit=4
    after 24h
    reserve op2 all,cap,none 7 -> INSUFFICIENT_BUDGET budget_id=all available=6
    reserve op3 all,cap,none 6 -> ok
    balance none@1 authority=10 deficit=4 spent=14
    balance none authority=10 available=4 deficit=0
    balance all@1 authority=14 deficit=0 spent=14              # the next period bears it
    balance all authority=6 available=0 carried=-4
    balance cap@1 authority=14 deficit=0
    balance cap authority=6 available=0 carried=-4
    """)


def test_a_period_may_begin_in_debt() -> None:
    run("""
    adm: budget org USD 10 day=UTC rollover=all -> ok
    reserve op1 org 10 nonce=n1 -> ok send
    fin: charge op1 35 accept=agreed -> ok
    after 24h
    reserve op2 org 1 -> INSUFFICIENT_BUDGET available=0 deficit=15
    balance org authority=-15 available=0 deficit=15 carried=-25
    after 24h
    reserve op3 org 1 -> INSUFFICIENT_BUDGET deficit=5
    after 24h
    reserve op4 org 6 -> INSUFFICIENT_BUDGET available=5
    reserve op5 org 5 -> ok
    """)


def test_periods_in_which_nothing_happened_need_no_book() -> None:
    run("""
    adm: budget none USD 10 day=UTC -> ok
    adm: budget all USD 10 day=UTC rollover=all -> ok
    adm: budget cap USD 10 day=UTC rollover=cap:25 -> ok
    adm: budget zero USD 0 day=UTC rollover=all -> ok
    adm: grant zero 7 -> ok
    reserve op1 all,cap,none 4 nonce=n1 -> ok send
    at 2025-03-04T12:00Z                                       # 6 are left of the 1st; nobody came on the 2nd and the 3rd
    shown all authority=36 available=36 carried=26
    reserve op2 all,cap,none,zero 1 -> ok
    periods all 2025-03-01T00:00Z 2025-03-04T00:00Z
    balance none available=9 carried=0
    balance all@1 authority=4 available=0 held=4               # 6 went on from there, and 10 from each day between
    balance all available=35 carried=26
    balance cap@1 authority=4 available=0 held=4
    balance cap available=34 carried=25                        # 26, capped
    balance zero available=6 carried=7
    """)


def test_periods_that_were_skipped_repay_what_was_missing() -> None:
    run("""
    adm: budget org USD 10 day=UTC rollover=cap:3 -> ok
    reserve op1 org 10 nonce=n1 -> ok send
    fin: charge op1 32 accept=agreed -> ok
    at 2025-03-03T12:00Z                                       # -22, and 10 on the 2nd
    reserve op2 org 1 -> INSUFFICIENT_BUDGET available=0 deficit=2
    balance org carried=-12
    at 2025-03-06T12:00Z                                       # -2 on the 3rd, 8 on the 4th of which 3, 13 on the 5th
    reserve op3 org 1 -> ok
    balance org@1 deficit=0 authority=32 spent=32
    balance org available=12 carried=3
    """)


def test_a_budget_without_a_limit_has_nothing_to_carry() -> None:
    run("""
    adm: budget org USD unlimited day=UTC rollover=all -> ok
    reserve op1 org 5 nonce=n1 -> ok send
    reserve op2 org 5 -> ok
    after 24h
    reserve op3 org 7 -> ok
    balance org@1 available=-10 held=10 authority=0
    balance org available=-7 held=7 carried=0
    charge op1 9 accept=agreed -> EVIDENCE_REJECTED
    charge op1 4 -> ok
    release op2 -> ok
    balance org@1 available=-4 spent=4
    balance org available=-7
    """)


def test_what_comes_free_in_a_period_without_a_limit_is_not_carried_into_one_with_a_limit() -> None:
    run("""
    adm: budget org USD unlimited day=UTC rollover=all -> ok
    reserve op1 org 5 -> ok
    reserve op2 org 5 nonce=n2 -> ok send
    after 24h
    adm: update org limit=10 -> ok
    release op1 -> ok
    fin: charge op2 7 accept=agreed -> ok
    balance org@1 available=-7
    balance org available=10 carried=0
    """)


def test_a_grant_is_of_the_period_in_which_it_is_made() -> None:
    run("""
    adm: budget org USD 0 day=UTC rollover=all -> ok
    adm: grant org 5 ref=a -> ok
    after 24h
    adm: grant org 4 ref=b key=k -> ok                         # opens the period
    balance org authority=9 available=9 carried=5
    after 24h
    adm: grant org 4 ref=b key=k -> unchanged replayed         # opens nothing
    adm: budget org USD 0 day=UTC rollover=all -> unchanged replayed
    periods org 2025-03-01T00:00Z 2025-03-02T00:00Z
    shown org authority=9 available=9 carried=9
    """)


def test_each_level_has_its_own_periods() -> None:
    run("""
    adm: budget org USD 100 month=Europe/Berlin -> ok
    adm: budget team USD 10 under=org week=Europe/Berlin -> ok
    adm: budget key USD 5 under=team day=Europe/Berlin -> ok
    adm: budget run USD 3 under=key fixed=30s anchor=2025-03-01T10:00:00Z -> ok
    reserve op1 run 3 -> ok
    after 30s
    reserve op2 run 3 -> INSUFFICIENT_BUDGET budget_id=key available=2
    reserve op3 run 2 -> ok
    periods run 2025-03-01T10:00Z 2025-03-01T10:00Z
    at 2025-03-02T10:00Z                                       # Sunday: another day, the same week
    reserve op4 run 3 -> ok
    | reserve op5 run 2 -> INSUFFICIENT_BUDGET budget_id=run available=0
    balance team available=2 period_start=2025-02-23T23:00Z
    at 2025-03-31T10:00Z                                       # Monday, in summer time, of the same month
    reserve op6 run 3 -> ok
    balance team available=7 period_start=2025-03-30T22:00Z
    balance org available=89 period_start=2025-02-28T23:00Z period_end=2025-03-31T22:00Z
    """)


def test_a_period_is_opened_once_in_a_batch_and_no_limit_is_passed() -> None:
    run("""
    adm: budget org USD 0.000000001 day=UTC -> ok
    after 24h
    reserve op1 org 0.0000000011 -> INSUFFICIENT_BUDGET
    | reserve op2 org 0.0000000006 -> ok
    | reserve op3 org 0.0000000006 -> INSUFFICIENT_BUDGET
    | adm: grant org 1 -> ok
    | reserve op4 org 0.0000000006 -> ok
    periods org 2025-03-01T00:00Z 2025-03-02T00:00Z
    """)


def test_a_hold_in_another_currency_is_refused() -> None:
    run("""
    adm: budget org USD 10 day=UTC -> ok
    after 24h
    reserve op1 org 1 currency=EUR -> CURRENCY_MISMATCH budget_currency=USD
    """)


def test_what_the_ledger_cannot_hold_is_not_carried() -> None:
    most = "99999999999999999999"
    run(f"""
    adm: budget org USD {most} day=UTC rollover=all -> ok
    adm: budget low USD 1 day=UTC rollover=all -> ok
    reserve op1 low 1 -> ok
    at 2025-03-09T10:00Z
    reserve op2 org,low 1 -> ok
    balance org authority=99999999999999999999.999999999999999999 carried=0.999999999999999999
    adm: grant low {most[:-2]}91.5 -> ok
    release op1 -> ok                                          # no room for it: it stays where it came free
    balance low@1 available=1
    """)


def test_a_cost_that_the_next_period_cannot_hold_is_rejected() -> None:
    run("""
    adm: budget org USD 1 day=UTC rollover=all -> ok
    reserve op1 org 1 nonce=n1 -> ok send
    after 24h
    adm: grant org 99999999999999999998 -> ok
    fin: charge op1 3 accept=agreed -> EVIDENCE_REJECTED says="book org#20250302T000000Z would be above"
    """)


# --- what was read before the locks ----------------------------------------------------------------------------------

TWO_PERIODS = """
adm: budget org USD 10 day=UTC -> ok
reserve op1 org 1 -> ok
after 24h
reserve op2 org 1 -> ok
"""
ORG, FIRST, SECOND = ("t1", "org"), "org#20250301T000000Z", "org#20250302T000000Z"


def stale(world: World, command: Command, **loaded: Any) -> None:
    """The command cannot be decided on rows of which some are older than the locks."""
    with pytest.raises(StaleRows):
        decide(replace(world.load([command]), **loaded), [command])


def test_a_book_that_was_closed_in_between_takes_nothing() -> None:
    world = run(TWO_PERIODS)
    grant = GrantBudget(Caller("t1", "adm", Role.ADMIN), "k", "org", Decimal(1), "USD", "r")
    stale(world, grant, newest={ORG: FIRST}, books={("t1", FIRST): world.books[("t1", FIRST)]})


def test_a_period_that_was_closed_in_between_carries_on() -> None:
    world = run(TWO_PERIODS)
    release = Release(Caller("t1", "gw", Role.GATEWAY), "k", "op1")
    first, second = (world.books[("t1", book_id)] for book_id in (FIRST, SECOND))
    stale(world, release, newest={})
    stale(world, release, newest={ORG: FIRST}, books={("t1", FIRST): first})
    closed = replace(second, closed=True)
    stale(world, release, newest={ORG: SECOND}, books={("t1", FIRST): first, ("t1", SECOND): closed})
