"""Proofs that a call cost nothing: what proves it, who may say so, and what rules it out."""

import pytest

from tests.domain.table import run


def test_connection_refused_is_a_proof_and_a_read_time_out_is_none() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 3 nonce=n1 -> ok send
    reserve op2 org 3 nonce=n2 -> ok send
    proof op1 NEVER_SENT cause=CONNECTION_REFUSED nonce=n1 -> ok
    unknown op2 -> ok                                    # the request was sent; the answer did not come
    resolution op1 NO_COST amount=0 lines=none
    hold op1 SETTLED settled=0 resolution_kind=NO_COST
    entries op1 RESERVE SETTLE
    balance org available=7 unknown=3 spent=0
    """)


def test_never_sent_needs_its_cause_and_the_one_who_would_have_sent() -> None:
    world = run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 3 -> ok
    gw2: dispatch op1 nonce=secret-1 key=k1 -> ok send   # reserved by one actor, dispatched by another
    gw2: dispatch op1 nonce=secret-2 key=k1 -> unchanged replayed ANOTHER_ATTEMPT_RUNS    # a replica of it may not send
    gw2: proof op1 NEVER_SENT cause=NOT_ATTEMPTED nonce=secret-2 -> EVIDENCE_REJECTED says="given the permission to send"
    gw2: proof op1 NEVER_SENT cause=NOT_ATTEMPTED -> EVIDENCE_REJECTED says="NEVER_SENT needs the nonce of the attempt"
    gw2: proof op1 GATEWAY_CACHE_HIT nonce=secret-2 -> EVIDENCE_REJECTED says="GATEWAY_CACHE_HIT needs the nonce"
    gw2: proof op1 NEVER_SENT nonce=secret-1 -> EVIDENCE_REJECTED says="the cause is absent"
    balance org available=7 held=3
    gw2: proof op1 NEVER_SENT cause=DNS_FAILURE nonce=secret-1 -> ok
    """)
    assert [row.classification for row in world.evidence] == ["REJECTED"] * 4 + ["AUTHORITATIVE"]
    assert not any("secret" in str(row) for row in (*world.evidence, *world.receipts.values(), *world.incidents))


def test_finance_says_never_sent_without_a_nonce() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 3 nonce=n1 -> ok send
    reserve op2 org 3 nonce=n2 -> ok send
    fin: proof op1 NEVER_SENT cause=DNS_FAILURE -> ok
    fin: proof op2 GATEWAY_CACHE_HIT nonce=another -> ok
    balance org available=10 held=0
    """)


def test_the_key_of_a_proof_is_the_same_with_another_nonce() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 3 nonce=n1 -> ok send
    proof op1 NEVER_SENT cause=DNS_FAILURE nonce=n2 key=k1 -> EVIDENCE_REJECTED
    proof op1 NEVER_SENT cause=DNS_FAILURE nonce=n1 key=k1 -> ok
    proof op1 NEVER_SENT cause=DNS_FAILURE nonce=n2 key=k1 -> unchanged replayed
    """)


def test_after_the_outcome_became_unknown_only_finance_may_say_never_sent() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 3 nonce=n1 -> ok send
    reserve op2 org 3 nonce=n2 -> ok send
    unknown op1 -> ok
    unknown op2 -> ok
    proof op1 NEVER_SENT cause=DNS_FAILURE nonce=n1 -> EVIDENCE_REJECTED says="a finance actor" recovery_action=no_replay
    fin: proof op1 NEVER_SENT -> EVIDENCE_REJECTED says="the cause is absent"
    fin: proof op1 NEVER_SENT cause=DNS_FAILURE -> ok
    fin: proof op2 GATEWAY_CACHE_HIT -> ok
    balance org available=10 unknown=0
    """)


def test_what_the_provider_gave_a_receipt_for_was_sent() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 3 nonce=n1 -> ok send
    charge op1 4 receipt=r1 -> EVIDENCE_REJECTED says="above hold 3"
    hold op1 DISPATCHING provider_receipt=r1
    proof op1 NEVER_SENT cause=DNS_FAILURE nonce=n1 -> EVIDENCE_REJECTED says="the provider accepted the call: receipt r1"
    fin: proof op1 GATEWAY_CACHE_HIT -> EVIDENCE_REJECTED says="receipt r1"
    charge op1 3 -> ok
    hold op1 SETTLED provider_receipt=r1
    """)


def test_a_refusal_of_the_resend_does_not_free_what_the_provider_accepted_before() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 3 nonce=n1 -> ok send
    charge op1 4 receipt=r1 -> EVIDENCE_REJECTED
    proof op1 REJECTED_BEFORE_EXECUTION status=429 request=q2 -> EVIDENCE_REJECTED says="accepted the call: receipt r1"
    unknown op1 -> ok
    fin: proof op1 REJECTED_BEFORE_EXECUTION status=429 request=q2 -> EVIDENCE_REJECTED says="receipt r1"
    balance org available=7 unknown=3
    """)


def test_a_proof_of_no_cost_against_a_settled_hold_is_a_conflict_whatever_its_kind() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 3 nonce=n1 -> ok send
    charge op1 3 receipt=r1 -> ok
    proof op1 NEVER_SENT cause=DNS_FAILURE nonce=n1 -> RESOLUTION_CONFLICT
    proof op1 REJECTED_BEFORE_EXECUTION status=429 request=q2 -> RESOLUTION_CONFLICT
    balance org available=7 spent=3
    """)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 415, 422, 429])
def test_a_providers_refusal_before_execution_is_a_proof(status: int) -> None:
    run(f"""
    adm: budget org USD 10 -> ok
    reserve op1 org 3 nonce=n1 -> ok send
    proof op1 REJECTED_BEFORE_EXECUTION status={status} -> EVIDENCE_REJECTED says="request id is absent"
    gw2: proof op1 REJECTED_BEFORE_EXECUTION status={status} request=q1 -> ok
    hold op1 SETTLED settled=0
    """)


@pytest.mark.parametrize("status", [0, 200, 408, 409, 499, 500, 502, 503, 504, 529])
def test_any_other_status_proves_nothing(status: int) -> None:
    run(f"""
    adm: budget org USD 10 -> ok
    reserve op1 org 3 nonce=n1 -> ok send
    proof op1 REJECTED_BEFORE_EXECUTION status={status} request=q1 -> EVIDENCE_REJECTED says="status {status} does not say"
    hold op1 DISPATCHING
    """)


@pytest.mark.parametrize(
    "usage",
    ["charge op1 7", "charge op1 5 source=GATEWAY_ESTIMATE", "charge op1 5 currency=EUR", "usage op1 in=5"],
)
@pytest.mark.parametrize("dispatched", [True, False])
def test_usage_that_cannot_settle_rules_out_for_good_that_the_call_was_never_sent(usage: str, dispatched: bool) -> None:
    run(f"""
    adm: budget org USD 10 -> ok
    reserve op1 org 6 -> ok
    {"dispatch op1 nonce=n1 -> ok send" if dispatched else ""}
    {usage} -> EVIDENCE_REJECTED
    hold op1 DISPATCHING execution_seen=yes provider_receipt=none version={3 if dispatched else 2}
    {usage} -> EVIDENCE_REJECTED
    hold op1 DISPATCHING version={3 if dispatched else 2}
    proof op1 NEVER_SENT cause=DNS_FAILURE nonce=n1 -> EVIDENCE_REJECTED says="ruled out by the usage that was reported"
    proof op1 GATEWAY_CACHE_HIT nonce=n1 -> EVIDENCE_REJECTED says="GATEWAY_CACHE_HIT is ruled out"
    fin: proof op1 NEVER_SENT cause=DNS_FAILURE -> EVIDENCE_REJECTED says="usage of zero is what can still free the hold"
    unknown op1 -> ok
    fin: proof op1 GATEWAY_CACHE_HIT -> EVIDENCE_REJECTED says="ruled out"
    balance org available=4 unknown=6
    fin: charge op1 0 source=OPERATOR -> ok
    balance org available=10 unknown=0
    """)


def test_usage_of_another_call_rules_nothing_out() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 6 nonce=n1 -> ok send
    charge op1 5 provider=other -> EVIDENCE_REJECTED
    hold op1 DISPATCHING execution_seen=no version=1
    proof op1 NEVER_SENT cause=DNS_FAILURE nonce=n1 -> ok
    hold op1 SETTLED execution_seen=no
    """)


def test_a_failure_that_was_reported_as_usage_does_not_rule_out_the_providers_refusal() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 6 nonce=n1 -> ok send
    charge op1 0 source=GATEWAY_ESTIMATE -> EVIDENCE_REJECTED
    proof op1 REJECTED_BEFORE_EXECUTION status=429 request=q1 -> ok
    """)


def test_usage_that_was_reported_leaves_the_providers_refusal_to_finance() -> None:
    run("""
    adm: budget org USD 20 -> ok
    reserve op1 org 6 nonce=n1 -> ok send
    charge op1 9 -> EVIDENCE_REJECTED says="above hold 6"   # the call was made, at a cost that finance must accept
    proof op1 REJECTED_BEFORE_EXECUTION status=429 request=q1 -> EVIDENCE_REJECTED says="needs a finance actor"
    balance org available=14 held=6
    fin: charge op1 9 accept=agreed -> ok
    balance org available=11 spent=9

    reserve op2 org 6 nonce=n1 -> ok send
    failed op2 nonce=n1 -> ok
    dispatch op2 nonce=n2 -> ok send
    charge op2 2 attempt=1 -> EVIDENCE_REJECTED says="attempt 1"
    proof op2 REJECTED_BEFORE_EXECUTION status=429 request=q2 -> EVIDENCE_REJECTED says="needs a finance actor"
    balance org available=5 held=6
    fin: proof op2 REJECTED_BEFORE_EXECUTION status=429 request=q2 -> ok
    balance org available=11 held=0
    """)


def test_an_estimate_of_an_earlier_attempt_is_no_more_than_an_estimate() -> None:
    world = run("""
    adm: budget org USD 20 -> ok
    reserve op1 org 6 nonce=n1 -> ok send
    failed op1 nonce=n1 -> ok
    dispatch op1 nonce=n2 -> ok send
    charge op1 0 source=GATEWAY_ESTIMATE attempt=1 -> EVIDENCE_REJECTED says="attempt 1"
    hold op1 DISPATCHING execution_seen=yes usage_seen=no
    proof op1 REJECTED_BEFORE_EXECUTION status=429 request=q2 -> ok
    """)
    assert [seen.classification for seen in world.evidence] == ["ESTIMATE", "AUTHORITATIVE"]
    assert [seen.value for seen in world.observations] == ["NOT_SENT"]


def test_nobody_has_the_nonce_of_an_inferred_attempt() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 6 -> ok
    proof op1 REJECTED_BEFORE_EXECUTION status=500 request=q1 -> EVIDENCE_REJECTED
    hold op1 DISPATCHING inferred=yes execution_seen=no
    proof op1 NEVER_SENT cause=DNS_FAILURE -> EVIDENCE_REJECTED says="needs the nonce"
    fin: proof op1 NEVER_SENT cause=DNS_FAILURE -> ok
    """)


def test_a_refusal_of_a_resend_says_nothing_of_the_call_whose_outcome_is_unknown() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 3 nonce=n1 -> ok send
    unknown op1 -> ok
    proof op1 REJECTED_BEFORE_EXECUTION status=429 request=q1 -> EVIDENCE_REJECTED says="needs a finance actor"
    hold op1 OUTCOME_UNKNOWN
    balance org available=7 unknown=3
    fin: proof op1 REJECTED_BEFORE_EXECUTION status=429 -> EVIDENCE_REJECTED says="request id is absent"
    fin: proof op1 REJECTED_BEFORE_EXECUTION status=429 request=q1 -> ok
    balance org available=10 unknown=0
    """)
