"""Who gets a hold, and who does not."""

from tests.domain.table import run


def test_of_eight_reserves_at_once_that_each_take_nine_tenths_one_is_admitted() -> None:
    run("""
    adm: budget org USD 1.00 -> ok
    reserve op1 org 0.90 -> ok
    | reserve op2 org 0.90 -> INSUFFICIENT_BUDGET budget_id=org amount=0.9 limit=1 available=0.1 held=0.9 currency=USD
    | reserve op3 org 0.90 -> INSUFFICIENT_BUDGET
    | reserve op4 org 0.90 -> INSUFFICIENT_BUDGET
    | reserve op5 org 0.90 -> INSUFFICIENT_BUDGET
    | reserve op6 org 0.90 -> INSUFFICIENT_BUDGET
    | reserve op7 org 0.90 -> INSUFFICIENT_BUDGET
    | reserve op8 org 0.90 -> INSUFFICIENT_BUDGET
    balance org authority=1 available=0.1 held=0.9 unknown=0 spent=0
    """)


def test_a_budget_of_a_billionth_admits_nothing_even_when_it_is_opened_in_the_same_batch() -> None:
    run("""
    adm: budget org USD 0.000000001 -> ok
    | reserve op1 org 0.90 -> INSUFFICIENT_BUDGET available=0.000000001
    | reserve op2 org 0.000000001 -> ok
    | adm: grant org 1 -> ok
    | reserve op3 org 0.90 -> ok
    balance org authority=1.000000001 available=0.1 held=0.900000001
    """)


def test_open_holds_count() -> None:
    run("""
    adm: budget org USD 5000 -> ok
    reserve op1 org 1000 -> ok
    reserve op2 org 1000 -> ok
    reserve op3 org 1000 -> ok
    reserve op4 org 1000 nonce=n4 -> ok send
    reserve op5 org 1000 nonce=n5 -> ok send
    unknown op5 -> ok
    reserve op6 org 1000 -> INSUFFICIENT_BUDGET available=0 held=4000 unknown=1000 spent=0 deficit=0
    balance org available=0 held=4000 unknown=1000
    """)


def test_exactly_what_is_left_is_admitted_and_one_unit_of_the_last_place_more_is_not() -> None:
    run("""
    adm: budget org USD 1 -> ok
    reserve op1 org 0.000000000000000001 -> ok
    reserve op2 org 1 -> INSUFFICIENT_BUDGET available=0.999999999999999999
    reserve op3 org 0.999999999999999999 -> ok
    balance org available=0 held=1
    """)


def test_ten_thousand_requests_of_five_hundred_millionths_of_a_cent_come_to_exactly_five_hundredths_of_a_cent() -> None:
    run("""
    adm: budget org USD 0.0005 -> ok
    adm: card gpt USD requests=5e-8/1 -> ok
    reserve op1 org card=gpt requests=10000 nonce=n1 -> ok send   # 10000 * 0.00000005 = 0.0005
    usage op1 requests=10000 -> ok
    balance org available=0 spent=0.0005
    """)


def test_a_call_without_an_output_limit_and_without_a_limit_of_the_model_has_no_quote() -> None:
    run("""
    adm: budget org USD 100 -> ok
    adm: card open USD in=3 out=15 max_in=1000 -> ok
    reserve op1 org card=open in=10 -> UNQUOTABLE field=quote.metered.ceilings[output_tokens] says=output_tokens
    hold op1 none
    reserve op2 org card=open in=10 out=0 -> ok
    balance org available=99.99997 held=0.00003        # 10 * 3 / 1000000
    """)


def test_a_ceiling_above_the_models_own_is_lowered_to_it_and_the_quote_says_so() -> None:
    run("""
    adm: budget org USD 100 -> ok
    adm: card gpt USD in=3 out=15 max_in=100000 max_out=16384 -> ok
    reserve op1 org card=gpt in=1000 out=999999999 -> ok
    quote op1 amount=0.24876 in=1000@3 out=16384@15 clamped=output_tokens   # 0.003 + 16384 * 15 / 1000000 = 0.24576
    reserve op2 org card=gpt -> ok
    quote op2 amount=0.54576 in=100000@3 out=16384@15 clamped=none          # nothing asked: the model's own limits
    """)


def test_a_long_prompt_is_quoted_at_the_highest_rate_that_can_apply() -> None:
    run("""
    adm: budget org USD 100 -> ok
    adm: card gpt USD in=2 cached=0.2 write=2.5 in>272000=4 cached>272000=0.4 write>272000=5 out=12 out>272000=18 -> ok
    reserve op1 org card=gpt in=300000 out=1000 -> ok
    quote op1 amount=1.518 in=300000@5 out=1000@18         # 300000 * 5 / 1000000 = 1.5; 1000 * 18 / 1000000 = 0.018
    reserve op2 org card=gpt in=272000 out=1000 -> ok
    quote op2 amount=0.692 in=272000@2.5 out=1000@12       # at the threshold, not above it: 0.68 + 0.012
    """)


def test_a_service_tier_is_quoted_at_the_higher_of_it_and_the_standard_one_that_may_serve_instead() -> None:
    run("""
    adm: budget org USD 100 -> ok
    adm: card gpt USD in=2 in@priority=4 in@flex=1 out=10 out@priority=20 out@flex=5 -> ok
    reserve op1 org card=gpt in=1000 out=1000 tier=priority -> ok
    quote op1 amount=0.024 in=1000@4 out=1000@20 service_tier=priority service_tiers=priority,standard
    reserve op2 org card=gpt in=1000 out=1000 tier=flex -> ok
    quote op2 amount=0.012 in=1000@2 out=1000@10
    reserve op3 org card=gpt in=1000 out=1000 tier=turbo -> UNQUOTABLE field=quote.metered.service_tier says=turbo
    """)


def test_what_is_not_on_a_card_has_no_quote_and_an_explicit_amount_is_the_only_other_way() -> None:
    run("""
    adm: budget org USD 100 -> ok
    adm: card gpt USD in=3 out=15 max_in=1000 max_out=1000 aliases=gpt-1 -> ok
    reserve op1 org card=claude in=1 out=1 -> UNQUOTABLE field=quote.metered.card_id says=claude
    reserve op2 org card=gpt model=gpt-2 in=1 out=1 -> UNQUOTABLE field=quote.metered.model says=gpt-2
    reserve op3 org card=gpt searches=1 -> UNQUOTABLE field=quote.metered.ceilings[web_searches] says=web_searches
    reserve op4 org card=gpt/2 -> UNQUOTABLE field=quote.metered.card_id
    hold op1 none
    reserve op5 org card=gpt model=gpt-1 in=1 out=1 searches=0 -> ok
    reserve op6 org 0.50 model=claude -> ok
    quote op6 kind=FIXED amount=0.5
    """)


def test_a_price_of_zero_is_a_price_and_is_admitted_when_the_budget_is_used_up() -> None:
    run("""
    adm: budget org USD 1 -> ok
    adm: card free USD in=0 out=0 max_in=1000 max_out=1000 -> ok
    reserve op1 org 1 -> ok
    reserve op2 org card=free nonce=n2 -> ok send
    quote op2 amount=0
    usage op2 in=900 out=900 -> ok
    hold op2 SETTLED settled=0 attempt=1
    entries op2 none                                       # nothing moved: the hold is the record
    reserve op3 org 0 -> ok
    release op3 -> ok
    entries op3 none
    """)


def test_a_limit_of_zero_is_nothing_and_no_limit_is_unlimited() -> None:
    run("""
    adm: budget none USD 0 -> ok
    adm: budget all USD unlimited -> ok
    reserve op1 none 0.01 -> INSUFFICIENT_BUDGET available=0
    reserve op2 all 1000000 nonce=n2 -> ok send
    balance all authority=0 available=-1000000 held=1000000
    charge op2 999999 -> ok
    balance all authority=0 available=-999999 held=0 spent=999999 deficit=0
    reserve op3 all 1 nonce=n3 -> ok send
    fin: charge op3 3 accept=agreed -> ok
    balance all available=-1000002 spent=1000002 deficit=0   # without a floor nothing is ever missing
    """)


def test_a_hold_in_another_currency_is_refused() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 1 currency=EUR -> CURRENCY_MISMATCH budget_id=org currency=EUR budget_currency=USD
    adm: card gpt EUR requests=1/1 -> ok
    reserve op2 org card=gpt -> CURRENCY_MISMATCH
    hold op1 none
    """)


def test_a_closed_budget_takes_no_reserve_and_no_grant_but_settles_what_is_open() -> None:
    run("""
    adm: budget org USD 10 -> ok
    adm: budget team USD 10 under=org -> ok
    reserve op1 team 1 nonce=n1 -> ok send
    reserve op2 team 1 -> ok
    adm: close org -> ok
    reserve op3 team 1 -> BUDGET_CLOSED budget_id=org
    adm: grant org 1 -> BUDGET_CLOSED budget_id=org
    dispatch op2 nonce=n2 -> BUDGET_CLOSED budget_id=org
    hold op2 RESERVED
    charge op1 1 -> ok
    release op2 -> ok
    balance org available=9 spent=1
    """)


def test_an_exclusive_key_admits_one_open_hold() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 1 exclusive=order-1 -> ok
    | reserve op2 org 1 exclusive=order-1 -> EXCLUSIVE_HOLD exclusive_key=order-1 operation_id=op1
    | reserve op3 org 1 exclusive=order-2 -> ok
    reserve op4 org 1 exclusive=order-1 -> EXCLUSIVE_HOLD operation_id=op1
    dispatch op1 nonce=n1 -> ok send
    unknown op1 -> ok
    reserve op5 org 1 exclusive=order-1 -> EXCLUSIVE_HOLD operation_id=op1
    charge op1 1 -> ok
    reserve op6 org 1 exclusive=order-1 -> ok
    other/adm: budget org USD 10 -> ok
    other/gw: reserve op1 org 1 exclusive=order-1 -> ok     # another tenant's keys are its own
    """)


def test_a_refused_reserve_does_not_take_the_exclusive_key() -> None:
    run("""
    adm: budget org USD 1 -> ok
    reserve op1 org 2 exclusive=order-1 -> INSUFFICIENT_BUDGET
    | reserve op2 org 1 exclusive=order-1 -> ok
    """)


def test_no_balance_grows_beyond_what_the_ledger_can_hold() -> None:
    # The most is 20 digits before the point: two holds of 6 x 10^19 would be 12 x 10^19.
    run(
        """
    adm: budget all USD unlimited -> ok
    reserve op1 all 60000000000000000000 -> ok
    reserve op2 all 60000000000000000000 -> UNQUOTABLE budget_id=all
    fin: grant all 60000000000000000000 ref=a -> INVALID_FIELD field=amount
    fin: grant all 1 ref=b -> ok
    """
    )


def test_what_is_held_unknown_and_spent_fits_into_one_balance() -> None:
    # Each of them may come to be the sum of all three: 4, 4 and 4e19 would be 12e19 that are spent.
    run("""
    adm: budget all USD unlimited -> ok
    fin: grant all 50000000000000000000 -> ok
    reserve op1 all 40000000000000000000 nonce=n1 -> ok send
    unknown op1 -> ok
    reserve op2 all 40000000000000000000 -> ok
    reserve op3 all 40000000000000000000 -> UNQUOTABLE budget_id=all
    """)
