"""What finance does to holds that have ended, beside the naive model: the rules of a state machine that corrects them."""

from decimal import Decimal
from uuid import uuid4

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from ledger.v1 import hold_pb2
from tests.acceptance.harness import Stubs, refused, usd
from tests.acceptance.naive_model import OPEN, NaiveModel


class Corrections(NaiveModel):
    """Calls the ledger as the machine's actors."""

    gateway: Stubs
    finance: Stubs

    def superseded_answer(self, name: str, answer: hold_pb2.ResolveResponse, receipt: str) -> None:
        """A fact that was in force once: a replay, which names the digest that is."""
        assert answer.replayed
        assert answer.superseded_by == answer.hold.resolution.digest
        assert bool(answer.incident_id) == self.brings(name, receipt)

    @precondition(lambda self: any(h.state not in OPEN for h in self.holds.values()))
    @rule(
        data=st.data(),
        difference=st.sampled_from([Decimal(text) for text in ("0", "-0.5", "1", "-1", "3", "-100", "9")]),
        accept=st.sampled_from([True, True, False]),
        receipt=st.sampled_from(["", "rcpt-1", "rcpt-2"]),
        refusal=st.sampled_from([False, False, True]),
        stale=st.sampled_from([False, False, False, True]),
    )
    def correct(
        self, data: st.DataObject, difference: Decimal, accept: bool, receipt: str, refusal: bool, stale: bool
    ) -> None:
        name = data.draw(st.sampled_from([name for name, h in self.holds.items() if h.state not in OPEN]))
        hold = self.holds[name]
        in_force = self.gateway.holds.GetHold(hold_pb2.GetHoldRequest(operation_id=name)).hold.resolution
        cost = Decimal(0) if refusal else max(hold.amount + difference, Decimal(0))
        request = hold_pb2.CorrectRequest(
            idempotency_key=f"c-{uuid4().hex}",
            operation_id=name,
            digest_in_force=in_force.digest,
            reason="a bill",
            accept_overrun_reason="agreed" if accept else "",
        )
        if refusal:
            receipt = ""
            request.no_cost.kind = hold_pb2.NO_COST_KIND_REJECTED_BEFORE_EXECUTION
            request.no_cost.provider_status, request.no_cost.provider_request_id = 429, "request-1"
        else:
            usage = request.usage
            usage.source, usage.provider = hold_pb2.EVIDENCE_SOURCE_STATEMENT, "acme"
            usage.provider_receipt = receipt
            usage.charged.CopyFrom(usd(cost))
        fact = ("NO_COST" if refusal else "USAGE", cost)
        if stale:
            request.digest_in_force = "0" * 64
            for _ in range(2):  # the key remembers
                with refused("DIGEST_NOT_IN_FORCE") as error:
                    self.finance.holds.Correct(request)
                assert error.metadata["digest_in_force"] == in_force.digest
        elif refusal and hold.receipt:
            with refused("EVIDENCE_REJECTED"):
                self.finance.holds.Correct(request)
        elif fact == (hold.kind, hold.settled):
            answer = self.finance.holds.Correct(request)
            assert answer.replayed
            assert bool(answer.incident_id) == self.brings(name, receipt)
        elif cost > hold.amount + hold.tolerance and not accept:
            with refused("EVIDENCE_REJECTED") as error:
                self.finance.holds.Correct(request)
            assert ("incident_id" in error.metadata) == self.brings(name, receipt, kept=False)
        else:
            self.is_corrected(name, request, fact, receipt)

    def is_corrected(
        self, name: str, request: hold_pb2.CorrectRequest, fact: tuple[str, Decimal], receipt: str
    ) -> None:
        hold = self.holds[name]
        answer = self.finance.holds.Correct(request)
        assert not answer.replayed
        assert Decimal(answer.hold.resolution.amount.amount) == fact[1]
        assert bool(answer.incident_id) == self.brings(name, receipt)
        hold.facts.append((hold.kind, hold.settled))
        hold.kind, hold.settled = fact
        hold.attempted = True
        hold.executed = hold.executed or fact[0] == "USAGE"
        again = self.finance.holds.Correct(request)
        assert (again.replayed, again.superseded_by) == (True, "")
        listed = self.finance.holds.ListResolutions(hold_pb2.ListResolutionsRequest(operation_id=name)).resolutions
        assert [Decimal(r.amount.amount) for r in listed] == [*(amount for _, amount in hold.facts), hold.settled]
        assert [r.supersedes for r in listed] == ["", *(r.digest for r in listed[:-1])]
