"""Attempts over gRPC: heartbeats, failures before anything was sent, cancels, receipts and deliveries; and races between them."""

import asyncio
from pathlib import Path
from typing import Any

from google.protobuf.duration_pb2 import Duration

from ledger.v1 import error_pb2, hold_pb2
from tests.service.harness import (
    NONCE,
    Ledger,
    invalid,
    refusal,
    reserve_request,
    resolve_request,
    sending_request,
    serving,
)
from tests.watching import violations

OTHER = "another-process-x"
REFUSED = hold_pb2.NEVER_SENT_CAUSE_CONNECTION_REFUSED


def begin(operation_id: str, nonce: str = OTHER, key: str = "b-1") -> hold_pb2.BeginDispatchRequest:
    dispatch = hold_pb2.Dispatch(nonce=nonce, executor="worker-2")
    return hold_pb2.BeginDispatchRequest(idempotency_key=key, operation_id=operation_id, dispatch=dispatch)


def beat(operation_id: str, minutes: int = 20, nonce: str = NONCE) -> hold_pb2.HeartbeatRequest:
    return hold_pb2.HeartbeatRequest(operation_id=operation_id, nonce=nonce, lease=Duration(seconds=60 * minutes))


def failed(operation_id: str, nonce: str = NONCE, key: str = "f-1") -> hold_pb2.RecordFailedBeforeDispatchRequest:
    return hold_pb2.RecordFailedBeforeDispatchRequest(
        idempotency_key=key, operation_id=operation_id, nonce=nonce, cause=REFUSED, adapter="sdk", adapter_revision="7"
    )


def cancel(operation_id: str, key: str = "c-1") -> hold_pb2.CancelRequest:
    return hold_pb2.CancelRequest(idempotency_key=key, operation_id=operation_id, reason="the user left")


def receipt(operation_id: str, provider_receipt: str, key: str = "") -> hold_pb2.RecordReceiptRequest:
    return hold_pb2.RecordReceiptRequest(
        idempotency_key=key or f"{operation_id}-{provider_receipt}",
        operation_id=operation_id,
        provider="openai",
        provider_receipt=provider_receipt,
    )


async def hold_of(ledger: Ledger, operation_id: str) -> hold_pb2.Hold:
    return (await ledger.gateway.holds.GetHold(hold_pb2.GetHoldRequest(operation_id=operation_id))).hold


async def test_the_second_attempt_after_a_failure_before_the_first_was_sent(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        holds = ledger.gateway.holds
        first = await holds.Reserve(sending_request("op-1", "4"))
        assert (first.hold.attempt.actor, first.hold.attempt.executor) == ("gateway-1", "worker-1")
        denied = await holds.BeginDispatch(begin("op-1"))
        assert not denied.may_send
        assert denied.denial.reason == hold_pb2.DENIAL_REASON_ANOTHER_ATTEMPT_RUNS
        assert "RecordFailedBeforeDispatch allows the next attempt" in denied.denial.way_out
        told = await holds.RecordFailedBeforeDispatch(failed("op-1"))
        assert (told.applied, told.hold.state) == (True, hold_pb2.HOLD_STATE_DISPATCHING)
        attempt = told.hold.attempt
        assert (attempt.number, attempt.failed_before_dispatch) == (1, REFUSED)
        assert attempt.retry_until_time == first.hold.attempt.lease_expire_time
        assert not attempt.HasField("lease_expire_time")
        again = await holds.Reserve(sending_request("op-1", "4"))
        assert (again.may_send, again.denial.reason) == (False, hold_pb2.DENIAL_REASON_ATTEMPT_ENDED)
        # The refused permission is remembered under its key as the hold is now: another key begins the next attempt.
        assert not (await holds.BeginDispatch(begin("op-1"))).may_send
        second = await holds.BeginDispatch(begin("op-1", key="b-2"))
        assert second.may_send
        assert not second.HasField("denial")
        assert (second.hold.attempt.number, second.hold.attempt.generation) == (2, 2)
        assert second.hold.attempt.failed_before_dispatch == 0
        settled = await holds.Resolve(resolve_request("op-1", "3", attempt=2))
        assert settled.hold.resolution.amount.amount == "3"


async def test_a_heartbeat_says_whether_to_go_on(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        holds = ledger.gateway.holds
        lease = (await holds.Reserve(sending_request("op-1"))).hold.attempt.lease_expire_time
        longer = await holds.Heartbeat(beat("op-1"))
        assert (longer.applied, longer.may_continue, longer.attempt) == (True, True, 1)
        # 15 min from the reserve, and 20 from the heartbeat, which was not much later.
        assert 290 < longer.lease_expire_time.seconds - lease.seconds < 400
        shorter = await holds.Heartbeat(beat("op-1", 1))
        assert (shorter.applied, shorter.may_continue) == (False, True)
        assert shorter.lease_expire_time == longer.lease_expire_time
        assert (await refusal(holds.Heartbeat(beat("op-1", nonce=OTHER))))[1] == "ATTEMPT_NOT_CURRENT"
        unknown = hold_pb2.MarkOutcomeUnknownRequest(idempotency_key="u", operation_id="op-1", observation="cut")
        await holds.MarkOutcomeUnknown(unknown)
        told = await holds.Heartbeat(beat("op-1"))
        assert (told.state, told.applied, told.may_continue, told.recovery_action) == (
            hold_pb2.HOLD_STATE_OUTCOME_UNKNOWN,
            False,
            False,
            error_pb2.RECOVERY_ACTION_NO_REPLAY,
        )


async def test_a_cancel_says_what_stopped_and_what_remains_unsettled(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        holds = ledger.gateway.holds
        await holds.Reserve(reserve_request("reserved", "2"))
        await holds.Reserve(sending_request("sent", "3"))
        await holds.Reserve(sending_request("unsent", "4"))
        await holds.RecordFailedBeforeDispatch(failed("unsent"))
        told = {name: await ledger.finance.holds.Cancel(cancel(name, f"c-{name}")) for name in ("reserved", "unsent")}
        told["sent"] = await holds.Cancel(cancel("sent"))
        assert {name: (answer.applied, answer.stopped, answer.unsettled.amount) for name, answer in told.items()} == {
            "reserved": (True, hold_pb2.STOPPED_RESERVATION, ""),
            "sent": (True, hold_pb2.STOPPED_PERMISSION_TO_SEND, "3"),
            "unsent": (True, hold_pb2.STOPPED_NEXT_ATTEMPT, ""),
        }
        assert told["sent"].hold.state == hold_pb2.HOLD_STATE_OUTCOME_UNKNOWN
        assert told["sent"].hold.recovery_action == error_pb2.RECOVERY_ACTION_NO_REPLAY
        assert told["sent"].hold.attempt.generation == 2
        later = await holds.Cancel(cancel("sent", "c-2"))
        assert (later.applied, later.stopped, later.unsettled.amount) == (False, 0, "3")
        # What the old executor may still do is to bring evidence.
        assert (await refusal(holds.Heartbeat(beat("sent"))))[1] == "ATTEMPT_NOT_CURRENT"
        assert (await refusal(holds.RecordFailedBeforeDispatch(failed("sent", key="f-2"))))[1] == "ATTEMPT_NOT_CURRENT"
        replayed = await holds.Reserve(sending_request("sent", "3"))
        assert (replayed.may_send, replayed.denial.reason) == (False, hold_pb2.DENIAL_REASON_OUTCOME_UNKNOWN)
        settled = await holds.Resolve(resolve_request("sent", "2.5", attempt=1))
        assert settled.hold.state == hold_pb2.HOLD_STATE_SETTLED


async def test_receipts_and_deliveries(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        holds = ledger.gateway.holds
        for name in ("op-1", "op-2"):
            await holds.Reserve(sending_request(name))
        bound = await holds.RecordReceipt(receipt("op-1", "chatcmpl-1"))
        assert (bound.applied, bound.incident_id, bound.hold.attempt.provider_receipt) == (True, "", "chatcmpl-1")
        assert not (await ledger.finance.holds.RecordReceipt(receipt("op-1", "chatcmpl-1", "other"))).applied
        second = await holds.RecordReceipt(receipt("op-1", "chatcmpl-2"))
        assert second.incident_id
        code, reason, facts = await refusal(holds.RecordReceipt(receipt("op-2", "chatcmpl-1")))
        assert (code, reason, facts["bound_to"]) == ("FAILED_PRECONDITION", "EVIDENCE_REJECTED", "op-1")
        incidents = (await ledger.auditor.holds.ListIncidents(hold_pb2.ListIncidentsRequest())).incidents
        assert {(incident.operation_id, incident.kind) for incident in incidents} == {
            ("op-1", hold_pb2.INCIDENT_KIND_DOUBLE_ACCEPTANCE),
            ("op-2", hold_pb2.INCIDENT_KIND_RECEIPT_CONFLICT),
        }
        delivery = hold_pb2.RecordDeliveryRequest(
            idempotency_key="d", operation_id="op-2", delivery=hold_pb2.DELIVERY_PARTIAL
        )
        assert not (await holds.RecordDelivery(delivery)).replayed
        assert (await holds.RecordDelivery(delivery)).replayed
        assert (await hold_of(ledger, "op-2")).version == 1


async def test_all_of_them_in_a_batch(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        await ledger.gateway.holds.Reserve(sending_request("a"))
        delivery = hold_pb2.RecordDeliveryRequest(idempotency_key="d", operation_id="a", delivery=5)  # type: ignore[arg-type] # no such value
        request = hold_pb2.BatchExecuteRequest(
            commands=[
                hold_pb2.Command(heartbeat=beat("a")),
                hold_pb2.Command(record_failed_before_dispatch=failed("a")),
                hold_pb2.Command(record_delivery=delivery),
                hold_pb2.Command(begin_dispatch=begin("a")),
                hold_pb2.Command(record_receipt=receipt("a", "r-1")),
                hold_pb2.Command(cancel=cancel("a")),
            ]
        )
        results = (await ledger.gateway.holds.BatchExecute(request)).results
        assert [result.WhichOneof("result") for result in results] == [
            "heartbeat", "record_failed_before_dispatch", "error", "begin_dispatch", "record_receipt", "cancel",
        ]  # fmt: skip
        assert results[2].error.metadata["field"] == "commands[2].record_delivery.delivery"
        assert results[3].begin_dispatch.may_send
        assert results[5].cancel.hold.attempt.provider_receipt == "r-1"


async def test_what_is_malformed_is_named(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        holds = ledger.gateway.holds
        malformed: list[tuple[Any, Any, dict[str, Any], str]] = [
            (holds.Heartbeat, beat("a"), {"nonce": "short"}, "nonce"),
            (holds.Heartbeat, beat("a"), {"lease": Duration(seconds=86_401)}, "lease"),
            (holds.Heartbeat, beat("a"), {"operation_id": ""}, "operation_id"),
            (holds.RecordFailedBeforeDispatch, failed("a"), {"cause": 0}, "cause"),
            (holds.RecordFailedBeforeDispatch, failed("a"), {"nonce": ""}, "nonce"),
            (holds.RecordFailedBeforeDispatch, failed("a"), {"attempt": -1}, "attempt"),
            (holds.RecordFailedBeforeDispatch, failed("a"), {"idempotency_key": ""}, "idempotency_key"),
            (holds.Cancel, cancel("a"), {"reason": "x" * 257}, "reason"),
            (holds.RecordReceipt, receipt("a", "r"), {"provider": ""}, "provider"),
            (holds.RecordReceipt, receipt("a", "r"), {"provider_receipt": ""}, "provider_receipt"),
        ]
        for call, request, changes, field in malformed:
            given = {one.name: value for one, value in request.ListFields()}
            assert await invalid(call(type(request)(**given | changes))) == field


async def race(ledger: Ledger, *calls: Any) -> list[Any]:
    return await asyncio.gather(*calls, return_exceptions=True)


async def test_a_cancel_at_the_same_time_as_whatever_else(database_url: str, tmp_path: Path) -> None:
    """Two lanes; whichever comes first, the answers fit the hold, and every law holds."""
    async with serving(database_url, tmp_path, lanes=2) as ledger:
        await ledger.budget(limit=None)
        holds = ledger.gateway.holds
        for i in range(8):
            name = f"begin-{i}"
            await holds.Reserve(reserve_request(name))
            cancelled, begun = await race(
                ledger, holds.Cancel(cancel(name, f"c-{name}")), holds.BeginDispatch(begin(name, key=f"b-{name}"))
            )
            state = (await hold_of(ledger, name)).state
            if cancelled.stopped == hold_pb2.STOPPED_RESERVATION:
                assert (begun.may_send, state) == (False, hold_pb2.HOLD_STATE_RELEASED)
                assert begun.denial.reason == hold_pb2.DENIAL_REASON_RESOLVED
            else:
                assert (begun.may_send, state) == (True, hold_pb2.HOLD_STATE_OUTCOME_UNKNOWN)
        for i in range(8):
            name = f"beat-{i}"
            await holds.Reserve(sending_request(name))
            cancelled, beaten = await race(ledger, holds.Cancel(cancel(name, f"c-{name}")), holds.Heartbeat(beat(name)))
            assert cancelled.stopped == hold_pb2.STOPPED_PERMISSION_TO_SEND
            assert isinstance(beaten, Exception) or beaten.may_continue
            assert not (await hold_of(ledger, name)).attempt.HasField("lease_expire_time")
        for i in range(8):
            name = f"resolve-{i}"
            await holds.Reserve(sending_request(name))
            cancelled, settled = await race(
                ledger,
                holds.Cancel(cancel(name, f"c-{name}")),
                holds.Resolve(resolve_request(name, "0.5", idempotency_key=f"s-{name}")),
            )
            assert settled.hold.resolution.amount.amount == "0.5"
            assert cancelled.applied == (cancelled.hold.state == hold_pb2.HOLD_STATE_OUTCOME_UNKNOWN)
            assert (await hold_of(ledger, name)).state == hold_pb2.HOLD_STATE_SETTLED
    assert violations(database_url) == []


async def test_of_two_executors_that_begin_the_next_attempt_one_may_send(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path, lanes=2) as ledger:
        await ledger.budget(limit=None)
        holds = ledger.gateway.holds
        for i in range(8):
            name = f"op-{i}"
            await holds.Reserve(sending_request(name))
            await holds.RecordFailedBeforeDispatch(failed(name, key=f"f-{name}"))
            begun = await asyncio.gather(
                *(holds.BeginDispatch(begin(name, f"executor-{n}-0123456789", f"b-{name}-{n}")) for n in range(4))
            )
            assert sorted(answer.may_send for answer in begun) == [False, False, False, True]
            assert {answer.hold.attempt.number for answer in begun} == {2}
    assert violations(database_url) == []


async def test_of_two_operations_that_bring_one_receipt_at_once_one_has_it(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path, lanes=2) as ledger:
        await ledger.budget(limit=None)
        holds = ledger.gateway.holds
        for i in range(8):
            names = [f"op-{i}-{n}" for n in range(4)]
            for name in names:
                await holds.Reserve(sending_request(name))
            told = await race(ledger, *(holds.RecordReceipt(receipt(name, f"rcpt-{i}")) for name in names))
            assert sum(isinstance(answer, Exception) for answer in told) == 3
            found = [(await hold_of(ledger, name)).attempt.provider_receipt for name in names]
            assert sorted(found) == ["", "", "", f"rcpt-{i}"]
    assert violations(database_url) == []
