"""Evidence that does not settle: it is kept with the reason, and the hold stays as it was."""

import pytest

from ledger.domain.evidence import reprice
from ledger.domain.model import Classification, Role
from ledger.domain.policies import BUILT_IN, EvidencePolicy, Rule
from tests.domain.table import run

HOLDS = """
    adm: budget org USD 10 -> ok
    adm: card gpt USD in=3 out=15 in@priority=6 aliases=gpt-2025 -> ok
    reserve tokens org card=gpt in=1000 out=100 nonce=n1 -> ok send
    reserve refund org 5 nonce=n2 -> ok send
"""


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        ("usage tokens in=1 out=1 provider=other", "provider is other, quoted was acme"),
        ('usage tokens in=1 out=1 provider=""', "provider is not given, quoted was acme"),
        ("usage tokens in=1 out=1 model=claude", "served model claude is not gpt or one of its aliases"),
        ("usage tokens in=1 out=1 tier=priority", "served tier priority is not in the quote"),
        ("usage tokens in=1 out=-1", "output_tokens is negative"),
        ("usage tokens in=1", "output_tokens is absent, which is not zero"),
        ("usage tokens in=1 out=1 searches=1", "web_searches has no price on the card in tier standard"),
        ("usage tokens in=1 out=1 defects=too-many-cached", "too-many-cached"),
        ("charge tokens 1", "a METERED quote is resolved by usage, not by an amount"),
        ("usage tokens in=1001 out=101", "amount 0.004518 is above hold 0.0045 and tolerance 0"),
        ("usage tokens in=1 out=1 attempt=7", "attempt 7 is not the hold's attempt 1"),
        ("usage tokens in=1 out=1 source=GATEWAY_ESTIMATE", "GATEWAY_ESTIMATE is not authoritative from role gateway"),
        ("usage tokens in=1 out=1 source=STATEMENT", "source STATEMENT is not authoritative from role gateway"),
        ("usage tokens in=1 out=1 source=OPERATOR", "source OPERATOR is not authoritative from role gateway"),
        ("usage refund in=1 out=1", "a FIXED quote is resolved by the amount charged, which is absent"),
        ("charge refund 5 currency=EUR", "charged in EUR, the hold is in USD"),
        ("charge refund 5 provider=other", "provider is other, quoted was acme"),
        ("charge refund 5 model=other", "served model other is not refunds or one of its aliases"),
        ("charge refund 5.01", "amount 5.01 is above hold 5 and tolerance 0"),
    ],
)
def test_a_reason(report: str, reason: str) -> None:
    operation = report.split()[1]
    kept = "ESTIMATE" if "ESTIMATE" in report else "REJECTED"
    run(
        HOLDS
        + f"""
    {report} -> EVIDENCE_REJECTED operation_id={operation} state=DISPATCHING says="{reason}"
    hold {operation} DISPATCHING
    evidence {operation} {kept}
    unknown {operation} -> ok
    {report} -> EVIDENCE_REJECTED operation_id={operation} state=OUTCOME_UNKNOWN recovery_action=no_replay
    hold {operation} OUTCOME_UNKNOWN
    entries {operation} RESERVE OUTCOME_UNKNOWN
    """
    )


def test_every_reason_is_given_at_once() -> None:
    world = run(
        HOLDS
        + """
    usage tokens in=-1 out=-1 provider=other source=GATEWAY_ESTIMATE -> EVIDENCE_REJECTED
    """
    )
    assert world.evidence[0].reasons == (
        "provider is other, quoted was acme",
        "source GATEWAY_ESTIMATE is not authoritative from role gateway",
        "input_tokens is negative",
        "output_tokens is negative",
    )


@pytest.mark.parametrize("report", ["model=gpt", "model=gpt-2025", "", "tier=standard", "response=msg-1"])
def test_a_name_of_the_model_or_none_is_the_same_fact(report: str) -> None:
    run(
        HOLDS
        + f"""
    usage tokens in=10 out=10 {report} -> ok
    usage tokens in=10 out=10 cached=0 -> unchanged replayed        # lines of zero are not part of the fact
    """
    )


def test_a_statement_and_an_operators_word_are_finances_to_bring() -> None:
    run(
        HOLDS
        + """
    fin: usage tokens in=10 out=10 source=STATEMENT -> ok
    fin: charge refund 4 source=OPERATOR -> ok
    """
    )


def test_nobodys_own_count_is_authoritative() -> None:
    claimed = Rule("GATEWAY_ESTIMATE", Role.FINANCE, Classification.AUTHORITATIVE)
    for policy in (BUILT_IN, EvidencePolicy("t1", "acme", 1, (claimed,))):
        for role in Role:
            assert policy.standing("GATEWAY_ESTIMATE", role) is Classification.ESTIMATE
    assert {rule.role for rule in BUILT_IN.rules} == {Role.GATEWAY, Role.FINANCE}
    assert "GATEWAY_ESTIMATE" not in {rule.evidence for rule in BUILT_IN.rules}


def test_a_fixed_quote_without_a_model_takes_any() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 5 provider=shop model="" nonce=n1 -> ok send
    charge op1 4 provider=shop model=anything -> ok
    """)


def test_the_observation_is_kept_as_it_was_brought() -> None:
    world = run(
        HOLDS
        + """
    usage tokens in=10 out=5 receipt=r1 response=msg-1 observed=10:00 document={} flavor=openai.chat tier=standard \
        read_model=gpt-2025 -> ok
    charge refund 4.50 -> ok
    """
    )
    tokens, refund = world.evidence
    assert tokens.body == {
        "provider": "acme",
        "model": "gpt-2025",
        "tier": "standard",
        "buckets": {"input_tokens": "10", "output_tokens": "5"},
        "document": "{}",
        "flavor": "openai.chat",
        "stated": ["", "standard"],
        "response_id": "msg-1",
    }
    assert (tokens.provider_receipt, tokens.attempt, tokens.actor) == ("r1", 1, "gw")
    provenance = (tokens.source, tokens.adapter, tokens.adapter_revision, tokens.policy, tokens.classification)
    assert provenance == ("PROVIDER_RESPONSE", "sdk", "7", "#built-in/1", "AUTHORITATIVE")
    assert (refund.body or {})["charged"] == ["4.5", "USD"]
    lines = world.resolutions[0].lines
    assert lines == (
        {"bucket": "input_tokens", "quantity": "10", "rate": "3", "per": "1000000", "amount": "0.00003"},
        {"bucket": "output_tokens", "quantity": "5", "rate": "15", "per": "1000000", "amount": "0.000075"},
    )


def test_usage_of_a_hold_whose_card_is_gone_cannot_be_priced_and_not_repriced_as_nothing() -> None:
    world = run(HOLDS)
    hold = world.holds[("t1", "tokens")]
    world.cards.clear()
    run(
        """
    usage tokens in=10 out=10 -> EVIDENCE_REJECTED says="price card gpt version 1 is missing"
    """,
        world,
    )
    with pytest.raises(ValueError, match="price card gpt version 1 is missing"):
        reprice(hold.quote, None, world.evidence[0].body or {})
