"""Limits and credit lines, and what a change of them does at once. Tables begin at 2025-03-01T10:00Z."""

from tests.domain.table import run

USED = """
adm: budget org USD 10 -> ok
reserve spent org 4 nonce=n1 -> ok send
charge spent 4 -> ok
reserve held org 3 nonce=n2 -> ok send
"""


def test_a_limit_is_raised_at_once() -> None:
    world = run(
        USED
        + """
    reserve op1 org 4 -> INSUFFICIENT_BUDGET available=3
    adm: update org limit=11 key=k1 -> ok
    balance org authority=11 available=4 held=3 spent=4 version=10
    reserve op2 org 4 -> ok
    adm: update org limit=11 key=k1 -> unchanged replayed      # the key has done its work
    adm: update org limit=12 key=k1 -> IDEMPOTENCY_MISMATCH resource=org
    adm: update org limit=11 -> unchanged replayed             # so it is already
    adm: update org name=Research -> ok                        # no money moves
    balance org authority=11 version=12
    """
    )
    assert [e.kind for e in world.entries.values()] == ["OPEN", "RESERVE", "SETTLE", "RESERVE", "LIMIT", "RESERVE"]
    assert (world.budgets[("t1", "org")].version, world.budgets[("t1", "org")].display_name) == (3, "Research")


def test_a_limit_is_lowered_at_once_even_below_what_is_used() -> None:
    run(
        USED
        + """
    adm: update org limit=8 -> ok
    balance org authority=8 available=1 deficit=0
    adm: update org limit=5 -> ok                              # 7 are used
    balance org authority=5 available=0 deficit=2 held=3 spent=4
    reserve op1 org 0.1 -> INSUFFICIENT_BUDGET available=0 deficit=2
    adm: update org limit=0 -> ok
    balance org authority=0 available=0 deficit=7
    fin: proof held NEVER_SENT cause=DNS_FAILURE -> ok         # what comes free repays
    balance org deficit=4 available=0
    adm: grant org 1 -> ok                                     # so does a grant
    balance org authority=1 deficit=3
    adm: update org limit=10 -> ok                             # and a higher limit
    balance org authority=11 deficit=0 available=7
    """
    )


def test_a_limit_is_taken_away_and_set_again() -> None:
    run(
        USED
        + """
    adm: update org limit=5 -> ok
    adm: update org limit=unlimited -> ok
    balance org authority=0 available=-7 deficit=0 floor=none
    reserve op1 org 100 -> ok
    balance org available=-107 held=103
    adm: update org limit=106 -> ok
    balance org authority=106 available=0 deficit=1 floor=0
    release op1 -> ok
    balance org available=99 deficit=0
    """
    )


def test_a_credit_line_is_how_far_below_zero_a_budget_may_go() -> None:
    run("""
    adm: budget org USD 10 credit=5 -> ok
    balance org available=10 floor=-5
    reserve op1 org 15.1 -> INSUFFICIENT_BUDGET available=10
    reserve op2 org 15 nonce=n1 -> ok send
    balance org available=-5 held=15 deficit=0
    reserve op3 org 0.1 -> INSUFFICIENT_BUDGET
    fin: charge op2 17 accept=agreed -> ok
    balance org available=-5 deficit=2 spent=17
    adm: grant org 3 -> ok                                     # DEFICIT first
    balance org available=-4 deficit=0
    """)


def test_a_credit_line_changes_at_once() -> None:
    world = run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 10 nonce=n1 -> ok send
    fin: charge op1 13 accept=agreed -> ok
    balance org available=0 deficit=3
    adm: update org credit=2 -> ok
    balance org available=-2 deficit=1 floor=-2 authority=10
    adm: update org credit=7 -> ok
    balance org available=-3 deficit=0
    reserve op2 org 4 -> ok
    adm: update org credit=0 -> ok
    balance org available=0 deficit=7 floor=0
    adm: update org credit=7 limit=11 -> ok
    balance org available=-6 deficit=0 authority=11
    """)
    assert [e.kind.value for e in world.entries.values()].count("LIMIT") == 4


def test_without_a_limit_there_is_no_credit_line() -> None:
    run("""
    adm: budget org USD unlimited credit=5 -> INVALID_FIELD field=credit_line
    adm: budget org USD unlimited -> ok
    adm: update org credit=5 -> INVALID_FIELD field=credit_line
    adm: update org credit=5 limit=1 -> ok
    adm: update org limit=unlimited -> INVALID_FIELD field=credit_line
    adm: update org limit=unlimited credit=0 -> ok
    adm: update nobody limit=1 -> NOT_FOUND field=budget_id
    """)


def test_a_limit_is_what_the_ledger_can_hold() -> None:
    run("""
    adm: budget org USD 1 -> ok
    adm: grant org 99999999999999999990 -> ok
    adm: update org limit=10 -> INVALID_FIELD field=limit
    adm: update org limit=0 -> ok
    """)


def test_all_settings_are_compared_when_a_budget_is_made_again() -> None:
    run("""
    adm: budget org USD 10 credit=5 day=UTC rollover=cap:3 -> ok
    adm: budget org USD 10 credit=5 day=UTC rollover=cap:3 -> unchanged replayed
    adm: budget org USD 10 credit=4 day=UTC rollover=cap:3 -> RESOURCE_EXISTS field=credit_line
    adm: budget org USD 10 credit=5 day=Asia/Shanghai rollover=cap:3 -> RESOURCE_EXISTS field=period
    adm: budget org USD 10 credit=5 day=UTC rollover=cap:4 -> RESOURCE_EXISTS field=rollover
    """)


def test_a_budget_is_made_and_changed_in_one_batch() -> None:
    world = run("""
    adm: budget org USD 10 -> ok
    | adm: update org limit=5 key=k1 -> ok
    | reserve op1 org 6 -> INSUFFICIENT_BUDGET available=5
    | adm: update org limit=7 credit=1 -> ok
    | reserve op2 org 8 -> ok
    balance org authority=7 available=-1
    adm: budget team USD 10 day=UTC -> ok
    after 24h
    reserve op3 team 1 -> ok
    | adm: update team limit=5 rollover=all -> ok
    | adm: update team limit=6 -> ok
    balance team available=5
    """)
    assert [world.budgets[("t1", name)].version for name in ("org", "team")] == [1, 2]


# --- in periods ------------------------------------------------------------------------------------------------------


def test_a_change_of_limit_is_of_the_period_that_it_is_now() -> None:
    run("""
    adm: budget org USD 10 day=UTC rollover=all -> ok
    reserve op1 org 4 -> ok
    at 2025-03-04T00:00Z
    adm: update org limit=3 -> ok                              # 10 were the limit of the 2nd and the 3rd
    periods org 2025-03-01T00:00Z 2025-03-04T00:00Z
    balance org authority=29 available=29 carried=26
    at 2025-03-06T00:00Z
    shown org authority=35 available=35                        # and 3 are of the 5th and the 6th
    adm: update org limit=unlimited -> ok
    balance org authority=32 available=32 floor=none
    at 2025-03-08T00:00Z
    reserve op2 org 100 -> ok
    balance org authority=0 available=-100 carried=0
    """)


def test_another_zone_begins_where_the_running_period_ends() -> None:
    run("""
    adm: budget org USD 10 day=Asia/Shanghai -> ok
    reserve op1 org 10 -> ok
    adm: update org day=Europe/Berlin -> ok                    # Shanghai's day ends at 16:00Z, Berlin's at 23:00Z
    balance org period_end=2025-03-01T16:00Z
    at 2025-03-01T15:59:59Z
    reserve op2 org 1 -> INSUFFICIENT_BUDGET
    at 2025-03-01T16:00Z
    reserve op3 org 10 -> ok
    balance org period_start=2025-03-01T16:00Z period_end=2025-03-01T23:00Z
    at 2025-03-01T23:00Z
    reserve op4 org 10 -> ok
    balance org period_start=2025-03-01T23:00Z period_end=2025-03-02T23:00Z
    """)


def test_another_kind_of_period_begins_where_the_running_one_ends() -> None:
    run("""
    adm: budget org USD 10 day=UTC rollover=all -> ok
    adm: update org month=UTC -> ok
    adm: update org week=UTC -> ok                             # the boundary stays, however often it changes
    at 2025-03-02T10:00Z
    shown org period_start=2025-03-02T00:00Z period_end=2025-03-03T00:00Z
    at 2025-03-12T10:00Z                                       # Wednesday: two periods more
    reserve op1 org 40 -> ok
    balance org available=0 period_start=2025-03-10T00:00Z period_end=2025-03-17T00:00Z carried=30
    """)


def test_periods_begin_and_end_with_the_settings() -> None:
    run("""
    adm: budget org USD 10 rollover=all -> ok
    reserve op1 org 4 nonce=n1 -> ok send
    adm: update org day=UTC -> ok                              # what had no end ends with the day
    balance org period_start=2025-03-01T10:00Z period_end=2025-03-02T00:00Z held=4
    adm: update org none=yes -> ok                             # it stays at that
    balance org period_end=2025-03-02T00:00Z
    at 2025-03-03T10:00Z
    reserve op2 org 15 -> ok
    balance org@1 book_id=org#0 closed=yes
    balance org book_id=org#20250302T000000Z period_start=2025-03-02T00:00Z period_end=none carried=6
    charge op1 1 -> ok                                         # of a period that once was all there was
    balance org available=4 carried=9
    at 2026-03-03T10:00Z
    reserve op3 org 4 -> ok
    periods org 2025-03-01T10:00Z 2025-03-02T00:00Z
    """)


def test_rollover_changes_at_once() -> None:
    run("""
    adm: budget org USD 10 day=UTC -> ok
    adm: update org rollover=cap:4 -> ok
    after 24h
    reserve op1 org 9 nonce=n1 -> ok send
    balance org carried=4 available=5
    adm: update org rollover=cap:2 -> ok                       # what was carried stays
    balance org carried=4 available=5
    after 24h
    reserve op2 org 1 -> ok
    balance org carried=2
    charge op1 5 -> ok                                         # the cap is reached
    balance org@2 available=7 carried=4
    balance org carried=2
    adm: update org rollover=none -> ok
    after 24h
    reserve op3 org 1 -> ok
    balance org carried=0
    """)


def test_a_credit_line_does_not_take_a_budget_beyond_what_the_ledger_can_hold() -> None:
    """Limit and line together are more than a balance can be, 10²⁰: 39 + 39 + 30 · 10¹⁸ would be, 39 + 39 + 20 are not."""
    run("""
    adm: budget org USD 60000000000000000000 credit=90000000000000000000 -> ok
    reserve op1 org 39000000000000000000 -> ok
    reserve op2 org 39000000000000000000 -> ok
    reserve op3 org 30000000000000000000 -> UNQUOTABLE budget_id=org says="above what the ledger can hold"
    reserve op4 org 20000000000000000000 -> ok
    balance org available=-38000000000000000000 held=98000000000000000000
    """)
