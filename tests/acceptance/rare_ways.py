"""Rules of the random lives that go straight to what chance comes to too seldom. Each is some of the ordinary steps, in one."""

from decimal import Decimal
from uuid import uuid4

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from ledger.v1 import hold_pb2
from tests.acceptance.attempts_model import Attempts
from tests.acceptance.corrections_model import Corrections
from tests.acceptance.harness import usd
from tests.acceptance.naive_model import BUDGETS, CHAINS, ModelHold

LEVELS = st.sampled_from(list(BUDGETS))


class RareWays(Attempts, Corrections):
    """Each way begins with a hold of nothing, which every budget takes, and which may cost 2."""

    def begun(self, level: str, *, dispatch: bool) -> str:
        name = f"rare-{len(self.holds)}"
        request = self.reservation(name, Decimal(0), Decimal(2), {level}, dispatch)
        answer = self.gateway.holds.Reserve(request)
        assert (answer.replayed, answer.may_send) == (False, dispatch)
        hold = self.holds[name] = ModelHold(Decimal(0), Decimal(2), CHAINS[level], request)
        if dispatch:
            hold.state, hold.nonce, hold.attempts = "DISPATCHING", request.dispatch.nonce, 1
        return name

    @rule(level=LEVELS)
    def not_sent_and_begun_again(self, level: str) -> None:
        name = self.begun(level, dispatch=True)
        hold, nonce = self.holds[name], f"nonce-{uuid4().hex}"
        failed = hold_pb2.RecordFailedBeforeDispatchRequest(
            idempotency_key=f"f-{nonce}",
            operation_id=name,
            nonce=hold.nonce,
            cause=hold_pb2.NEVER_SENT_CAUSE_CONNECTION_REFUSED,
        )
        assert self.gateway.holds.RecordFailedBeforeDispatch(failed).applied
        begin = hold_pb2.BeginDispatchRequest(
            idempotency_key=f"d-{nonce}", operation_id=name, dispatch=hold_pb2.Dispatch(nonce=nonce)
        )
        answer = self.gateway.holds.BeginDispatch(begin)
        assert (answer.may_send, answer.hold.attempt.number) == (True, 2)
        hold.nonce, hold.attempts = nonce, 2

    def least_room(self, level: str) -> Decimal | None:
        return min((room for each in CHAINS[level] if (room := self.room(each)) is not None), default=None)

    @precondition(lambda self: any(self.least_room(level) is not None for level in BUDGETS))
    @rule(data=st.data(), beyond=st.sampled_from([Decimal("0.5"), Decimal(3)]))
    def costs_more_than_is_left(self, data: st.DataObject, beyond: Decimal) -> None:
        """Finance accepts it, and what no limit covers is a deficit."""
        level = data.draw(st.sampled_from([level for level in BUDGETS if self.least_room(level) is not None]))
        cost = (self.least_room(level) or Decimal(0)) + beyond
        name = self.begun(level, dispatch=True)
        request = hold_pb2.ResolveRequest(
            idempotency_key=f"m-{uuid4().hex}", operation_id=name, accept_overrun_reason="the invoice"
        )
        request.usage.source, request.usage.provider = hold_pb2.EVIDENCE_SOURCE_STATEMENT, "acme"
        request.usage.charged.CopyFrom(usd(cost))
        answer = self.finance.holds.Resolve(request)
        assert (answer.replayed, Decimal(answer.hold.resolution.amount.amount)) == (False, cost)
        hold = self.holds[name]
        hold.state, hold.kind, hold.settled = "SETTLED", "USAGE", cost
        hold.executed, hold.attempted = True, True

    @rule(level=LEVELS, cost=st.sampled_from([Decimal("0.5"), Decimal(2)]))
    def a_bill_for_what_was_released(self, level: str, cost: Decimal) -> None:
        name = self.begun(level, dispatch=False)
        release = hold_pb2.ReleaseRequest(idempotency_key=f"l-{name}", operation_id=name)
        digest = self.gateway.holds.Release(release).hold.resolution.digest
        self.holds[name].state, self.holds[name].kind = "RELEASED", "NEVER_DISPATCHED"
        request = hold_pb2.CorrectRequest(
            idempotency_key=f"b-{name}", operation_id=name, digest_in_force=digest, reason="a bill"
        )
        request.usage.source, request.usage.provider = hold_pb2.EVIDENCE_SOURCE_STATEMENT, "acme"
        request.usage.charged.CopyFrom(usd(cost))
        self.is_corrected(name, request, ("USAGE", cost), "")
