"""Cases from the field: sending once, and what may follow when nothing was sent. Over the real service and database."""

from typing import Any

from google.protobuf.duration_pb2 import Duration

from ledger.v1 import hold_pb2
from tests.acceptance.harness import refused
from tests.acceptance.tenant import Tenant, nonce_of

OTHER = "nonce-of-another-process"
REFUSED = hold_pb2.NEVER_SENT_CAUSE_CONNECTION_REFUSED


def failed(acme: Tenant, operation: str) -> Any:
    """The process that sends with `reserve(send=True)` says that the connection was refused."""
    return acme.gateway.holds.RecordFailedBeforeDispatch(
        hold_pb2.RecordFailedBeforeDispatchRequest(
            idempotency_key=acme.key(), operation_id=operation, nonce=nonce_of(operation), cause=REFUSED, adapter="test"
        )
    )


def cancel(acme: Tenant, operation: str) -> Any:
    return acme.gateway.holds.Cancel(
        hold_pb2.CancelRequest(idempotency_key=acme.key(), operation_id=operation, reason="the user left")
    )


def delivered(acme: Tenant, operation: str, delivery: hold_pb2.Delivery.ValueType) -> None:
    acme.gateway.holds.RecordDelivery(
        hold_pb2.RecordDeliveryRequest(idempotency_key=acme.key(), operation_id=operation, delivery=delivery)
    )


def axes(acme: Tenant, operation: str) -> tuple[str, str, str]:
    """Delivery, execution and settlement, as GetHold shows them."""
    hold = acme.hold(operation)
    return (
        hold_pb2.Delivery.Name(hold.delivery.value).removeprefix("DELIVERY_"),
        hold_pb2.Execution.Name(hold.execution.value).removeprefix("EXECUTION_"),
        hold_pb2.HoldState.Name(hold.settlement.value).removeprefix("HOLD_STATE_"),
    )


def test_connection_refused_allows_another_attempt_and_a_time_out_does_not(acme: Tenant) -> None:
    acme.budget()
    for operation in ("refused", "silent"):
        acme.reserve(operation, "6", send=True)
    failed(acme, "refused")
    acme.unknown("silent")
    second, none = acme.dispatch("refused", OTHER), acme.dispatch("silent", OTHER)
    assert (second.may_send, second.hold.attempt.number) == (True, 2)
    assert (none.may_send, none.denial.reason) == (False, hold_pb2.DENIAL_REASON_OUTCOME_UNKNOWN)
    assert "Do not send again" in none.denial.way_out
    acme.charge("refused", "5")
    assert (acme.stands("refused"), acme.stands("silent")) == ("SETTLED 5", "OUTCOME_UNKNOWN")
    assert acme.balances() == {"authority": "100", "available": "89", "unknown": "6", "spent": "5"}


def test_without_another_attempt_the_record_frees_the_money_when_the_lease_would_have_ended(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "6", send=True)
    failed(acme, "op-1")
    assert acme.stands("op-1") == "DISPATCHING"
    acme.live.let_time_run_out(acme.name, "op-1")
    acme.live.wait_for_state(acme.gateway, "op-1", "SETTLED")
    assert acme.stands("op-1") == "SETTLED 0"
    assert acme.entries("op-1") == ["RESERVE", "SETTLE"]
    assert acme.balances() == {"authority": "100", "available": "100"}


def test_the_record_of_a_failure_and_the_attempt_after_it_survive_a_kill(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "6", send=True)
    failed(acme, "op-1")
    server = acme.live.servers[0]
    server.kill()
    server.start()
    request = hold_pb2.BeginDispatchRequest(
        idempotency_key="second", operation_id="op-1", dispatch=hold_pb2.Dispatch(nonce=OTHER)
    )
    assert acme.gateway.holds.BeginDispatch(request, wait_for_ready=True).may_send
    server.kill()
    server.start()
    again = acme.gateway.holds.BeginDispatch(request, wait_for_ready=True)
    assert (again.replayed, again.may_send, again.hold.attempt.number) == (True, True, 2)


def test_a_cancel_frees_nothing_that_may_be_gone_and_late_usage_still_settles(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "6", send=True)
    answer = cancel(acme, "op-1")
    assert (answer.stopped, answer.unsettled.amount) == (hold_pb2.STOPPED_PERMISSION_TO_SEND, "6")
    assert acme.balances() == {"authority": "100", "available": "94", "unknown": "6"}
    assert not acme.dispatch("op-1", nonce_of("op-1")).may_send
    with refused("ATTEMPT_NOT_CURRENT"):
        failed(acme, "op-1")
    with refused("EVIDENCE_REJECTED"):
        acme.never_sent("op-1")
    acme.charge("op-1", "5")
    assert acme.balances() == {"authority": "100", "available": "95", "spent": "5"}


def test_heartbeats_carry_a_long_call_over_its_first_lease(acme: Tenant) -> None:
    acme.budget()
    for operation in ("long", "dead"):
        acme.reserve(operation, "6", send=True, dispatch=hold_pb2.Dispatch(lease=Duration(seconds=2)))
        if operation == "long":
            beat = hold_pb2.HeartbeatRequest(operation_id="long", nonce=nonce_of("long"), lease=Duration(seconds=1800))
            assert acme.gateway.holds.Heartbeat(beat).applied
    acme.live.wait_for_state(acme.gateway, "dead", "OUTCOME_UNKNOWN")
    assert acme.stands("long") == "DISPATCHING"
    assert acme.gateway.holds.Heartbeat(beat).may_continue
    beat.operation_id, beat.nonce = "dead", nonce_of("dead")
    late = acme.gateway.holds.Heartbeat(beat)
    assert (late.applied, late.may_continue, late.state) == (False, False, hold_pb2.HOLD_STATE_OUTCOME_UNKNOWN)


def test_what_the_client_has_what_the_provider_did_and_what_was_paid_are_three_things(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("cut", "6", send=True)
    delivered(acme, "cut", hold_pb2.DELIVERY_PARTIAL)
    acme.unknown("cut", "stream cut")
    assert axes(acme, "cut") == ("PARTIAL", "UNKNOWN", "OUTCOME_UNKNOWN")
    acme.charge("cut", "5")
    assert axes(acme, "cut") == ("PARTIAL", "EXECUTED", "SETTLED")
    # The client has everything, from a provider whose bill never came.
    acme.reserve("unbilled", "6", send=True)
    delivered(acme, "unbilled", hold_pb2.DELIVERY_COMPLETE)
    assert axes(acme, "unbilled") == ("COMPLETE", "UNKNOWN", "DISPATCHING")
