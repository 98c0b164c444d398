"""Facts that are reported twice, and facts that contradict what is known."""

from tests.domain.table import run

ORG = "    adm: budget org USD 10 -> ok\n"


def test_two_settles_with_other_response_ids_are_one_fact() -> None:
    run(
        ORG
        + """
    reserve op1 org 6 nonce=n1 -> ok send
    charge op1 5 response=msg-1 receipt=r1 -> ok
    charge op1 5 response=msg-2 receipt=r1 observed=10:01 -> unchanged replayed
    fin: charge op1 5 source=STATEMENT -> unchanged replayed
    charge op1 5 tier=priority -> unchanged replayed             # an amount has no tier
    incidents op1 none
    evidence op1 AUTHORITATIVE CORROBORATING CORROBORATING CORROBORATING
    entries op1 RESERVE SETTLE
    """
    )


def test_a_second_provider_receipt_posts_nothing_and_is_an_incident() -> None:
    run(
        ORG
        + """
    reserve op1 org 6 nonce=n1 -> ok send
    charge op1 5 receipt=r1 -> ok
    charge op1 5 receipt=r2 -> unchanged replayed incident
    incidents op1 DOUBLE_ACCEPTANCE provider_receipt=r2 provider_receipt_in_force=r1
    balance org available=5 spent=5
    """
    )


def test_the_receipt_that_came_with_a_corroboration_is_the_one_in_force() -> None:
    run(
        ORG
        + """
    reserve op1 org 6 nonce=n1 -> ok send
    charge op1 5 -> ok
    charge op1 5 receipt=r1 -> unchanged replayed
    hold op1 SETTLED provider_receipt=r1 settled=5
    charge op1 5 receipt=r2 -> unchanged replayed incident
    hold op1 SETTLED provider_receipt=r1
    """
    )


def test_a_receipt_of_rejected_evidence_and_another_of_the_accepted_are_two_acceptances() -> None:
    run(
        ORG
        + """
    reserve op1 org 6 nonce=n1 -> ok send
    charge op1 7 receipt=r1 -> EVIDENCE_REJECTED
    charge op1 5 receipt=r2 -> ok incident
    incidents op1 DOUBLE_ACCEPTANCE provider_receipt=r2 provider_receipt_in_force=r1
    """
    )


def test_receipts_that_only_rejected_evidence_brought_are_two_acceptances_too() -> None:
    run(
        ORG
        + """
    reserve op1 org 6 nonce=n1 -> ok send
    charge op1 7 receipt=r1 -> EVIDENCE_REJECTED
    charge op1 7 receipt=r1 -> EVIDENCE_REJECTED
    incidents op1 none
    charge op1 7 receipt=r2 -> EVIDENCE_REJECTED says=above
    charge op1 7 receipt=r2 -> EVIDENCE_REJECTED                 # the same case
    charge op1 6 provider=other receipt=r3 -> EVIDENCE_REJECTED  # about another call
    incidents op1 DOUBLE_ACCEPTANCE provider_receipt=r2 provider_receipt_in_force=r1
    charge op1 5 receipt=r1 -> ok
    balance org available=5 spent=5
    """
    )


def test_other_facts_about_a_settled_hold_are_a_conflict_that_names_both() -> None:
    world = run(
        ORG
        + """
    reserve op1 org 6 nonce=n1 -> ok send
    charge op1 5 -> ok
    charge op1 4.5 -> RESOLUTION_CONFLICT amount=4.5 amount_in_force=5 state=SETTLED says="a case opened"
    incidents op1 RESOLUTION_CONFLICT amount=4.5 amount_in_force=5
    evidence op1 AUTHORITATIVE CONFLICTING
    balance org available=5 spent=5
    """
    )
    (incident,) = world.incidents
    (resolution,) = world.resolutions
    assert incident.detail["digest_in_force"] == resolution.digest.hex()
    assert incident.detail["digest"] == (world.evidence[-1].digest or b"").hex() != resolution.digest.hex()


def test_a_conflict_with_another_provider_receipt_is_a_second_acceptance_too() -> None:
    world = run(
        ORG
        + """
    reserve op1 org 6 nonce=n1 -> ok send
    charge op1 5 receipt=r1 -> ok
    charge op1 4 receipt=r2 -> RESOLUTION_CONFLICT provider_receipt=r2 provider_receipt_in_force=r1
    charge op1 4 receipt=r2 -> RESOLUTION_CONFLICT               # the same two cases
    charge op1 5 receipt=r2 -> unchanged replayed incident       # and the same second acceptance
    charge op1 3 receipt=r1 -> RESOLUTION_CONFLICT provider_receipt=r1 provider_receipt_in_force=r1
    charge op1 2 -> RESOLUTION_CONFLICT provider_receipt_in_force=r1
    balance org available=5 spent=5
    """
    )
    cases = [(i.kind, i.detail.get("provider_receipt"), i.detail["provider_receipt_in_force"]) for i in world.incidents]
    assert cases == [
        ("DOUBLE_ACCEPTANCE", "r2", "r1"),
        ("RESOLUTION_CONFLICT", "r2", "r1"),
        ("RESOLUTION_CONFLICT", "r1", "r1"),
        ("RESOLUTION_CONFLICT", None, "r1"),
    ]


def test_a_conflict_about_a_hold_without_a_receipt_is_one_case() -> None:
    world = run(
        ORG
        + """
    reserve op1 org 6 -> ok
    release op1 -> ok
    charge op1 5 receipt=r1 -> RESOLUTION_CONFLICT provider_receipt=r1
    """
    )
    (incident,) = world.incidents
    assert (incident.kind, "provider_receipt_in_force" in incident.detail) == ("RESOLUTION_CONFLICT", False)


def test_a_conflict_that_is_reported_again_is_the_same_case_and_another_fact_another_case() -> None:
    world = run(
        ORG
        + """
    reserve op1 org 6 nonce=n1 -> ok send
    charge op1 5 -> ok
    charge op1 4.5 -> RESOLUTION_CONFLICT amount=4.5
    charge op1 4.5 -> RESOLUTION_CONFLICT amount=4.5
    charge op1 4.6 -> RESOLUTION_CONFLICT amount=4.6
    evidence op1 AUTHORITATIVE CONFLICTING CONFLICTING CONFLICTING
    """
    )
    assert [incident.detail["amount"] for incident in world.incidents] == ["4.5", "4.6"]


def test_a_bill_for_a_released_hold_or_after_a_proof_of_no_cost_is_a_conflict_and_the_end_stays() -> None:
    run(
        ORG
        + """
    reserve op1 org 6 -> ok
    release op1 -> ok
    charge op1 5 -> RESOLUTION_CONFLICT state=RELEASED amount=5 amount_in_force=0
    hold op1 RELEASED settled=0
    reserve op2 org 6 nonce=n2 -> ok send
    proof op2 NEVER_SENT cause=DNS_FAILURE nonce=n2 -> ok
    charge op2 5 -> RESOLUTION_CONFLICT state=SETTLED amount=5 amount_in_force=0
    hold op2 SETTLED settled=0
    incidents op1 RESOLUTION_CONFLICT
    incidents op2 RESOLUTION_CONFLICT
    evidence op1 CONFLICTING
    balance org available=10 spent=0
    """
    )


def test_usage_of_zero_and_a_proof_of_no_cost_are_two_facts() -> None:
    run(
        ORG
        + """
    reserve op1 org 6 nonce=n1 -> ok send
    charge op1 0 -> ok
    proof op1 REJECTED_BEFORE_EXECUTION status=429 request=q1 -> RESOLUTION_CONFLICT amount=0 amount_in_force=0
    reserve op2 org 6 nonce=n2 -> ok send
    proof op2 REJECTED_BEFORE_EXECUTION status=429 request=q1 -> ok
    proof op2 REJECTED_BEFORE_EXECUTION status=400 request=q2 -> unchanged replayed
    """
    )


def test_a_refused_evidence_about_a_settled_hold_changes_nothing() -> None:
    run(
        ORG
        + """
    reserve op1 org 6 nonce=n1 -> ok send
    charge op1 5 -> ok
    charge op1 5 provider=other receipt=r9 -> EVIDENCE_REJECTED
    charge op1 5 source=GATEWAY_ESTIMATE receipt=r9 -> EVIDENCE_REJECTED
    hold op1 SETTLED provider_receipt=none version=2
    evidence op1 AUTHORITATIVE REJECTED ESTIMATE
    """
    )
