"""Served as asked: what served must be among what was quoted, and is what is priced; a passed ceiling is a flag."""

import pytest

from tests.domain.table import run

CALLS = """
    adm: budget org USD 100 -> ok
    adm: card gpt USD in=2 cached=1 out=10 in@priority=4 cached@priority=2 out@priority=20 in@flex=1 out@flex=5 \
        aliases=gpt-2025*,gpt-latest -> ok
    reserve op1 org card=gpt in=1000 out=100 tier=priority nonce=n1 -> ok send
    reserve op2 org card=gpt in=1000 out=100 nonce=n2 -> ok send
    reserve refund org 6 nonce=n3 -> ok send
"""


@pytest.mark.parametrize(
    ("served", "reason"),
    [
        ("tier=flex", "served tier flex is not in the quote"),
        ("read_tier=flex", "served tier flex is not in the quote"),
        ("tier=standard read_tier=priority", "the usage object says tier priority, stated was standard"),
        ("tier=turbo", "served tier turbo is not in the quote"),
        ("model=gpt-mini", "served model gpt-mini is not gpt or one of its aliases"),
        ("read_model=gpt-mini", "served model gpt-mini is not gpt or one of its aliases"),
        ("model=gpt-mini read_model=gpt", "served model gpt-mini is not gpt"),
        ("model=gpt read_model=gpt-mini", "served model gpt-mini is not gpt"),
    ],
)
def test_what_was_not_quoted_settles_nothing(served: str, reason: str) -> None:
    run(
        CALLS
        + f"""
    usage op1 in=1000 out=100 document={{}} flavor=f {served} -> EVIDENCE_REJECTED says="{reason}"
    hold op1 DISPATCHING settled=none
    evidence op1 REJECTED
    balance org spent=0
    usage op1 in=1000 out=100 document={{}}{{}} flavor=f read_tier=priority -> ok
    """
    )


@pytest.mark.parametrize(
    ("served", "settled"),
    [
        ("tier=standard", "0.003"),  # 1000 * 2 + 100 * 10
        ("read_tier=standard", "0.003"),
        ("read_tier=standard tier=priority", "0.006"),  # the caller's word goes before what was read
        ("read_tier=priority tier=priority", "0.006"),
        ("read_tier=priority", "0.006"),  # 1000 * 4 + 100 * 20
        ("", "0.006"),
        ("read_tier=standard read_model=gpt-2025-08-07", "0.003"),
        ("model=gpt-latest", "0.006"),
    ],
)
def test_asked_for_priority_it_is_priced_by_the_tier_that_served(served: str, settled: str) -> None:
    run(
        CALLS
        + f"""
    usage op1 in=1000 out=100 document={{}} flavor=f {served} -> ok
    hold op1 SETTLED settled={settled}
    """
    )


def test_a_dearer_tier_than_the_one_asked_for_is_not_in_the_quote() -> None:
    run(
        CALLS
        + """
    quote op2 service_tiers=standard
    usage op2 in=1 out=1 tier=priority -> EVIDENCE_REJECTED says="served tier priority is not in the quote"
    """
    )


@pytest.mark.parametrize(
    ("used", "settled", "passed"),
    [
        ("in=1000 out=100", "0.003", "none"),  # each at its ceiling
        ("in=1200 out=50", "0.0029", "input_tokens"),  # 1200 * 2 + 50 * 10
        ("in=600 cached=500 out=100", "0.0027", "input_tokens"),  # 600 * 2 + 500 * 1 + 100 * 10: they count together
        ("in=500 out=101 reasoning=50", "0.00251", "output_tokens"),  # 500 * 2 + (101 + 50) * 10
    ],
)
def test_a_ceiling_that_is_passed_within_the_amount_is_a_flag(used: str, settled: str, passed: str) -> None:
    run(
        CALLS
        + f"""
    quote op2 amount=0.003 in=1000@2 out=100@10
    usage op2 {used} -> ok
    resolution op2 USAGE amount={settled} passed_ceilings={passed} cost_over_hold=0
    """
    )


def test_ceilings_that_are_passed_above_the_amount_are_flagged_if_it_is_accepted() -> None:
    run(
        CALLS
        + """
    usage op2 in=1001 out=101 -> EVIDENCE_REJECTED says=above
    fin: usage op2 in=1001 out=101 accept=agreed -> ok
    resolution op2 USAGE passed_ceilings=input_tokens,output_tokens cost_over_hold=0.000012
    """
    )


def test_each_revision_has_its_own_flag_and_an_amount_has_none() -> None:
    run(
        CALLS
        + """
    usage op2 in=1200 out=50 -> ok
    fin: correct op2 usage in=900 out=50 -> ok
    resolution op2 USAGE revision=1 passed_ceilings=input_tokens
    resolution op2 USAGE revision=2 passed_ceilings=none
    charge refund 6 -> ok
    resolution refund USAGE passed_ceilings=none
    """
    )


def test_a_tool_that_was_not_quoted_and_was_used_is_flagged() -> None:
    run("""
    adm: budget org USD 100 -> ok
    adm: card gpt USD in=2 out=10 searches=1/1000 -> ok
    reserve op1 org card=gpt in=1000 out=1000 nonce=n1 -> ok send
    usage op1 in=10 out=10 searches=3 -> ok
    resolution op1 USAGE amount=0.00312 passed_ceilings=web_searches
    """)
