"""What executors do with the attempts of holds, beside the naive model: the rules of a state machine that sends, or not."""

from typing import Any
from uuid import uuid4

from google.protobuf.duration_pb2 import Duration
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from ledger.v1 import hold_pb2
from tests.acceptance.early_evidence import EarlyEvidence
from tests.acceptance.harness import refused, state
from tests.acceptance.naive_model import OPEN, ModelHold

RECEIPTS = st.sampled_from(["rcpt-1", "rcpt-2", "rcpt-3"])


class Attempts(EarlyEvidence):
    """Calls the ledger as the machine's actors."""

    def nonce(self, hold: ModelHold, mine: bool) -> str:
        """That of the attempt's owner, or of another process."""
        return hold.nonce if mine and hold.nonce else f"nonce-{uuid4().hex}"

    @precondition(lambda self: self.holds)
    @rule(data=st.data(), key=st.integers(0, 2), mine=st.booleans())
    def begin_dispatch(self, data: st.DataObject, key: int, mine: bool) -> None:
        name = self.some_hold(data)
        hold = self.holds[name]
        nonce, named = self.nonce(hold, mine), f"d{key}-{name}"
        dispatch = hold_pb2.Dispatch(nonce=nonce)
        answer = self.gateway.holds.BeginDispatch(
            hold_pb2.BeginDispatchRequest(idempotency_key=named, operation_id=name, dispatch=dispatch)
        )
        waits = hold.state == "DISPATCHING" and hold.failed and not hold.seen and nonce != hold.nonce
        if named not in hold.keys and (hold.state == "RESERVED" or waits):
            assert answer.may_send
            hold.state, hold.nonce, hold.failed, hold.attempts = "DISPATCHING", nonce, False, hold.attempts + 1
            assert answer.hold.attempt.number == hold.attempts
        else:
            mine = nonce == hold.nonce
            assert answer.may_send == (hold.state == "DISPATCHING" and mine and not hold.failed and not hold.seen)
            assert answer.HasField("denial") != answer.may_send
        hold.keys.add(named)
        assert state(answer.hold) == hold.state

    @precondition(lambda self: any(h.state == "RESERVED" for h in self.holds.values()))
    @rule(data=st.data())
    def two_workers_begin_the_same_dispatch(self, data: st.DataObject) -> None:
        name = self.some_hold(data, "RESERVED")
        nonces = [f"worker-{worker}-{name}-0123456789" for worker in (1, 2)]
        answers = [
            self.gateway.holds.BeginDispatch(
                hold_pb2.BeginDispatchRequest(
                    idempotency_key=f"w-{name}", operation_id=name, dispatch=hold_pb2.Dispatch(nonce=nonce)
                )
            )
            for nonce in nonces
        ]
        assert [answer.may_send for answer in answers] == [True, False]
        assert [answer.replayed for answer in answers] == [False, True]
        hold = self.holds[name]
        hold.state, hold.nonce, hold.attempts = "DISPATCHING", nonces[0], 1

    @precondition(lambda self: self.holds)
    @rule(data=st.data(), mine=st.sampled_from([True, True, False]), minutes=st.sampled_from([1, 20, 40]))
    def heartbeat(self, data: st.DataObject, mine: bool, minutes: int) -> None:
        name = self.some_hold(data)
        hold = self.holds[name]
        request = hold_pb2.HeartbeatRequest(
            operation_id=name, nonce=self.nonce(hold, mine), lease=Duration(seconds=minutes * 60)
        )
        if request.nonce != hold.nonce or hold.failed:
            with refused("ATTEMPT_NOT_CURRENT"):
                self.gateway.holds.Heartbeat(request)
            return
        answer = self.gateway.holds.Heartbeat(request)
        # The lease is 15 min at first, and is never shortened.
        assert answer.may_continue == (hold.state == "DISPATCHING")
        assert answer.applied <= answer.may_continue
        assert not (answer.applied and minutes == 1)

    @precondition(lambda self: self.holds)
    @rule(data=st.data(), mine=st.sampled_from([True, True, False]))
    def record_failed_before_dispatch(self, data: st.DataObject, mine: bool) -> None:
        name = self.some_hold(data)
        hold = self.holds[name]
        request = hold_pb2.RecordFailedBeforeDispatchRequest(
            idempotency_key=f"f-{uuid4().hex}",
            operation_id=name,
            nonce=self.nonce(hold, mine),
            cause=hold_pb2.NEVER_SENT_CAUSE_DNS_FAILURE,
        )
        reason = ""
        if hold.state == "RESERVED":
            reason = "HOLD_STATE"
        elif request.nonce != hold.nonce:
            reason = "ATTEMPT_NOT_CURRENT"
        elif not hold.failed and (hold.state != "DISPATCHING" or hold.seen):
            reason = "HOLD_STATE"
        if reason:
            with refused(reason):
                self.gateway.holds.RecordFailedBeforeDispatch(request)
            return
        answer = self.gateway.holds.RecordFailedBeforeDispatch(request)
        assert answer.applied != hold.failed
        assert state(answer.hold) == hold.state
        hold.failed = True

    @precondition(lambda self: self.holds)
    @rule(data=st.data(), who=st.sampled_from(["gateway", "finance"]))
    def cancel(self, data: st.DataObject, who: str) -> None:
        name = self.some_hold(data)
        hold = self.holds[name]
        stubs: Any = self.gateway if who == "gateway" else self.finance
        request = hold_pb2.CancelRequest(idempotency_key=f"c-{uuid4().hex}", operation_id=name, reason="left")
        answer = stubs.holds.Cancel(request)
        assert answer.applied == (hold.state in {"RESERVED", "DISPATCHING"})
        if hold.state == "RESERVED":
            hold.state, hold.kind = "RELEASED", "NEVER_DISPATCHED"
        elif hold.state == "DISPATCHING":
            self.without_another_attempt(hold)
            if not hold.failed:
                hold.nonce = ""
        assert state(answer.hold) == hold.state
        assert answer.HasField("unsettled") == (hold.state in OPEN)

    @staticmethod
    def without_another_attempt(hold: ModelHold) -> None:
        """What becomes of a dispatched hold on which nobody may send any more."""
        if hold.failed and not hold.seen:
            hold.state, hold.kind = "SETTLED", "NO_COST"
        else:
            hold.state = "OUTCOME_UNKNOWN"

    @precondition(lambda self: self.holds)
    @rule(data=st.data(), receipt=RECEIPTS, who=st.sampled_from(["gateway", "finance"]))
    def record_receipt(self, data: st.DataObject, receipt: str, who: str) -> None:
        name = self.some_hold(data)
        hold = self.holds[name]
        stubs: Any = self.gateway if who == "gateway" else self.finance
        request = hold_pb2.RecordReceiptRequest(
            idempotency_key=f"b-{uuid4().hex}", operation_id=name, provider="acme", provider_receipt=receipt
        )
        owner = self.bound.get(receipt)
        if hold.receipt == receipt or owner == name:
            assert not stubs.holds.RecordReceipt(request).applied
            return
        if owner is not None or any(other.receipt == receipt for other in self.holds.values()):
            with refused("EVIDENCE_REJECTED") as error:
                stubs.holds.RecordReceipt(request)
            assert error.metadata["bound_to"] != name
            self.incidents.add((name, f"receipt {receipt} of another"))
            return
        answer = stubs.holds.RecordReceipt(request)
        assert answer.applied
        cost_nothing = not hold.receipt and hold.state not in OPEN and hold.kind != "USAGE"
        assert bool(answer.incident_id) == (self.accepted_twice(name, receipt) or cost_nothing)
        if cost_nothing:
            self.incidents.add((name, f"receipt {receipt} of what cost nothing"))
        self.bound[receipt] = name
        hold.receipt = hold.receipt or receipt
        if hold.state == "RESERVED":
            hold.attempted = True
            hold.state = self.after_inferred_dispatch(name)

    @precondition(lambda self: self.holds)
    @rule(data=st.data(), delivery=st.sampled_from([hold_pb2.DELIVERY_PARTIAL, hold_pb2.DELIVERY_COMPLETE]))
    def record_delivery(self, data: st.DataObject, delivery: hold_pb2.Delivery.ValueType) -> None:
        name = self.some_hold(data)
        request = hold_pb2.RecordDeliveryRequest(
            idempotency_key=f"y-{uuid4().hex}", operation_id=name, delivery=delivery
        )
        self.gateway.holds.RecordDelivery(request)
        found = self.gateway.holds.GetHold(hold_pb2.GetHoldRequest(operation_id=name)).hold
        assert found.delivery.value == delivery
        assert state(found) == self.holds[name].state
