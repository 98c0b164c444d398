"""Rules of the random lives that go straight to what chance comes to too seldom."""

from decimal import Decimal
from uuid import uuid4

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from ledger.v1 import hold_pb2
from tests.acceptance.attempts_model import Attempts
from tests.acceptance.corrections_model import Corrections
from tests.acceptance.harness import usd
from tests.acceptance.naive_model import OPEN, ModelHold


class RareWays(Attempts, Corrections):
    """Each way is some steps of the ordinary rules, in one."""

    def names(self, *states: str) -> list[str]:
        return [name for name, hold in self.holds.items() if hold.state in states]

    def under_way(self) -> list[str]:
        """Holds that somebody may send on."""
        holds = self.holds
        return [n for n in self.names("DISPATCHING") if holds[n].nonce and not holds[n].failed and not holds[n].seen]

    @precondition(lambda self: self.under_way())
    @rule(data=st.data())
    def not_sent_and_begun_again(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.under_way()))
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
        hold.nonce, hold.attempts = nonce, hold.attempts + 1
        assert (answer.may_send, answer.hold.attempt.number) == (True, hold.attempts)

    def least_room(self, hold: ModelHold) -> Decimal | None:
        return min((room for level in hold.levels if (room := self.room(level)) is not None), default=None)

    def limited(self) -> list[str]:
        return [name for name in self.names(*OPEN) if self.least_room(self.holds[name]) is not None]

    @precondition(lambda self: self.limited())
    @rule(data=st.data(), beyond=st.sampled_from([Decimal("0.5"), Decimal(3)]))
    def costs_more_than_is_left(self, data: st.DataObject, beyond: Decimal) -> None:
        """Finance accepts it, and what no limit covers is a deficit."""
        name = data.draw(st.sampled_from(self.limited()))
        hold = self.holds[name]
        cost = hold.amount + (self.least_room(hold) or Decimal(0)) + beyond
        request = hold_pb2.ResolveRequest(
            idempotency_key=f"m-{uuid4().hex}", operation_id=name, accept_overrun_reason="the invoice"
        )
        request.usage.source, request.usage.provider = hold_pb2.EVIDENCE_SOURCE_STATEMENT, "acme"
        request.usage.charged.CopyFrom(usd(cost))
        answer = self.finance.holds.Resolve(request)
        assert (answer.replayed, Decimal(answer.hold.resolution.amount.amount)) == (False, cost)
        hold.state, hold.kind, hold.settled = "SETTLED", "USAGE", cost
        hold.executed, hold.attempted = True, True

    def never_billed(self) -> list[str]:
        return [name for name in self.names("RELEASED") if self.holds[name].kind == "NEVER_DISPATCHED"]

    @precondition(lambda self: self.never_billed())
    @rule(data=st.data(), share=st.sampled_from([Decimal("0.5"), Decimal(1)]))
    def a_bill_for_what_was_released(self, data: st.DataObject, share: Decimal) -> None:
        name = data.draw(st.sampled_from(self.never_billed()))
        cost = (self.holds[name].amount * share).quantize(Decimal(1).scaleb(-18))
        request = hold_pb2.CorrectRequest(
            idempotency_key=f"b-{uuid4().hex}",
            operation_id=name,
            digest_in_force=self.gateway.holds.GetHold(
                hold_pb2.GetHoldRequest(operation_id=name)
            ).hold.resolution.digest,
            reason="a bill",
        )
        request.usage.source, request.usage.provider = hold_pb2.EVIDENCE_SOURCE_STATEMENT, "acme"
        request.usage.charged.CopyFrom(usd(cost))
        self.is_corrected(name, request, ("USAGE", cost), "")
