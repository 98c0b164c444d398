"""Rules of the random lives: evidence that comes before its hold."""

from decimal import Decimal
from uuid import uuid4

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from ledger.v1 import evidence_pb2, hold_pb2
from tests.acceptance.harness import LiveLedger, Stubs, refused, usd
from tests.acceptance.naive_model import BUDGETS, CHAINS, ModelHold, NaiveModel

AMOUNTS = st.sampled_from([Decimal(text) for text in ("0", "0.000000000000000001", "0.9", "1", "3", "4.5", "10", "11")])


class EarlyEvidence(NaiveModel):
    """Reserves, and what may be there before them."""

    live: LiveLedger
    gateway: Stubs
    finance: Stubs

    def reservation(
        self, operation: str, amount: Decimal, tolerance: Decimal, named: set[str], dispatch: bool
    ) -> hold_pb2.ReserveRequest:
        request = hold_pb2.ReserveRequest(
            idempotency_key=f"r-{operation}",
            operation_id=operation,
            budget_ids=sorted(named),
            quote=hold_pb2.QuoteSpec(
                fixed=hold_pb2.FixedQuote(amount=usd(amount), provider="acme", reason="a test"),
                tolerance=str(tolerance),
            ),
        )
        if dispatch:
            request.begin_dispatch = True
            request.dispatch.nonce = f"nonce-{operation}-0123456789"
        return request

    # Few at a time, or the lives are of little else.
    @precondition(lambda self: len(self.parked) < 2)
    @rule(cost=AMOUNTS, receipt=st.sampled_from(["", "rcpt-1"]), again=st.booleans())
    def evidence_before_its_hold(self, cost: Decimal, receipt: str, again: bool) -> None:
        operation = f"early-{len(self.early)}"
        self.early.append(operation)
        self.parked[operation] = (cost, receipt)
        request = hold_pb2.ResolveRequest(
            idempotency_key=f"e-{operation}",
            operation_id=operation,
            usage=hold_pb2.UsageEvidence(
                source=hold_pb2.EVIDENCE_SOURCE_WEBHOOK, provider="acme", charged=usd(cost), provider_receipt=receipt
            ),
        )
        for replayed in (False, True) if again else (False,):
            answer = self.gateway.holds.Resolve(request)
            assert (answer.parked, answer.replayed, answer.HasField("hold")) == (True, replayed, False)

    @precondition(lambda self: self.parked)
    @rule(
        data=st.data(),
        amount=AMOUNTS,
        tolerance=st.sampled_from([Decimal(0), Decimal(2)]),
        level=st.sampled_from(list(BUDGETS)),
        dispatch=st.booleans(),
    )
    def the_hold_comes(
        self, data: st.DataObject, amount: Decimal, tolerance: Decimal, level: str, dispatch: bool
    ) -> None:
        """Refused, the evidence waits on. Else nobody may send, and a worker files it."""
        operation = data.draw(st.sampled_from(sorted(self.parked)))
        request = self.reservation(operation, amount, tolerance, {level}, dispatch)
        request.idempotency_key += f"-{uuid4().hex}"
        levels = CHAINS[level]
        if any((room := self.room(name)) is not None and amount > room for name in levels):
            with refused("INSUFFICIENT_BUDGET"):
                self.gateway.holds.Reserve(request)
            return
        answer = self.gateway.holds.Reserve(request)
        assert not answer.may_send
        cost, receipt = self.parked.pop(operation)
        hold = self.holds[operation] = ModelHold(amount, tolerance, levels, request, "SETTLED", kind="USAGE")
        hold.executed, hold.attempted = True, True
        if cost > amount + tolerance:
            hold.kind, hold.state = "", self.after_inferred_dispatch(operation)
        else:
            hold.settled = cost
            self.live.wait_for_state(self.gateway, operation, "SETTLED")
        self.brings(operation, receipt)

    def after_inferred_dispatch(self, name: str) -> str:
        """The inferred attempt has no lease: the sweep makes it unknown at once."""
        self.live.wait_for_state(self.gateway, name, "OUTCOME_UNKNOWN")
        return "OUTCOME_UNKNOWN"

    @invariant()
    def what_waits_is_the_models(self) -> None:
        found = self.finance.evidence.ListParkedEvidence(
            evidence_pb2.ListParkedEvidenceRequest(page_size=1000)
        ).evidence
        assert {evidence.operation_id for evidence in found} == set(self.parked)
