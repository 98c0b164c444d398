"""What became of a call, and who may say so."""

import pytest

from tests.domain.table import run

CARD = """
    adm: budget org USD 10 -> ok
    adm: card gpt USD in=3 out=15 max_in=100000 max_out=1000 -> ok
"""


def test_a_stream_that_was_cut_stays_held_until_the_provider_reports_its_usage() -> None:
    run(
        CARD
        + """
    reserve op1 org card=gpt in=1000 out=1000 nonce=n1 -> ok send      # 0.003 + 0.015
    unknown op1 -> ok
    balance org available=9.982 held=0 unknown=0.018
    release op1 -> HOLD_STATE state=OUTCOME_UNKNOWN recovery_action=no_replay says=evidence
    after 24h
    sys: lapse op1 -> unchanged
    hold op1 OUTCOME_UNKNOWN
    usage op1 in=1000 out=200 source=PROVIDER_RECORD -> ok
    balance org available=9.994 unknown=0 spent=0.006                  # 0.003 + 200 * 15 / 1000000
    entries op1 RESERVE OUTCOME_UNKNOWN SETTLE
    """
    )


def test_usage_of_exactly_zero_posts_nothing_and_frees_the_hold() -> None:
    run(
        CARD
        + """
    reserve op1 org card=gpt in=1000 out=1000 nonce=n1 -> ok send
    usage op1 in=0 out=0 -> ok
    resolution op1 USAGE amount=0 cost_over_hold=0 lines=none
    balance org available=10 held=0 spent=0
    """
    )


@pytest.mark.parametrize(
    ("reported", "missing"), [("", "input_tokens"), ("in=5", "output_tokens"), ("cached=5 out=5", "input_tokens")]
)
def test_an_absent_field_is_not_a_zero(reported: str, missing: str) -> None:
    run(
        CARD
        + f"""
    reserve op1 org card=gpt in=1000 out=1000 nonce=n1 -> ok send
    usage op1 {reported} -> EVIDENCE_REJECTED says="{missing} is absent, which is not zero"
    hold op1 DISPATCHING
    evidence op1 REJECTED
    """
    )


def test_a_failure_callback_is_not_a_proof_and_the_true_cost_lands_once() -> None:
    run(
        CARD
        + """
    reserve op1 org card=gpt in=1000 out=1000 nonce=n1 -> ok send
    usage op1 in=0 out=0 source=GATEWAY_ESTIMATE -> EVIDENCE_REJECTED says="not authoritative"
    proof op1 REJECTED_BEFORE_EXECUTION status=504 request=q1 -> EVIDENCE_REJECTED says="status 504"
    hold op1 DISPATCHING
    usage op1 in=1000 out=1000 -> ok
    hold op1 SETTLED settled=0.018
    evidence op1 ESTIMATE REJECTED AUTHORITATIVE
    balance org available=9.982 spent=0.018
    """
    )


def test_a_gateway_killed_before_the_dispatch_frees_its_hold_by_expiry() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 6 ttl=10m -> ok
    after 599s
    sys: lapse op1 -> unchanged
    after 1s
    sys: lapse op1 -> ok
    hold op1 RELEASED settled=0 attempt=0 revision=1 resolution_kind=NEVER_DISPATCHED
    resolution op1 NEVER_DISPATCHED amount=0 supersedes=none evidence_id=none
    evidence op1 none
    entries op1 RESERVE RELEASE
    balance org available=10 held=0
    """)


def test_a_gateway_killed_after_the_dispatch_leaves_an_unknown_outcome() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 6 ttl=1s nonce=n1 lease=10m -> ok send
    after 599s
    sys: lapse op1 -> unchanged                     # its time to dispatch is over; its lease is not
    after 1s
    sys: lapse op1 -> ok
    hold op1 OUTCOME_UNKNOWN
    balance org available=4 held=0 unknown=6
    """)


def test_a_dispatch_may_come_after_the_expiry_as_long_as_nothing_released_the_hold() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 6 ttl=1m -> ok
    after 5m
    dispatch op1 nonce=n1 -> ok send
    sys: lapse op1 -> unchanged
    hold op1 DISPATCHING
    """)


def test_a_late_settle_under_another_key_lands_once() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 6 nonce=n1 lease=15m -> ok send
    after 20m
    sys: lapse op1 -> ok
    hold op1 OUTCOME_UNKNOWN
    after 20m
    charge op1 5 key=late -> ok
    charge op1 5 key=later -> unchanged replayed
    charge op1 4 key=latest -> RESOLUTION_CONFLICT
    balance org available=5 spent=5
    """)


def test_four_dispatches_of_one_request_are_four_holds_each_resolved_on_its_own_evidence() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 2 group=action nonce=n1 -> ok send
    | reserve op2 org 2 group=action nonce=n2 -> ok send
    | reserve op3 org 2 group=action nonce=n3 -> ok send
    | reserve op4 org 2 group=action nonce=n4 -> ok send
    charge op1 2 -> ok
    | proof op2 NEVER_SENT cause=DNS_FAILURE nonce=n2 -> ok
    | unknown op3 -> ok
    hold op4 DISPATCHING request_group=action
    balance org available=4 held=2 unknown=2 spent=2
    """)


def test_usage_before_the_dispatch_was_recorded_infers_the_attempt_and_the_late_dispatch_changes_nothing() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 6 -> ok
    charge op1 5 receipt=r1 -> ok
    hold op1 SETTLED settled=5 attempt=1 generation=1 inferred=yes dispatcher=none provider_receipt=r1
    dispatch op1 nonce=n1 -> unchanged RESOLVED
    hold op1 SETTLED version=2
    """)


def test_evidence_that_cannot_settle_still_keeps_a_hold_from_release_and_expiry() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 6 -> ok
    charge op1 5 source=GATEWAY_ESTIMATE receipt=r1 -> EVIDENCE_REJECTED
    hold op1 DISPATCHING attempt=1 inferred=yes provider_receipt=r1
    release op1 -> HOLD_STATE
    dispatch op1 nonce=n1 -> unchanged CALL_WAS_SEEN     # nobody may send again
    proof op1 NEVER_SENT cause=DNS_FAILURE -> EVIDENCE_REJECTED
    sys: lapse op1 -> ok                                 # the inferred attempt has no lease
    hold op1 OUTCOME_UNKNOWN
    charge op1 5 -> ok
    """)


def test_evidence_about_another_call_leaves_a_reserved_hold_as_it_was() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 6 -> ok
    charge op1 5 provider=other receipt=r1 -> EVIDENCE_REJECTED says="provider is other, quoted was acme"
    hold op1 RESERVED version=1 provider_receipt=none
    evidence op1 REJECTED
    release op1 -> ok
    """)


def test_evidence_about_a_later_attempt_of_a_reserved_hold_keeps_it_from_being_released() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 6 -> ok
    charge op1 5 attempt=2 -> EVIDENCE_REJECTED says="attempt 2 is not the hold's attempt 1"
    hold op1 DISPATCHING attempt=1 inferred=yes execution_seen=yes
    release op1 -> HOLD_STATE
    charge op1 5 -> ok
    """)


@pytest.mark.parametrize("end", ["release op1 -> ok", "dispatch op1 nonce=n1 -> ok send\n{refused}"])
def test_usage_that_cannot_be_booked_of_a_call_that_cost_nothing_is_looked_at(end: str) -> None:
    end = end.format(refused="proof op1 REJECTED_BEFORE_EXECUTION status=429 request=q1 -> ok")
    run(f"""
    adm: budget org USD 10 -> ok
    adm: card gpt USD in=1 out=1 -> ok
    reserve op1 org card=gpt in=1000 out=1000 -> ok
    {end}
    usage op1 in=10 out=5 source=GATEWAY_ESTIMATE -> EVIDENCE_REJECTED
    usage op1 in=10 provider=other -> EVIDENCE_REJECTED
    incidents op1 none
    usage op1 in=10 -> EVIDENCE_REJECTED says="output_tokens is absent"
    usage op1 in=10 -> EVIDENCE_REJECTED
    incidents op1 RESOLUTION_CONFLICT
    usage op1 in=10 out=5 attempt=2 -> EVIDENCE_REJECTED
    incidents op1 RESOLUTION_CONFLICT RESOLUTION_CONFLICT
    fin: correct op1 usage in=10 -> EVIDENCE_REJECTED        # who corrects is looking at it
    fin: correct op1 usage in=10 out=5 -> ok
    usage op1 in=11 -> EVIDENCE_REJECTED                     # what it cost is booked
    incidents op1 RESOLUTION_CONFLICT RESOLUTION_CONFLICT
    """)


def test_evidence_names_the_attempt_that_it_is_about() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 6 nonce=n1 -> ok send
    charge op1 5 attempt=2 -> EVIDENCE_REJECTED
    charge op1 5 attempt=1 -> ok
    charge op1 5 -> unchanged replayed
    """)


def test_a_quote_that_ran_out_between_reserve_and_dispatch_is_no_permission() -> None:
    run("""
    adm: budget org USD 10 -> ok
    adm: card gpt USD requests=1/1 until=10:10 -> ok
    reserve op1 org card=gpt -> ok
    reserve op2 org card=gpt nonce=n2 -> ok send
    after 599s
    reserve op3 org card=gpt -> ok
    dispatch op3 nonce=n3 -> ok send
    after 1s
    dispatch op1 nonce=n1 -> QUOTE_EXPIRED valid_until=2025-03-01T10:10:00+00:00 says="reserve again"
    reserve op4 org card=gpt -> UNQUOTABLE field=quote.metered.card_version says="not valid now"
    usage op2 requests=1 -> ok                           # what was dispatched in time is settled by the pinned card
    release op1 -> ok
    """)


def test_a_settlement_is_effective_when_the_provider_was_observed_and_recorded_now() -> None:
    world = run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 6 nonce=n1 -> ok send
    after 30m
    charge op1 5 observed=10:05 -> ok
    """)
    _, reserved, settled = world.entries.values()
    assert reserved.effective_at == reserved.recorded_at
    assert settled.effective_at.isoformat() == "2025-03-01T10:05:00+00:00"
    assert settled.recorded_at.isoformat() == "2025-03-01T10:30:00+00:00"
    assert settled.accounting_date.isoformat() == "2025-03-01"
