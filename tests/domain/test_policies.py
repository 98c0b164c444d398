"""The policy about a provider says who is believed about what; evidence names the revision that classified it."""

import hashlib

import pytest

from ledger.domain.model import Classification, Role
from ledger.domain.policies import BUILT_IN, EvidencePolicy, Rule
from tests.domain.table import run

HOLDS = """
    adm: budget org USD 100 -> ok
    reserve op1 org 6 nonce=n1 -> ok send
    reserve op2 org 6 nonce=n2 -> ok send
    reserve other org 6 provider=shop nonce=n3 -> ok send
"""


def test_a_policy_is_about_its_provider_from_its_version_on() -> None:
    world = run(
        HOLDS
        + """
    charge op1 7 source=WEBHOOK -> EVIDENCE_REJECTED
    adm: policy acme gw:WEBHOOK~ gw:PROVIDER_RECORD fin:STATEMENT -> ok
    charge op1 5 source=WEBHOOK -> EVIDENCE_REJECTED classification=CORROBORATING \
        says="source WEBHOOK from role gateway corroborates and does not settle, by policy acme#1"
    charge op1 5 source=PROVIDER_RESPONSE -> EVIDENCE_REJECTED classification=REJECTED \
        says="source PROVIDER_RESPONSE is not authoritative from role gateway"
    hold op1 DISPATCHING
    charge other 5 provider=shop source=WEBHOOK -> ok             # another provider
    fin: policy acme gw:WEBHOOK -> ok
    charge op1 5 source=WEBHOOK -> ok
    charge op2 5 source=PROVIDER_RECORD -> EVIDENCE_REJECTED
    other/adm: policy acme gw:WEBHOOK~ -> ok                      # another tenant
    charge op2 5 source=WEBHOOK -> ok
    """
    )
    names = [(e.operation_id, e.classification.value, e.policy) for e in world.evidence]
    assert names == [
        ("op1", "REJECTED", "#built-in/1"),
        ("op1", "CORROBORATING", "acme#1"),
        ("op1", "REJECTED", "acme#1"),
        ("other", "AUTHORITATIVE", "#built-in/1"),
        ("op1", "AUTHORITATIVE", "acme#2"),
        ("op2", "REJECTED", "acme#2"),
        ("op2", "AUTHORITATIVE", "acme#2"),
    ]


def test_a_policy_of_the_same_batch_holds_for_what_comes_after_it() -> None:
    run(
        HOLDS
        + """
    adm: policy acme gw:WEBHOOK -> ok
    | charge op1 5 source=PROVIDER_RECORD -> EVIDENCE_REJECTED
    | charge op2 5 source=WEBHOOK -> ok
    """
    )


def test_the_same_policy_again_is_the_same_version_and_a_key_gives_its_own() -> None:
    world = run("""
    adm: policy acme gw:WEBHOOK fin:WEBHOOK key=k1 -> ok
    adm: policy acme fin:WEBHOOK gw:WEBHOOK -> unchanged
    adm: policy acme gw:WEBHOOK key=k2 -> ok
    adm: policy acme gw:WEBHOOK fin:WEBHOOK key=k1 -> unchanged replayed
    adm: policy acme gw:STATEMENT key=k1 -> IDEMPOTENCY_MISMATCH
    """)
    assert [r.resource for r in world.receipts.values()] == ["acme#1", "acme#1", "acme#2"]
    assert [p.version for p in world.policies[("t1", "acme")]] == [1, 2]


def test_what_only_corroborates_shows_that_the_call_was_made() -> None:
    run("""
    adm: budget org USD 100 -> ok
    adm: policy acme gw:WEBHOOK~ gw:PROVIDER_RECORD -> ok
    reserve op1 org 6 -> ok
    charge op1 5 source=WEBHOOK receipt=r1 -> EVIDENCE_REJECTED state=RESERVED classification=CORROBORATING
    hold op1 DISPATCHING inferred=yes execution_seen=yes provider_receipt=r1
    charge op1 5 source=PROVIDER_RECORD receipt=r1 -> ok
    """)


def test_after_the_end_even_who_may_not_settle_is_heard() -> None:
    run(
        HOLDS
        + """
    adm: policy acme gw:WEBHOOK~ gw:PROVIDER_RECORD -> ok
    charge op1 5 source=PROVIDER_RECORD -> ok
    charge op1 5 source=WEBHOOK -> unchanged replayed
    charge op1 4 source=WEBHOOK -> RESOLUTION_CONFLICT amount=4 amount_in_force=5
    charge op1 5 source=WEBHOOK currency=EUR -> EVIDENCE_REJECTED
    charge op1 5 provider=shop source=WEBHOOK -> EVIDENCE_REJECTED
    evidence op1 AUTHORITATIVE CORROBORATING CONFLICTING REJECTED REJECTED
    incidents op1 RESOLUTION_CONFLICT
    """
    )


def test_a_source_that_a_policy_takes_for_an_estimate() -> None:
    run(
        HOLDS
        + """
    adm: policy acme gw:WEBHOOK? -> ok
    charge op1 5 source=WEBHOOK -> EVIDENCE_REJECTED classification=ESTIMATE
    charge op1 5 source=GATEWAY_ESTIMATE -> EVIDENCE_REJECTED classification=ESTIMATE
    charge op1 5 provider=shop source=GATEWAY_ESTIMATE -> EVIDENCE_REJECTED classification=REJECTED
    """
    )


def test_what_resolved_a_hold_stays_so_when_the_policy_changes() -> None:
    run(
        HOLDS
        + """
    charge op1 5 source=WEBHOOK -> ok
    proof op2 REJECTED_BEFORE_EXECUTION status=429 request=q1 -> ok
    adm: policy acme gw:PROVIDER_RECORD -> ok
    charge op1 5 source=WEBHOOK -> unchanged replayed
    charge op1 5 source=PROVIDER_RESPONSE -> EVIDENCE_REJECTED
    proof op2 REJECTED_BEFORE_EXECUTION status=429 request=q1 -> unchanged replayed
    """
    )


def test_a_policy_says_which_statuses_refuse_before_execution() -> None:
    run(
        HOLDS
        + """
    adm: policy acme gw:REJECTED_BEFORE_EXECUTION/529 fin:REJECTED_BEFORE_EXECUTION/429/529 -> ok
    proof op1 REJECTED_BEFORE_EXECUTION status=429 request=q1 -> EVIDENCE_REJECTED \
        says="status 429 does not say that the provider did not execute the call"
    proof op1 REJECTED_BEFORE_EXECUTION status=529 request=q1 -> ok
    fin: proof op2 REJECTED_BEFORE_EXECUTION status=429 request=q2 -> ok
    """
    )


def test_a_policy_about_proofs_does_not_lift_the_rules_of_proofs() -> None:
    run(
        HOLDS
        + """
    adm: policy acme gw:NEVER_SENT fin:NEVER_SENT gw:GATEWAY_CACHE_HIT~ -> ok
    proof op1 NEVER_SENT cause=DNS_FAILURE nonce=other -> EVIDENCE_REJECTED says="needs the nonce of the attempt"
    proof op1 GATEWAY_CACHE_HIT nonce=n1 -> EVIDENCE_REJECTED classification=CORROBORATING
    proof op1 GATEWAY_CACHE_HIT nonce=other -> EVIDENCE_REJECTED classification=REJECTED
    fin: proof op1 GATEWAY_CACHE_HIT -> EVIDENCE_REJECTED says="GATEWAY_CACHE_HIT is not authoritative from role finance"
    proof op1 REJECTED_BEFORE_EXECUTION status=429 request=q1 -> EVIDENCE_REJECTED \
        says="REJECTED_BEFORE_EXECUTION is not authoritative from role gateway"
    unknown op2 -> ok
    proof op2 NEVER_SENT cause=DNS_FAILURE nonce=n2 -> EVIDENCE_REJECTED says="needs a finance actor"
    fin: proof op2 NEVER_SENT cause=DNS_FAILURE -> ok
    proof op1 NEVER_SENT cause=DNS_FAILURE nonce=n1 -> ok
    """
    )


def test_a_policy_is_hashed_by_its_content_in_one_order() -> None:
    rules = (
        Rule("WEBHOOK", Role.GATEWAY, Classification.CORROBORATING),
        Rule("REJECTED_BEFORE_EXECUTION", Role.FINANCE, Classification.AUTHORITATIVE, (529, 429)),
    )
    canonical = (
        '{"rules":[{"evidence":"REJECTED_BEFORE_EXECUTION","role":"finance","standing":"AUTHORITATIVE",'
        '"statuses":["429","529"]},{"evidence":"WEBHOOK","role":"gateway","standing":"CORROBORATING"}]}'
    )
    expected = hashlib.sha256(b"ledger/evidence-policy/v1\n" + canonical.encode()).digest()
    for order in (rules, rules[::-1]):
        policy = EvidencePolicy("t1", "acme", 2, order)
        assert policy.digest == expected
        again = EvidencePolicy.from_document("t1", "acme", 2, policy.to_document())
        assert (again.digest, again.name) == (expected, "acme#2")
        assert set(again.rules) == {rules[0], rules[1]._replace(statuses=(429, 529))}


@pytest.mark.parametrize(
    ("evidence", "gateway", "finance"),
    [
        ("PROVIDER_RESPONSE", "AUTHORITATIVE", "AUTHORITATIVE"),
        ("PROVIDER_RECORD", "AUTHORITATIVE", "AUTHORITATIVE"),
        ("WEBHOOK", "AUTHORITATIVE", "AUTHORITATIVE"),
        ("STATEMENT", "REJECTED", "AUTHORITATIVE"),
        ("OPERATOR", "REJECTED", "AUTHORITATIVE"),
        ("GATEWAY_ESTIMATE", "ESTIMATE", "ESTIMATE"),
        ("NEVER_SENT", "AUTHORITATIVE", "AUTHORITATIVE"),
        ("REJECTED_BEFORE_EXECUTION", "AUTHORITATIVE", "AUTHORITATIVE"),
        ("GATEWAY_CACHE_HIT", "AUTHORITATIVE", "AUTHORITATIVE"),
    ],
)
def test_the_built_in_policy(evidence: str, gateway: str, finance: str) -> None:
    assert BUILT_IN.standing(evidence, Role.GATEWAY) == gateway
    assert BUILT_IN.standing(evidence, Role.FINANCE) == finance
    assert BUILT_IN.name == "#built-in/1"


def test_a_correction_goes_by_the_policy_too() -> None:
    world = run(
        HOLDS
        + """
    charge op1 5 -> ok
    adm: policy acme fin:STATEMENT fin:WEBHOOK~ -> ok
    fin: correct op1 charge 4 source=WEBHOOK -> EVIDENCE_REJECTED classification=CORROBORATING
    fin: correct op1 charge 4 source=OPERATOR -> EVIDENCE_REJECTED classification=REJECTED
    fin: correct op1 charge 4 source=STATEMENT -> ok
    balance org spent=4
    """
    )
    assert [e.policy for e in world.evidence] == ["#built-in/1", "acme#1", "acme#1", "acme#1"]


def test_a_record_that_nothing_was_sent_settles_only_if_the_policy_believes_gateways_about_it() -> None:
    world = run(
        HOLDS
        + """
    failed op1 nonce=n1 cause=DNS_FAILURE -> ok
    failed op2 nonce=n2 cause=DNS_FAILURE -> ok
    adm: policy acme fin:NEVER_SENT gw:NEVER_SENT~ -> ok
    after 15m
    sys: lapse op1 -> ok
    hold op1 OUTCOME_UNKNOWN
    fin: proof op1 NEVER_SENT cause=DNS_FAILURE -> ok
    adm: policy acme gw:NEVER_SENT -> ok
    sys: lapse op2 -> ok
    hold op2 SETTLED settled=0
    """
    )
    assert [e.policy for e in world.evidence] == ["acme#1", "acme#2"]
