"""Two callers. One is guarded: after a fault it asks the ledger, and settles on evidence. The other sends again.

Both put every step in the same order, and both can be stopped at every boundary of it.
"""

import asyncio
import secrets
from datetime import timedelta
from typing import Any, Final

from ledger.client import Guard, Ledger, NotPermitted, dispatch, metered_quote, usage_evidence
from ledger.demo import replies
from ledger.exercise.barrier import Barrier, Fault
from ledger.exercise.boundaries import Boundary, Style
from ledger.exercise.plan import LEASE_SECONDS, Plan
from ledger.exercise.sending import LOST, look_up, send
from ledger.v1 import hold_pb2 as pb

FLAVOR, PROVIDER = "openai.chat", "openai"
ADAPTER, ADAPTER_REVISION = "exercise", "1"
QUOTE: Final = metered_quote(
    replies.OPENAI_MODEL, api_flavor=FLAVOR, ceilings={"input_tokens": 8_000, "output_tokens": 1_000}
)
LEASE: Final = timedelta(seconds=LEASE_SECONDS)
# How often, and for how long, a caller asks for evidence before it leaves the hold to those who reconcile.
ASK_SECONDS: Final = 0.25
ASK_TIMES: Final = 10
# Longer than a lease and a sweep: until then another process may still be at work on the call.
LEASE_TIMES: Final = 40


class NoUsageYet(Exception):
    """The provider accepted the call, and does not know yet what it used."""


class Gateway:
    """One process of a caller. `seen` is what it saw, for people."""

    def __init__(self, ledger: Ledger, plan: Plan, barrier: Barrier) -> None:
        self.seen: list[str] = []
        self._ledger = ledger
        self._plan = plan
        self._barrier = barrier

    async def run(self) -> None:
        """Makes the call of the plan, or recovers it if another process was there before."""
        plan = self._plan
        if plan.style in (Style.GUARDED, Style.SENDS_FIRST):
            await (self.recover() if plan.recovers else self.call_and_recover())
        elif plan.recovers:
            await self.send_again()
        else:
            await self.call_blindly()

    async def call_and_recover(self) -> None:
        """The guarded call; whatever breaks it, what follows is the same as in a process that starts anew."""
        try:
            if self._plan.style is Style.SENDS_FIRST:
                send(self._plan.provider_url, self._plan.operation_id)
                self._barrier.pass_by(Boundary.AFTER_ACCEPTANCE)
            await self._guarded(self._plan.operation_id)
        except (Fault, NoUsageYet, *LOST) as broken:
            if not isinstance(broken, Fault):
                self.seen.append("no usage")
            await self.recover()

    async def recover(self) -> None:
        """Asks the ledger what may be done about the operation, and does no more than that."""
        operation_id = self._plan.operation_id
        try:
            await self._guarded(operation_id)
        except NotPermitted as denied:
            self.seen.append(f"may not send: {_state(denied.hold)}")
        except (NoUsageYet, *LOST):
            self.seen.append("may send, sent, no usage")
        else:
            self.seen.append("may send, sent")
            return
        hold = await self._when_nobody_is_at_work(operation_id)
        if hold.state == pb.HOLD_STATE_RELEASED or hold.resolution.kind == pb.RESOLUTION_KIND_NO_COST:
            # The ledger has a proof that the call was not made: the same intent, as a new operation.
            await self._guarded(f"{operation_id}/again")
            self.seen.append("new operation, sent")
        elif hold.state == pb.HOLD_STATE_OUTCOME_UNKNOWN:
            await self._find_evidence(operation_id)

    async def _guarded(self, operation_id: str) -> None:
        pass_by = self._barrier.pass_by
        async with self._guard(operation_id) as operation:
            pass_by(Boundary.BEFORE_DISPATCH)
            await operation.begin_dispatch()
            pass_by(Boundary.AFTER_DISPATCH)
            try:
                answer = send(self._url(operation_id), operation_id)
            except ConnectionRefusedError:
                await operation.never_sent(pb.NEVER_SENT_CAUSE_CONNECTION_REFUSED)
                pass_by(Boundary.PROVED_UNSENT)
                return
            pass_by(Boundary.AFTER_ACCEPTANCE)
            receipt = answer.receipt()
            # From here the ledger knows that the call was accepted, and under which name to ask for it.
            await operation.record_receipt(receipt)
            pass_by(Boundary.AFTER_RECEIPT)
            document = answer.document()
            if document is None:
                raise NoUsageYet(operation_id)
            await operation.settle(document, receipt=receipt)

    def _guard(self, operation_id: str) -> Guard:
        return self._ledger.guard(
            operation_id,
            budgets=[self._plan.budget_id],
            quote=QUOTE,
            provider=PROVIDER,
            lease=LEASE,
            executor=ADAPTER,
            adapter=ADAPTER,
            adapter_revision=ADAPTER_REVISION,
            request_group=self._plan.operation_id,
        )

    async def _when_nobody_is_at_work(self, operation_id: str) -> pb.Hold:
        """The hold when its attempt has ended, or its lease: a call on its way would not be in the provider's records yet."""
        for _ in range(LEASE_TIMES):
            hold = await self._ledger.get_hold(operation_id)
            if hold.state != pb.HOLD_STATE_DISPATCHING:
                break
            await asyncio.sleep(ASK_SECONDS)
        return hold

    async def _find_evidence(self, operation_id: str) -> None:
        """Looks for evidence where this provider has it, within bounds. Without any the hold stays as it is."""
        modes = self._plan.modes
        for _ in range(ASK_TIMES if modes.look_up or modes.webhooks else 0):
            if modes.look_up:
                await file_records(self._ledger, self._plan.provider_url, operation_id)
            hold = await self._ledger.get_hold(operation_id)
            if hold.state != pb.HOLD_STATE_OUTCOME_UNKNOWN:
                self.seen.append("settled by look-up" if modes.look_up else "settled by webhook")
                return
            await asyncio.sleep(ASK_SECONDS)
        self.seen.append("no evidence found")

    async def call_blindly(self) -> None:
        """The same steps without a guard, and without the ledger's advice."""
        operation_id, pass_by = self._plan.operation_id, self._barrier.pass_by
        try:
            await self._reserve(operation_id)
            pass_by(Boundary.BEFORE_DISPATCH)
            await self._begin(operation_id)
            pass_by(Boundary.AFTER_DISPATCH)
            try:
                answer = send(self._url(operation_id), operation_id)
            except ConnectionRefusedError:
                pass_by(Boundary.PROVED_UNSENT)
                raise
            pass_by(Boundary.AFTER_ACCEPTANCE)
            receipt = answer.receipt()
            pass_by(Boundary.AFTER_RECEIPT)
            await self._settle(operation_id, answer.document(), receipt)
        except (Fault, *LOST):
            await self.send_again()

    async def send_again(self) -> None:
        """The blind resend. What it is answered it reports, as the first call would have been."""
        operation_id = self._plan.operation_id
        if self._plan.style is Style.ANEW:
            operation_id += "/anew"
            await self._reserve(operation_id)
            await self._begin(operation_id)
        receipt, document = send(self._plan.provider_url, operation_id).all()
        self.seen.append("sent again")
        await self._settle(operation_id, document, receipt)

    async def _reserve(self, operation_id: str) -> None:
        await self._ledger.reserve(
            operation_id, budgets=[self._plan.budget_id], quote=QUOTE, request_group=self._plan.operation_id
        )

    async def _begin(self, operation_id: str) -> None:
        await self._ledger.begin_dispatch(operation_id, dispatch(secrets.token_hex(16), lease=LEASE))

    async def _settle(self, operation_id: str, document: dict[str, Any] | None, receipt: str) -> None:
        evidence = usage_of(document, receipt, pb.EVIDENCE_SOURCE_PROVIDER_RESPONSE)
        await self._ledger.resolve(operation_id, evidence)

    def _url(self, operation_id: str) -> str:
        """The control's first call goes to a port where nobody listens."""
        first = operation_id == self._plan.operation_id and not self._plan.recovers
        control = self._plan.boundary is Boundary.PROVED_UNSENT
        return self._plan.closed_url if control and first else self._plan.provider_url


def usage_of(document: dict[str, Any] | None, receipt: str, source: pb.EvidenceSource.ValueType) -> pb.UsageEvidence:
    return usage_evidence(
        PROVIDER,
        document,
        api_flavor=FLAVOR,
        receipt=receipt,
        source=source,
        adapter=ADAPTER,
        adapter_revision=ADAPTER_REVISION,
    )


async def file_records(ledger: Ledger, provider_url: str, operation_id: str) -> int:
    """Looks an operation up at its provider, and brings the ledger every usage that is there. Gives how many there were."""
    # In a thread: the provider may be served by this very event loop.
    calls = await asyncio.to_thread(look_up, provider_url, operation_id)
    records = [call for call in calls if call["document"] is not None]
    for record in records:
        evidence = usage_of(record["document"], record["id"], pb.EVIDENCE_SOURCE_PROVIDER_RECORD)
        await ledger.resolve(operation_id, evidence)
    return len(records)


def _state(hold: pb.Hold) -> str:
    return pb.HoldState.Name(hold.state).removeprefix("HOLD_STATE_")
