"""Usage at the rates of a card. Rates are per million tokens unless written out."""

import pytest

from tests.domain.table import run

ORG = "    adm: budget org USD 1000 -> ok\n"


def test_cache_creation_input_and_output_are_priced_apart() -> None:
    # 3 * 3 + 12304 * 3.75 + 550 * 15 = 9 + 46140 + 8250 = 54399
    run(
        ORG
        + """
    adm: card claude USD in=3 write=3.75 out=15 -> ok
    reserve op1 org card=claude in=20000 out=1000 nonce=n1 -> ok send
    quote op1 amount=0.09 in=20000@3.75 out=1000@15
    usage op1 in=3 write=12304 out=550 -> ok
    balance org spent=0.054399
    expense acme claude 0.054399
    """
    )


def test_cached_tokens_are_beside_the_other_input() -> None:
    # prompt 2006 of which 1920 cached: 86 * 2 + 1920 * 0.5 + 300 * 8 = 172 + 960 + 2400 = 3532
    run(
        ORG
        + """
    adm: card gpt USD in=2 cached=0.5 out=8 -> ok
    reserve op1 org card=gpt in=3000 out=300 nonce=n1 -> ok send
    usage op1 in=86 cached=1920 out=300 -> ok
    balance org spent=0.003532
    """
    )


def test_eighty_of_a_hundred_thousand_tokens_from_the_cache() -> None:
    # 20000 * 1.25 + 80000 * 0.125 = 25000 + 10000
    run(
        ORG
        + """
    adm: card gpt USD in=1.25 cached=0.125 -> ok
    reserve op1 org card=gpt in=100000 nonce=n1 -> ok send
    usage op1 in=20000 cached=80000 -> ok
    balance org spent=0.035
    """
    )


def test_a_negative_line_rejects_the_evidence() -> None:
    run(
        ORG
        + """
    adm: card gpt USD in=1.25 cached=0.125 -> ok
    reserve op1 org card=gpt in=100000 nonce=n1 -> ok send
    usage op1 in=-20000 cached=80000 -> EVIDENCE_REJECTED says="input_tokens is negative"
    hold op1 DISPATCHING
    """
    )


def test_reasoning_inside_the_output_and_thoughts_beside_it_are_both_output() -> None:
    # 14746 * 30 + 1944 * 180 = 442380 + 349920 = 792300; 9 * 0.30 + 22 * 2.50 = 2.7 + 55 = 57.7
    run(
        ORG
        + """
    adm: card pro USD in=30 out=180 -> ok
    adm: card flash USD in=0.30 out=2.50 -> ok
    reserve op1 org card=pro in=15000 out=2000 nonce=n1 -> ok send
    reserve op2 org card=flash in=10 out=30 nonce=n2 -> ok send
    usage op1 in=14746 out=1944 -> ok
    hold op1 SETTLED settled=0.7923
    usage op2 in=9 out=22 -> ok
    hold op2 SETTLED settled=0.0000577
    """
    )


def test_one_threshold_for_the_request_chosen_by_the_whole_prompt() -> None:
    # the prompt is 200 + 2000 + 400 = 2600 > 2000: 200 * 6 + 2000 * 0.6 + 400 * 7.5 + 10 * 20 = 1200 + 1200 + 3000 + 200
    run(
        ORG
        + """
    adm: card gpt USD in=3 cached=0.3 write=3.75 out=15 in>2000=6 cached>2000=0.6 write>2000=7.5 out>2000=20 -> ok
    reserve op1 org card=gpt in=3000 out=100 nonce=n1 -> ok send
    usage op1 in=200 cached=2000 write=400 out=10 -> ok
    hold op1 SETTLED settled=0.0056
    reserve op2 org card=gpt in=3000 out=100 nonce=n2 -> ok send
    usage op2 in=1600 cached=400 out=10 -> ok                  # 2000 is not above 2000: 4800 + 120 + 150
    hold op2 SETTLED settled=0.00507
    """
    )


def test_of_two_thresholds_the_highest_that_was_passed_applies() -> None:
    run(
        ORG
        + """
    adm: card gpt USD in>100=3 in=1 in>200=2 -> ok             # dearest in the middle
    reserve op1 org card=gpt in=100 nonce=n1 -> ok send
    quote op1 in=100@1
    reserve op2 org card=gpt in=200 nonce=n2 -> ok send
    quote op2 in=200@3
    reserve op3 org card=gpt in=300 nonce=n3 -> ok send
    quote op3 in=300@3
    usage op1 in=100 -> ok
    usage op2 in=200 -> ok
    usage op3 in=300 -> ok
    hold op1 SETTLED settled=0.0001
    hold op2 SETTLED settled=0.0006
    hold op3 SETTLED settled=0.0006
    """
    )


def test_asked_for_priority_and_served_standard_is_priced_by_the_tier_that_served() -> None:
    run(
        ORG
        + """
    adm: card gpt USD in=2 out=10 in@priority=4 out@priority=20 in@flex=1 out@flex=5 -> ok
    reserve op1 org card=gpt in=1000 out=100 tier=priority nonce=n1 -> ok send
    usage op1 in=1000 out=100 tier=flex -> EVIDENCE_REJECTED says="served tier flex is not in the quote"
    usage op1 in=1000 out=100 tier=standard -> ok
    hold op1 SETTLED settled=0.003                              # 1000 * 2 + 100 * 10 = 3000
    reserve op2 org card=gpt in=1000 out=100 tier=priority nonce=n2 -> ok send
    usage op2 in=1000 out=100 -> ok                             # not said: the tier that was asked for
    hold op2 SETTLED settled=0.006
    """
    )


def test_a_tier_that_prices_fewer_buckets_than_the_standard_one() -> None:
    run(
        ORG
        + """
    adm: card gpt USD in=2 cached=1 out=10 in@priority=4 -> ok
    reserve op1 org card=gpt in=1000 out=100 tier=priority nonce=n1 -> ok send
    quote op1 in=1000@4 out=100@10
    usage op1 in=500 cached=500 out=0 tier=priority -> EVIDENCE_REJECTED says="cache_read_tokens has no price"
    usage op1 in=500 cached=500 out=0 tier=standard -> ok       # 1000 + 500
    hold op1 SETTLED settled=0.0015
    """
    )


def test_a_card_that_sells_one_tier_only() -> None:
    run(
        ORG
        + """
    adm: card batch USD in@batch=1 -> ok
    reserve op1 org card=batch in=10 -> UNQUOTABLE field=quote.metered.service_tier
    reserve op2 org card=batch in=10 tier=batch nonce=n2 -> ok send
    quote op2 service_tiers=batch
    usage op2 in=10 tier=standard -> EVIDENCE_REJECTED says="served tier standard is not in the quote"
    usage op2 in=10 -> ok
    """
    )


def test_a_tool_costs_its_fee_for_each_call_that_was_reported() -> None:
    run(
        ORG
        + """
    adm: card gpt USD in=3 searches=10/1000 -> ok
    reserve op1 org card=gpt in=1000 searches=5 nonce=n1 -> ok send
    quote op1 amount=0.053 in=1000@3 searches=5@10              # 0.003 + 5 * 10 / 1000
    usage op1 in=1000 -> ok                                     # declared, not used
    hold op1 SETTLED settled=0.003
    reserve op2 org card=gpt in=1000 searches=5 nonce=n2 -> ok send
    usage op2 in=1000 searches=2 -> ok
    hold op2 SETTLED settled=0.023
    reserve op3 org card=gpt in=1000 nonce=n3 -> ok send
    quote op3 in=1000@3 searches=0@10
    usage op3 in=1000 searches=1 -> EVIDENCE_REJECTED says="amount 0.013 is above hold 0.003"
    """
    )


@pytest.mark.parametrize("asked", ["", "requests=0", "requests=1"])
def test_a_fee_per_request_is_due_for_one_request_at_least(asked: str) -> None:
    run(
        ORG
        + f"""
    adm: card gpt USD in=3 requests=5/1000 -> ok
    reserve op1 org card=gpt in=1000 {asked} nonce=n1 -> ok send
    quote op1 amount=0.008 in=1000@3 requests=1@5
    usage op1 in=1000 -> ok                                     # not reported, yet it was one request
    hold op1 SETTLED settled=0.008
    """
    )


def test_a_ceiling_passed_within_the_amount_is_no_refusal() -> None:
    run(
        ORG
        + """
    adm: card gpt USD in=3 out=15 -> ok
    reserve op1 org card=gpt in=1000 out=100 nonce=n1 -> ok send
    usage op1 in=1500 out=0 -> ok                               # 0.0045 = the amount that was quoted
    hold op1 SETTLED settled=0.0045
    """
    )


def test_a_price_for_any_number_of_units_is_rounded_once_half_even() -> None:
    # 2 / 3 = 0.666…667; 1 * 10^-18 / 2 = 0.5 * 10^-18 → 0; 3 * 10^-18 / 2 = 1.5 * 10^-18 → 2 * 10^-18
    run(
        ORG
        + """
    adm: card thirds USD requests=2/3 -> ok
    reserve op1 org card=thirds nonce=n1 -> ok send
    usage op1 requests=1 -> ok
    hold op1 SETTLED settled=0.666666666666666667
    adm: card dust USD searches=0.000000000000000001/2 -> ok
    reserve op2 org card=dust searches=3 nonce=n2 -> ok send
    usage op2 searches=1 -> ok
    hold op2 SETTLED settled=0
    reserve op3 org card=dust searches=3 nonce=n3 -> ok send
    usage op3 searches=3 -> ok
    hold op3 SETTLED settled=0.000000000000000002
    """
    )


def test_a_quote_leaves_room_for_the_rounding_of_each_of_its_lines() -> None:
    # 3 + 3 tokens at 0.5 * 10^-18 each: each line of 1.5 is rounded to 2, together 4, although 6 * 0.5 = 3
    run(
        ORG
        + """
    adm: card dust USD in=0.000000000000000001/2 cached=0.000000000000000001/2 -> ok
    reserve op1 org card=dust in=6 nonce=n1 -> ok send
    quote op1 amount=0.000000000000000004
    usage op1 in=3 cached=3 -> ok
    hold op1 SETTLED settled=0.000000000000000004
    reserve op2 org card=dust in=0 -> ok
    quote op2 amount=0
    """
    )


def test_of_prices_for_different_units_the_dearer_one_is_quoted() -> None:
    run(
        ORG
        + """
    adm: card mixed USD in=1/3 cached=400000/1000000 write=7/21 -> ok      # a third, 0.4, a third
    reserve op1 org card=mixed in=10 -> ok
    quote op1 amount=4.000000000000000001 in=10@400000          # 10 * 0.4, and two lines that may be rounded up
    """
    )


def test_a_card_that_prices_long_prompts_only_has_no_quote_for_a_short_one() -> None:
    run(
        ORG
        + """
    adm: card long USD in>1000=3 out>1000=5 -> ok
    reserve op1 org card=long in=1000 out=1 -> UNQUOTABLE field=quote.metered.ceilings[input_tokens] says="at most 1000 tokens"
    reserve op2 org card=long in=1001 out=1 nonce=n2 -> ok send
    usage op2 in=1000 out=1 -> EVIDENCE_REJECTED says="input_tokens has no price on the card in tier standard"
    usage op2 in=1001 out=1 -> ok
    """
    )


def test_what_the_ledger_cannot_hold_has_no_quote_and_settles_nothing() -> None:
    run(
        ORG
        + """
    adm: budget all USD unlimited -> ok
    adm: card gold USD in=99999999999999999999/1 -> ok
    reserve op1 all card=gold in=2 -> UNQUOTABLE field=quote.metered.ceilings says="lower the ceilings"
    reserve op2 all card=gold in=1 nonce=n2 -> ok send
    fin: usage op2 in=2 accept=agreed -> EVIDENCE_REJECTED says="above what the ledger can hold"
    usage op2 in=1 -> ok
    hold op2 SETTLED settled=99999999999999999999
    """
    )


def test_a_hold_is_settled_by_the_version_of_the_card_that_it_was_quoted_by() -> None:
    run(
        ORG
        + """
    adm: card gpt USD in=3 -> ok
    reserve op1 org card=gpt in=1000 nonce=n1 -> ok send
    adm: card gpt USD in=30 -> ok
    reserve op2 org card=gpt in=1000 nonce=n2 -> ok send
    reserve op3 org card=gpt/1 in=1000 nonce=n3 -> ok send
    quote op1 card_version=1 amount=0.003
    quote op2 card_version=2 amount=0.03
    quote op3 card_version=1 amount=0.003
    usage op1 in=1000 -> ok
    usage op2 in=1000 -> ok
    usage op3 in=1000 -> ok
    balance org spent=0.036
    """
    )
