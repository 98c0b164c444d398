"""A provider's receipt: one operation has it, and a hold has one."""

import pytest

from tests.domain.table import run

ORG = "    adm: budget org USD 10 -> ok\n"
SENT = ORG + "    reserve op1 org 6 nonce=n1 lease=10m -> ok send\n"


def test_a_receipt_is_bound_once_each_way() -> None:
    run(
        SENT
        + """
    reserve op2 org 1 nonce=n2 -> ok send
    receipt op1 r1 provider=other -> INVALID_FIELD field=provider
    receipt op1 r1 attempt=2 -> ATTEMPT_NOT_CURRENT says="has no attempt 2"
    receipt op1 r1 key=k -> ok
    receipt op1 r1 key=k -> unchanged replayed
    receipt op1 r1 -> unchanged
    hold op1 DISPATCHING provider_receipt=r1
    receipt op2 r1 -> EVIDENCE_REJECTED bound_to=op1 says="at most one is right"
    receipt op2 r1 -> EVIDENCE_REJECTED
    incidents op2 RECEIPT_CONFLICT bound_to=op1 provider_receipt=r1
    hold op2 DISPATCHING provider_receipt=none
    receipt op1 r2 -> ok incident                                   # accepted twice: both are kept
    receipt op1 r2 -> unchanged
    incidents op1 DOUBLE_ACCEPTANCE provider_receipt=r2 provider_receipt_in_force=r1
    observations op1 ACCEPTED ACCEPTED provider=acme provider_receipt=r2
    receipt op2 r2 -> EVIDENCE_REJECTED bound_to=op1
    receipt op2 r3 -> ok
    """
    )


def test_a_receipt_that_evidence_brought_is_another_holds_too() -> None:
    run(
        SENT
        + """
    reserve op2 org 1 nonce=n2 -> ok send
    charge op1 6 receipt=r1 -> ok
    receipt op1 r1 -> unchanged
    receipt op2 r1 -> EVIDENCE_REJECTED bound_to=op1
    """
    )


def test_of_two_holds_with_one_receipt_in_a_batch_the_first_has_it() -> None:
    run(
        SENT
        + """
    reserve op2 org 1 nonce=n2 -> ok send
    reserve op3 org 1 nonce=n3 -> ok send
    receipt op1 r1 -> ok
    | receipt op2 r1 -> EVIDENCE_REJECTED bound_to=op1
    | charge op3 1 receipt=r1 -> ok incident
    """
    )


def test_a_receipt_that_a_hold_did_not_get_is_free_in_the_same_batch_as_after_it() -> None:
    run(
        SENT
        + """
    reserve op2 org 1 nonce=n2 -> ok send
    reserve op3 org 1 nonce=n3 -> ok send
    reserve op4 org 1 nonce=n4 -> ok send
    charge op1 6 receipt=r1 -> ok
    proof op4 NEVER_SENT cause=DNS_FAILURE nonce=n4 -> ok
    charge op1 5 receipt=r2 -> RESOLUTION_CONFLICT                   # r1 is the receipt of op1
    | charge op2 1 receipt=r2 -> ok
    charge op4 1 receipt=r3 attempt=2 -> EVIDENCE_REJECTED           # op4 stays resolved, and without a receipt
    | charge op3 1 receipt=r3 -> ok
    hold op2 SETTLED provider_receipt=r2
    hold op3 SETTLED provider_receipt=r3
    hold op4 SETTLED provider_receipt=none
    receipt op4 r1 -> EVIDENCE_REJECTED bound_to=op1
    """
    )


def test_a_second_receipt_that_was_recorded_is_another_holds_in_the_same_batch() -> None:
    run(
        SENT
        + """
    reserve op2 org 1 nonce=n2 -> ok send
    receipt op1 r1 -> ok
    receipt op1 r2 -> ok incident
    | charge op2 1 receipt=r2 -> ok incident
    hold op2 SETTLED provider_receipt=none
    incidents op2 RECEIPT_CONFLICT bound_to=op1
    """
    )


def test_evidence_whose_receipt_another_operation_has_does_its_work_and_is_looked_at() -> None:
    """One answer of the provider that was reported of several calls: all but one of them are somebody else's cost."""
    run(
        SENT
        + """
    reserve op2 org 1 nonce=n2 -> ok send
    reserve op3 org 1 nonce=n3 -> ok send
    reserve op4 org 1 nonce=n4 -> ok send
    charge op1 6 receipt=r1 -> ok
    charge op2 1 receipt=r1 -> ok incident
    hold op2 SETTLED settled=1 provider_receipt=none
    incidents op2 RECEIPT_CONFLICT bound_to=op1 provider_receipt=r1
    charge op2 1 receipt=r1 -> unchanged replayed incident
    incidents op2 RECEIPT_CONFLICT
    charge op2 1 receipt=r2 -> unchanged replayed                    # nobody has that one
    hold op2 SETTLED provider_receipt=r2
    charge op3 2 receipt=r1 -> EVIDENCE_REJECTED says="above hold"
    incidents op3 RECEIPT_CONFLICT
    hold op3 DISPATCHING execution_seen=yes provider_receipt=none
    receipt op4 r4 -> ok
    charge op4 1 receipt=r2 -> ok incident                           # it has another, and this is of op2
    hold op4 SETTLED provider_receipt=r4
    incidents op4 RECEIPT_CONFLICT bound_to=op2
    fin: correct op2 charge 0.5 receipt=r4 -> ok incident
    hold op2 SETTLED provider_receipt=r2
    incidents op2 RECEIPT_CONFLICT RECEIPT_CONFLICT bound_to=op4
    charge op1 5 receipt=r4 -> RESOLUTION_CONFLICT
    incidents op1 RECEIPT_CONFLICT RESOLUTION_CONFLICT
    """
    )


def test_a_receipt_for_a_hold_that_was_never_dispatched_infers_the_attempt() -> None:
    run(
        ORG
        + """
    reserve op1 org 6 -> ok
    receipt op1 r1 attempt=2 -> ATTEMPT_NOT_CURRENT
    receipt op1 r1 attempt=1 -> ok
    hold op1 DISPATCHING attempt=1 inferred=yes provider_receipt=r1
    release op1 -> HOLD_STATE
    dispatch op1 nonce=n1 -> unchanged CALL_WAS_SEEN
    fin: proof op1 NEVER_SENT cause=DNS_FAILURE -> EVIDENCE_REJECTED says="accepted the call: receipt r1"
    sys: lapse op1 -> ok
    hold op1 OUTCOME_UNKNOWN
    """
    )


@pytest.mark.parametrize(
    ("end", "answer", "incidents"),
    [
        ("charge op1 6 -> ok", "ok", "none"),
        ("proof op1 NEVER_SENT cause=DNS_FAILURE nonce=n1 -> ok", "ok incident", "RESOLUTION_CONFLICT"),
    ],
)
def test_a_receipt_for_a_call_that_is_said_to_have_cost_nothing_is_looked_at(
    end: str, answer: str, incidents: str
) -> None:
    run(
        SENT
        + f"""
    {end}
    receipt op1 r1 -> {answer}
    incidents op1 {incidents}
    hold op1 SETTLED provider_receipt=r1
    """
    )
