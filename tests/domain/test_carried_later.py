"""What comes free or is missing in a period that is over. Tables begin at 2025-03-01T10:00Z."""

from decimal import Decimal

from ledger.domain.model import Account, EntryKind
from tests.domain.table import run
from tests.domain.world import World


def rolled(world: World) -> list[tuple[str, Decimal]]:
    """What each rollover entry brought into a book or took out of it, in order."""
    kinds = {entry_id: entry.kind for entry_id, entry in world.entries.items()}
    return [
        (posting.book_id, posting.amount)
        for posting in world.postings
        if posting.account is Account.AUTHORITY and kinds[posting.entry_id] is EntryKind.ROLLOVER
    ]


def test_what_comes_free_in_a_closed_period_is_carried_on() -> None:
    world = run("""
    adm: budget none USD 10 day=UTC -> ok
    adm: budget all USD 10 day=UTC rollover=all -> ok
    adm: budget cap USD 10 day=UTC rollover=cap:3 -> ok
    reserve op1 all,cap,none 4 nonce=n1 -> ok send
    reserve op2 all,cap,none 4 -> ok
    reserve op3 all,cap,none 1 nonce=n3 -> ok send
    after 24h
    reserve new all,cap,none 0 -> ok                           # 1 is left and goes on
    charge op1 3 -> ok                                         # 1 comes free
    balance none@1 available=2 spent=3
    balance none available=10
    balance all@1 available=0 spent=3 authority=8
    balance all available=12 carried=2
    balance cap available=12 carried=2
    release op2 -> ok                                          # 4 come free; up to the cap it is 1
    balance all@1 available=0 authority=4
    balance all available=16 carried=6
    balance cap@1 available=3 authority=7 spent=3 held=1
    balance cap available=13 carried=3
    fin: proof op3 NEVER_SENT cause=DNS_FAILURE -> ok
    balance all available=17 carried=7
    balance cap@1 available=4
    balance cap available=13 carried=3
    entries op2 RESERVE RELEASE ROLLOVER ROLLOVER
    """)
    first, second = "20250301T000000Z", "20250302T000000Z"
    assert rolled(world)[-3:] == [
        (f"cap#{second}", Decimal(1)),
        (f"all#{first}", Decimal(-1)),
        (f"all#{second}", Decimal(1)),
    ]


def test_a_period_leaves_no_more_than_the_cap_however_late() -> None:
    run("""
    adm: budget org USD 10 day=UTC rollover=cap:3 -> ok
    reserve op1 org 4 nonce=n1 -> ok send
    reserve op2 org 2 nonce=n2 -> ok send
    reserve op3 org 1 nonce=n3 -> ok send
    after 24h
    reserve op4 org 12 -> ok                                   # the 3 that are left go on: 13
    after 24h
    reserve op5 org 0 -> ok                                    # 1 is left of the second day
    balance org@1 carried_on=3 carried=0
    balance org@2 carried_on=1 carried=3
    balance org available=11 carried=1
    charge op2 0 -> ok                                         # the first day has left all that it may
    balance org@1 available=2 carried_on=3
    balance org available=11 carried=1
    fin: charge op1 7 accept=agreed -> ok                      # 3 more: 2 are there, and 1 is taken back
    balance org@1 available=0 carried_on=2
    balance org available=10 carried=0
    charge op3 0 -> ok                                         # so that 1 may go on
    balance org@1 available=0 carried_on=3
    balance org available=11 carried=1
    """)


def test_what_is_missing_later_is_borne_by_the_open_period_whatever_lapsed_between() -> None:
    """In time the second day, of whose 11 the cap let 3 go on, would have borne it: what lapsed there stays lapsed."""
    run("""
    adm: budget org USD 10 day=UTC rollover=cap:3 -> ok
    reserve op1 org 9 nonce=n1 -> ok send
    at 2025-03-03T12:00Z                                       # nobody came on the 2nd
    reserve op2 org 0 -> ok
    balance org@1 carried_on=1
    balance org available=13 carried=3
    fin: charge op1 11 accept=agreed -> ok
    balance org@1 available=0 deficit=0 carried_on=-1
    balance org available=11 carried=1
    """)


def test_a_reservation_that_runs_out_later_is_carried_on() -> None:
    run("""
    adm: budget org USD 10 day=UTC rollover=all -> ok
    at 2025-03-01T23:50Z
    reserve op1 org 10 ttl=15m -> ok
    at 2025-03-02T00:01Z
    reserve op2 org 10 -> ok
    reserve op3 org 1 -> INSUFFICIENT_BUDGET available=0
    at 2025-03-02T00:05Z
    sys: lapse op1 -> ok
    balance org available=10 carried=10
    reserve op4 org 10 -> ok
    """)


def test_what_is_missing_later_takes_what_was_left_there_first() -> None:
    run("""
    adm: budget none USD 10 day=UTC -> ok
    adm: budget all USD 10 day=UTC rollover=all -> ok
    adm: budget cap USD 10 day=UTC rollover=cap:3 -> ok
    reserve op1 all,cap,none 5 nonce=n1 -> ok send
    after 24h
    reserve new all,cap,none 12 -> INSUFFICIENT_BUDGET budget_id=none
    reserve new2 all,cap,none 10 -> ok                         # 5 are left: all have 5 more, cap 3
    balance cap@1 available=2
    fin: charge op1 8 accept=agreed -> ok                      # 3 more than was held
    balance none@1 available=2 deficit=0
    balance none available=0 deficit=0
    balance all@1 available=0 deficit=0
    balance all available=2 carried=2                          # 5 - 3
    balance cap@1 available=0 deficit=0                        # 2 were left there
    balance cap available=2 carried=2                          # the third is taken back
    """)


def test_what_is_missing_later_may_be_more_than_the_new_period_has() -> None:
    run("""
    adm: budget org USD 10 day=UTC rollover=all -> ok
    reserve op1 org 10 nonce=n1 -> ok send
    after 24h
    reserve op2 org 9 -> ok
    fin: charge op1 13 accept=agreed -> ok
    balance org@1 available=0 deficit=0 spent=13 authority=13
    balance org available=0 deficit=2 held=9 authority=7 carried=-3
    release op2 -> ok                                          # repays first
    balance org available=7 deficit=0
    """)


def test_a_correction_in_a_closed_period_is_carried_on() -> None:
    run("""
    adm: budget org USD 10 day=UTC rollover=all -> ok
    reserve op1 org 4 nonce=n1 -> ok send
    charge op1 4 -> ok
    reserve op2 org 2 -> ok
    release op2 -> ok
    after 24h
    reserve new org 1 -> ok
    balance org carried=6 available=15
    fin: correct op1 charge 3 -> ok                            # 1 less than was booked
    balance org@1 spent=3 available=0 authority=3
    balance org carried=7 available=16
    fin: correct op2 charge 5 accept=billed -> ok              # it was made after all
    balance org@1 spent=8 available=0 deficit=0 authority=8
    balance org carried=2 available=11
    gw: cancel new -> ok RESERVATION
    balance org available=12
    """)


def test_what_comes_free_later_repays_first() -> None:
    run("""
    adm: budget org USD 10 day=UTC -> ok
    reserve op1 org 5 nonce=n1 -> ok send
    reserve op2 org 5 nonce=n2 -> ok send
    fin: charge op1 9 accept=agreed -> ok
    after 24h
    reserve op3 org 1 -> ok
    balance org@1 deficit=4
    adm: update org rollover=all -> ok                         # too late for what was missing at the boundary
    charge op2 0 -> ok                                         # 5 come free, 4 of them repay
    balance org@1 deficit=0 available=0 spent=9 authority=9
    balance org available=10 carried=1
    """)


def test_what_was_left_before_the_policy_changed_stays_where_it_is() -> None:
    run("""
    adm: budget org USD 10 day=UTC -> ok
    reserve op1 org 4 nonce=n1 -> ok send
    after 24h
    reserve op2 org 1 -> ok
    adm: update org rollover=all -> ok
    charge op1 1 -> ok                                         # 6 were left, 3 come free
    balance org@1 available=6 authority=7
    balance org available=12 carried=3
    adm: update org rollover=none -> ok
    reserve op3 org 1 nonce=n3 -> ok send
    after 24h
    reserve op4 org 1 -> ok
    balance org carried=0 available=9
    """)
