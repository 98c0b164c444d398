"""Cost above the hold: within tolerance or accepted by finance it is posted in full, and what the budget lacks is its DEFICIT."""

from tests.domain.table import run


def test_what_comes_free_repays_the_deficit_before_anything_is_available() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 5 nonce=n1 -> ok send
    reserve op2 org 5 nonce=n2 -> ok send
    fin: charge op1 7 accept="the provider's invoice says so" -> ok
    balance org available=0 held=5 spent=7 deficit=2        # 10 + 2 = 0 + 5 + 7
    charge op2 2 -> ok
    balance org available=1 held=0 spent=9 deficit=0        # 3 came free: 2 repaid, 1 left
    reserve op3 org 3 -> INSUFFICIENT_BUDGET available=1 amount=3 deficit=0
    reserve op4 org 1 -> ok
    """)


def test_a_deficit_that_is_not_wholly_repaid_leaves_nothing_available() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 5 nonce=n1 -> ok send
    reserve op2 org 5 nonce=n2 -> ok send
    fin: charge op1 9 accept=agreed -> ok
    balance org available=0 held=5 spent=9 deficit=4
    charge op2 2 -> ok
    balance org available=0 held=0 spent=11 deficit=1
    reserve op3 org 0.01 -> INSUFFICIENT_BUDGET available=0 deficit=1
    reserve op4 org 0 -> ok                                 # nothing is needed for nothing
    adm: grant org 1 -> ok
    balance org authority=11 available=0 deficit=0
    adm: grant org 3 ref=second -> ok
    balance org authority=14 available=3
    """)


def test_a_release_and_a_proof_of_no_cost_repay_as_well() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 4 nonce=n1 -> ok send
    reserve op2 org 3 -> ok
    reserve op3 org 3 nonce=n3 -> ok send
    fin: charge op1 8 accept=agreed -> ok
    balance org available=0 held=6 spent=8 deficit=4
    release op2 -> ok
    balance org available=0 held=3 spent=8 deficit=1
    proof op3 NEVER_SENT cause=DNS_FAILURE nonce=n3 -> ok
    balance org available=2 held=0 spent=8 deficit=0
    """)


def test_each_level_has_the_deficit_of_its_own_book() -> None:
    run("""
    adm: budget org USD 100 -> ok
    adm: budget team USD 10 under=org -> ok
    adm: budget key USD 6 under=team -> ok
    reserve op1 key 5 nonce=n1 -> ok send
    reserve op2 team 3 -> ok
    fin: charge op1 9 accept=agreed -> ok                   # 4 more than held
    balance org available=88 held=3 spent=9 deficit=0       # 100 - 3 - 9
    balance team available=0 held=3 spent=9 deficit=2       # had 2 of the 4
    balance key available=0 held=0 spent=9 deficit=3        # had 1 of the 4
    release op2 -> ok
    balance team available=1 held=0 spent=9 deficit=0
    balance key available=0 deficit=3
    """)


def test_cost_within_the_tolerance_needs_no_one() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 1.00 tolerance=0.20 nonce=n1 -> ok send
    charge op1 1.200000000000000001 -> EVIDENCE_REJECTED says="is above hold 1 and tolerance 0.2"
    charge op1 1.20 -> ok
    resolution op1 USAGE amount=1.2 cost_over_hold=0.2 reason=none
    balance org available=8.8 held=0 spent=1.2 deficit=0
    expense acme refunds 1.2
    """)


def test_cost_above_hold_and_tolerance_is_never_cut_and_only_finance_accepts_it_with_a_reason() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 1.00 nonce=n1 -> ok send
    charge op1 1.20 -> EVIDENCE_REJECTED says="finance may accept it with a reason"
    charge op1 1.20 accept="I say so" -> EVIDENCE_REJECTED says="only finance may accept it"
    fin: charge op1 1.20 -> EVIDENCE_REJECTED says="finance may accept it with a reason"
    balance org available=9 held=1 spent=0
    fin: charge op1 1.20 accept="ticket 7" -> ok
    resolution op1 USAGE amount=1.2 cost_over_hold=0.2 reason="ticket 7"
    charge op1 1.20 -> unchanged replayed                   # the same fact needs no second acceptance
    balance org available=8.8 held=0 spent=1.2
    """)


def test_an_overrun_of_an_unknown_outcome_leaves_the_unknown() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 9 nonce=n1 -> ok send
    unknown op1 -> ok
    fin: charge op1 12 accept=agreed -> ok
    balance org available=0 held=0 unknown=0 spent=12 deficit=2
    """)


def test_the_commands_of_a_batch_see_each_others_deficit() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 5 nonce=n1 -> ok send
    reserve op2 org 5 nonce=n2 -> ok send
    fin: charge op1 7 accept=agreed -> ok
    | charge op2 2 -> ok
    | reserve op3 org 3 -> INSUFFICIENT_BUDGET available=1
    | reserve op4 org 1 -> ok
    | adm: grant org 2 -> ok
    | reserve op5 org 2 -> ok
    balance org authority=12 available=0 held=3 spent=9 deficit=0
    """)


def test_a_cost_that_no_balance_can_hold_is_kept_and_not_booked() -> None:
    # The most is 20 digits before the point. 6 and 6e19 are more, for a budget and for the expenses of a provider.
    run("""
    adm: budget org USD unlimited -> ok
    adm: budget one USD 60000000000000000000 -> ok
    reserve op1 org 1 nonce=n1 -> ok send
    fin: charge op1 60000000000000000000 accept=agreed -> ok
    reserve op2 org 1 nonce=n2 -> ok send
    fin: charge op2 60000000000000000000 accept=agreed -> EVIDENCE_REJECTED says="book org#0 would be above"
    balance org held=1 spent=60000000000000000000
    fin: charge op2 1 accept=agreed -> ok
    reserve op3 one 60000000000000000000 nonce=n3 -> ok send
    fin: charge op3 60000000000000000000 -> EVIDENCE_REJECTED says="book of expenses would be above"
    balance one held=60000000000000000000 spent=0
    """)
