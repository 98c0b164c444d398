"""Attempts: who may send, for how long, what ends the permission, and what may follow."""

import pytest

from ledger.domain.attempt_commands import Cancel, Heartbeat, RecordDelivery, RecordFailedBeforeDispatch, RecordReceipt
from ledger.domain.commands import BeginDispatch, Dispatch
from ledger.domain.model import Caller, Delivery, Role
from ledger.domain.permission import WAY_OUT, Denial
from tests.domain.lines import SPANS
from tests.domain.table import run

ORG = "    adm: budget org USD 10 -> ok\n"
SENT = ORG + "    reserve op1 org 6 nonce=n1 lease=10m key=first -> ok send\n"
FAILED = SENT + "    failed op1 nonce=n1 -> ok\n"


def test_a_heartbeat_extends_the_lease_and_never_shortens_it() -> None:
    run(
        SENT
        + """
    after 9m
    heartbeat op1 nonce=n1 lease=10m -> ok continue                 # until 10:19
    hold op1 DISPATCHING version=2 lease_expires_at=2025-03-01T10:19Z generation=1
    heartbeat op1 nonce=n1 lease=1m -> unchanged continue           # 10:10 is before
    heartbeat op1 nonce=n1 lease=10m -> unchanged continue
    hold op1 DISPATCHING version=2 lease_expires_at=2025-03-01T10:19Z
    after 599s
    sys: lapse op1 -> unchanged
    dispatch op1 nonce=n1 -> unchanged send
    after 1s
    heartbeat op1 nonce=n1 lease=10m -> unchanged                   # too late, though nobody has swept yet
    dispatch op1 nonce=n1 -> unchanged LEASE_RAN_OUT
    sys: lapse op1 -> ok
    heartbeat op1 nonce=n1 lease=10m -> unchanged
    hold op1 OUTCOME_UNKNOWN
    observations op1 UNKNOWN source=Lapse actor=sys because="the lease ran out"
    """
    )


def test_heartbeats_leave_no_receipts() -> None:
    world = run(
        SENT
        + """
    heartbeat op1 nonce=n1 lease=11m key=k -> ok continue
    heartbeat op1 nonce=n1 lease=12m key=k -> ok continue
    """
    )
    assert [r.command for r in world.receipts.values()] == ["CreateBudget", "Reserve"]


def test_a_failure_before_anything_was_sent_allows_the_next_attempt() -> None:
    run(
        FAILED
        + """
    hold op1 DISPATCHING attempt=1 generation=1 nonce_hash=none lease_expires_at=none retry_until=2025-03-01T10:10Z
    observations op1 NOT_SENT attempt=1 cause=DNS_FAILURE adapter=sdk generation=1 executor=host-1 dispatcher=gw
    balance org available=4 held=6
    heartbeat op1 nonce=n1 -> ATTEMPT_NOT_CURRENT attempt=1 generation=1 state=DISPATCHING
    reserve op1 org 6 nonce=n1 lease=10m key=first -> unchanged replayed ATTEMPT_ENDED
    dispatch op1 nonce=n1 -> unchanged ATTEMPT_ENDED                # another nonce for another attempt
    gw2: dispatch op1 nonce=n2 lease=20m -> ok send
    hold op1 DISPATCHING attempt=2 generation=2 dispatcher=gw2 failure=none retry_until=none
    dispatch op1 nonce=n3 -> unchanged ANOTHER_ATTEMPT_RUNS
    failed op1 nonce=n1 -> ATTEMPT_NOT_CURRENT                      # that attempt is over
    proof op1 NEVER_SENT cause=DNS_FAILURE nonce=n1 -> EVIDENCE_REJECTED
    charge op1 5 attempt=2 -> ok
    hold op1 SETTLED settled=5 attempt=2
    balance org available=5 spent=5
    """
    )


def test_without_a_next_attempt_the_hold_is_settled_on_the_record_when_the_lease_would_have_ended() -> None:
    world = run(
        FAILED
        + """
    after 599s
    sys: lapse op1 -> unchanged
    after 1s
    sys: lapse op1 -> ok
    hold op1 SETTLED settled=0 resolution_kind=NO_COST attempt=1
    balance org available=10 held=0 spent=0
    entries op1 RESERVE SETTLE
    dispatch op1 nonce=n2 -> unchanged RESOLVED
    """
    )
    (filed,) = world.evidence
    assert (filed.source, filed.actor, filed.adapter, filed.adapter_revision) == ("NEVER_SENT", "sys", "sdk", "7")
    assert filed.body == {"kind": "NEVER_SENT", "cause": "DNS_FAILURE", "status": "0", "request_id": ""}


def test_its_owner_may_also_prove_at_once_that_nothing_was_sent() -> None:
    run(
        FAILED
        + """
    proof op1 NEVER_SENT cause=DNS_FAILURE nonce=n2 -> EVIDENCE_REJECTED
    proof op1 NEVER_SENT cause=DNS_FAILURE nonce=n1 -> ok
    hold op1 SETTLED settled=0
    """
    )


def test_a_failure_is_recorded_once_and_by_the_owner_of_the_attempt() -> None:
    run(
        SENT
        + """
    failed op1 nonce=n2 -> ATTEMPT_NOT_CURRENT says="nonce is not its owner's"
    failed op1 nonce=n1 attempt=2 -> ATTEMPT_NOT_CURRENT
    failed op1 nonce=n1 attempt=1 key=f -> ok
    failed op1 nonce=n1 attempt=1 key=f -> unchanged replayed
    failed op1 nonce=n1 key=g -> unchanged
    failed op1 nonce=n1 key=g cause=TLS_FAILURE -> IDEMPOTENCY_MISMATCH
    observations op1 NOT_SENT
    """
    )


@pytest.mark.parametrize("seen", ["receipt op1 r1 -> ok", "charge op1 9 -> EVIDENCE_REJECTED"])
def test_what_was_seen_of_the_call_rules_out_that_nothing_was_sent(seen: str) -> None:
    run(
        SENT
        + seen
        + """
    failed op1 nonce=n1 -> HOLD_STATE says="rules out that nothing was sent"
    dispatch op1 nonce=n1 -> unchanged CALL_WAS_SEEN
    hold op1 DISPATCHING failure=none
    """
    )


@pytest.mark.parametrize("seen", ["receipt op1 r1 -> ok", "charge op1 9 -> EVIDENCE_REJECTED"])
@pytest.mark.parametrize("end", ["after 10m\nsys: lapse op1 -> ok", "cancel op1 -> ok PERMISSION_TO_SEND"])
def test_a_call_that_is_seen_after_all_makes_the_record_of_the_failure_worthless(seen: str, end: str) -> None:
    run(
        FAILED
        + f"""
    {seen}
    dispatch op1 nonce=n2 -> unchanged CALL_WAS_SEEN
    {end}
    hold op1 OUTCOME_UNKNOWN
    balance org available=4 unknown=6
    charge op1 5 -> ok
    """
    )


@pytest.mark.parametrize("attempt", [1, 3])
def test_usage_of_an_attempt_that_was_not_sent_or_is_not_recorded_shows_that_the_call_was_made(attempt: int) -> None:
    """A ledger that was restored to an earlier time has lost attempts: what frees money must not."""
    run(
        FAILED
        + f"""
    dispatch op1 nonce=n2 -> ok send
    charge op1 5 attempt={attempt} receipt=r1 -> EVIDENCE_REJECTED says="attempt {attempt} is not the hold's attempt 2"
    hold op1 DISPATCHING execution_seen=yes provider_receipt=r1
    observations op1 NOT_SENT EXECUTED attempt={attempt} source=Resolve adapter=sdk
    failed op1 nonce=n2 -> HOLD_STATE
    proof op1 NEVER_SENT cause=DNS_FAILURE nonce=n2 -> EVIDENCE_REJECTED says="ruled out by the usage"
    charge op1 5 -> ok
    """
    )


def test_a_nonce_that_had_an_attempt_gets_no_other() -> None:
    """Else what was asked for the first attempt, and comes again late, would be given the permission of the third."""
    run(
        FAILED
        + """
    dispatch op1 nonce=n2 key=second -> ok send
    failed op1 nonce=n2 -> ok
    dispatch op1 nonce=n1 -> unchanged ATTEMPT_ENDED
    dispatch op1 nonce=n2 -> unchanged ATTEMPT_ENDED
    hold op1 DISPATCHING attempt=2
    dispatch op1 nonce=n3 key=third -> ok send
    hold op1 DISPATCHING attempt=3
    reserve op1 org 6 nonce=n1 lease=10m key=first -> unchanged replayed ANOTHER_ATTEMPT_RUNS
    dispatch op1 nonce=n2 key=second -> unchanged replayed ANOTHER_ATTEMPT_RUNS
    dispatch op1 nonce=n3 key=third -> unchanged replayed send
    """
    )


def test_the_next_attempt_is_held_against_what_may_have_changed() -> None:
    run("""
    adm: budget org USD 10 -> ok
    adm: card gpt USD requests=1/1 until=10:10 -> ok
    reserve op1 org card=gpt nonce=n1 -> ok send
    failed op1 nonce=n1 -> ok
    reserve op2 org card=gpt nonce=n1 -> ok send
    failed op2 nonce=n1 -> ok
    after 599s
    dispatch op1 nonce=n2 -> ok send
    after 1s
    dispatch op2 nonce=n2 -> QUOTE_EXPIRED
    reserve op3 org 1 nonce=n1 -> ok send
    failed op3 nonce=n1 -> ok
    adm: close org -> ok
    dispatch op3 nonce=n2 -> BUDGET_CLOSED
    """)


def test_a_cancel_takes_the_permission_and_not_the_exposure() -> None:
    run(
        SENT
        + """
    cancel op1 key=c -> ok PERMISSION_TO_SEND
    hold op1 OUTCOME_UNKNOWN attempt=1 generation=2 nonce_hash=none lease_expires_at=none
    balance org available=4 held=0 unknown=6
    observations op1 UNKNOWN source=Cancel because="the user left"
    cancel op1 key=c -> unchanged replayed
    cancel op1 -> unchanged
    dispatch op1 nonce=n1 -> unchanged OUTCOME_UNKNOWN              # the old executor
    reserve op1 org 6 nonce=n1 lease=10m key=first -> unchanged replayed OUTCOME_UNKNOWN
    heartbeat op1 nonce=n1 -> ATTEMPT_NOT_CURRENT generation=2
    failed op1 nonce=n1 -> ATTEMPT_NOT_CURRENT
    proof op1 NEVER_SENT cause=DNS_FAILURE nonce=n1 -> EVIDENCE_REJECTED
    charge op1 5 attempt=1 -> ok                                    # its evidence still counts
    hold op1 SETTLED settled=5
    """
    )


def test_a_cancel_after_a_failure_before_dispatch_settles_on_the_record() -> None:
    run(
        FAILED
        + """
    fin: cancel op1 -> ok NEXT_ATTEMPT
    hold op1 SETTLED settled=0 resolution_kind=NO_COST
    dispatch op1 nonce=n2 -> unchanged RESOLVED
    balance org available=10 held=0
    """
    )


def test_a_cancelled_reservation_is_released() -> None:
    run(
        ORG
        + """
    reserve op1 org 6 -> ok
    cancel op1 -> ok RESERVATION
    hold op1 RELEASED attempt=0 resolution_kind=NEVER_DISPATCHED
    observations op1 NOT_SENT attempt=0 because="the user left"
    balance org available=10 held=0
    """
    )


def test_delivery_says_nothing_of_the_hold() -> None:
    run(
        SENT
        + """
    delivery op1 PARTIAL -> ok
    delivery op1 COMPLETE attempt=1 -> ok
    delivery op1 NOTHING attempt=2 -> ATTEMPT_NOT_CURRENT
    hold op1 DISPATCHING version=1
    observations op1 PARTIAL COMPLETE axis=DELIVERY attempt=1 adapter=sdk adapter_revision=7
    """
    )


def test_every_denial_has_a_way_out() -> None:
    assert set(WAY_OUT) == set(Denial)


def test_no_nonce_is_shown_or_part_of_a_fingerprint() -> None:
    caller = Caller("t1", "gw", Role.GATEWAY)
    for one, other in (
        (Heartbeat(caller, "k", "op", "a secret", SPANS["m"]), Heartbeat(caller, "k", "op", "other", SPANS["m"])),
        (
            RecordFailedBeforeDispatch(caller, "k", "op", "a secret", "DNS_FAILURE", "sdk", "7"),
            RecordFailedBeforeDispatch(caller, "k", "op", "other", "DNS_FAILURE", "other", "8"),
        ),
    ):
        assert one.fingerprint == other.fingerprint
        assert "a secret" not in repr(one)


def test_what_a_fingerprint_is_made_of() -> None:
    caller = Caller("t1", "gw", Role.GATEWAY)
    commands = [
        Cancel(caller, "k", "op", "why"),
        Cancel(caller, "k", "op", "why not"),
        RecordReceipt(caller, "k", "op", "acme", "r1"),
        RecordReceipt(caller, "k", "op", "acme", "r2"),
        RecordReceipt(caller, "k", "op", "other", "r1"),
        RecordReceipt(caller, "k", "op", "acme", "r1", 2),
        RecordDelivery(caller, "k", "op", Delivery.NOTHING),
        RecordDelivery(caller, "k", "op", Delivery.PARTIAL),
        RecordFailedBeforeDispatch(caller, "k", "op", "n", "DNS_FAILURE", "sdk", "7"),
        RecordFailedBeforeDispatch(caller, "k", "op", "n", "DNS_FAILURE", "sdk", "7", 1),
        BeginDispatch(caller, "k", "op", Dispatch("n", SPANS["m"], "host")),
    ]
    assert len({command.fingerprint for command in commands}) == len(commands)
