"""What can happen to a call, one scene each, and what the ledger must say of it.

A scene tells what was seen, looks at the hold, and holds both against what is right; the amounts were worked out by hand.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

import aiohttp

from ledger.client import Client, Refused
from ledger.client.errors import reason_name
from ledger.demo import replies
from ledger.demo.gateway import Answered, Call, Gateway, NeverSent, Rejected, Seen, Unknown, send, usage_evidence
from ledger.demo.provider import FakeProvider, Mode
from ledger.v1 import error_pb2, hold_pb2

BUDGET = "acme-support"
CEILINGS = {"input_tokens": 8_000, "output_tokens": 1_000}
FLAVORS = {replies.OPENAI_MODEL: "openai.chat", replies.ANTHROPIC_MODEL: "anthropic.messages"}

# 1 600 x 2.5 + 2 400 x 1.25 + 500 x 10 = 4 000 + 3 000 + 5 000, per million
OPENAI_COST = "0.012"
# 1 000 x 3 + 2 000 x 3.75 + 400 x 15 = 3 000 + 7 500 + 6 000, per million
ANTHROPIC_COST = "0.0165"
# 8 000 x 2.5 + 1 000 x 10 = 20 000 + 10 000, per million: the ceilings at the highest rates
OPENAI_HOLD = "0.03"


@dataclass(frozen=True, slots=True)
class Row:
    """One operation at the end of the story. `posted` None: nothing is posted yet."""

    name: str
    caller_saw: str
    provider_acceptances: int
    provider_did: str
    state: str
    set_aside: str
    posted: str | None


@dataclass(slots=True)
class Story:
    """The actors, what was told so far, and what turned out otherwise than it must."""

    gateway: Gateway
    finance: Client
    provider: FakeProvider
    closed_url: str
    tell: Callable[[str, str], None]
    rows: list[Row] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    async def play(self) -> None:
        """Plays every scene, in order."""
        await self.ordinary_call()
        await self.ordinary_stream()
        await self.lost_reply()
        await self.connection_refused()
        await self.refused_by_provider()
        await self.zero_usage()
        await self.blind_resend()
        await self.still_unknown()

    async def ordinary_call(self) -> None:
        call = self._call("chat", replies.OPENAI_MODEL)
        self.tell(
            "chat",
            "An ordinary call: set aside the most that it can cost, send, settle on the usage in the answer. What was not "
            "used comes free.",
        )
        seen, _ = await self.gateway.call(call)
        await self._end(call, seen, "executed", 1, "SETTLED", OPENAI_COST)

    async def ordinary_stream(self) -> None:
        call = self._call("stream", replies.ANTHROPIC_MODEL, stream=True)
        self.tell(
            "stream", "A streamed call: its usage comes in two parts, and the later counts replace the earlier ones."
        )
        seen, _ = await self.gateway.call(call)
        await self._end(call, seen, "executed", 1, "SETTLED", ANTHROPIC_COST)

    async def lost_reply(self) -> None:
        call = self._call("lost-reply", replies.OPENAI_MODEL, mode=Mode.DELAYED, patience=1.0)
        self.tell(
            "lost-reply",
            "The answer does not come in time, and the provider may have charged for it: the outcome is unknown, the "
            "money stays held, a release is refused. Then finance reads the provider's record: that is evidence, and "
            "settles it.",
        )
        seen, hold = await self.gateway.call(call)
        self._expect("a lost reply", _state(hold), "OUTCOME_UNKNOWN")
        self._expect("the release of an unknown hold", await self._release(call), "HOLD_STATE")
        self._expect("records of a lost reply", await self._settle_from_records(call), [False])
        await self._end(call, seen, "executed", 1, "SETTLED", OPENAI_COST)

    async def connection_refused(self) -> None:
        call = self._call("no-connection", replies.OPENAI_MODEL, url=self.closed_url, request_group="ticket-17")
        self.tell(
            "no-connection, run-again",
            "Nothing can have been sent, which proves that it cost nothing: settled at 0. The same intent then runs "
            "again, as a new operation with a hold of its own.",
        )
        seen, _ = await self.gateway.call(call)
        await self._end(call, seen, "never reached", 0, "SETTLED", "0")
        again = self._call("run-again", replies.OPENAI_MODEL, request_group="ticket-17")
        seen, _ = await self.gateway.call(again)
        await self._end(again, seen, "executed", 1, "SETTLED", OPENAI_COST)
        group = await self.finance.holds.ListHolds(hold_pb2.ListHoldsRequest(request_group="ticket-17"))
        names = [hold.operation_id for hold in group.holds]
        self._expect("the holds of one intent", names, ["no-connection", "run-again"])

    async def refused_by_provider(self) -> None:
        call = self._call("rate-limited", replies.ANTHROPIC_MODEL, mode=Mode.REFUSE)
        self.tell(
            "rate-limited",
            "A 429 with the provider's request id proves that the call was not executed: settled at 0.",
        )
        seen, _ = await self.gateway.call(call)
        await self._end(call, seen, "refused", 0, "SETTLED", "0")

    async def zero_usage(self) -> None:
        call = self._call("zero-usage", replies.OPENAI_MODEL, mode=Mode.ZERO_USAGE)
        self.tell(
            "zero-usage",
            "The provider reports a usage of zero. That is a fact, and settles at 0; a missing number would not.",
        )
        seen, _ = await self.gateway.call(call)
        await self._end(call, seen, "charged 0", 1, "SETTLED", "0")

    async def blind_resend(self) -> None:
        call = self._call("blind-resend", replies.OPENAI_MODEL, mode=Mode.LOST_REPLY)
        self.tell(
            "blind-resend",
            "The ledger says NO_REPLAY of a lost reply, and someone sends it again: the provider executes it twice. One "
            "hold settles once; the record of the other acceptance, by its other receipt, opens an incident for people.",
        )
        seen, hold = await self.gateway.call(call)
        self._expect("the advice about a lost reply", hold.recovery_action, error_pb2.RECOVERY_ACTION_NO_REPLAY)
        resent = self._call("blind-resend", replies.OPENAI_MODEL)
        answered = await send(self.gateway.session, resent)
        assert isinstance(answered, Answered), "the fake provider answers this time"
        evidence = usage_evidence(resent.flavor, answered.document, answered.provider_receipt)
        await self.gateway.ledger.resolve(resent.operation_id, evidence)
        self._expect("records of a call sent twice", await self._settle_from_records(call), [True, True])
        incidents = await self.finance.holds.ListIncidents(
            hold_pb2.ListIncidentsRequest(operation_id=call.operation_id)
        )
        kinds = [hold_pb2.IncidentKind.Name(incident.kind) for incident in incidents.incidents]
        self._expect("incidents of a call sent twice", kinds, ["INCIDENT_KIND_DOUBLE_ACCEPTANCE"])
        await self._end(call, seen, "executed twice", 2, "SETTLED", OPENAI_COST)

    async def still_unknown(self) -> None:
        call = self._call("no-record-yet", replies.OPENAI_MODEL, mode=Mode.LATE_RECORD)
        self.tell(
            "no-record-yet",
            "A lost reply, and the provider has no record to show: that is not a proof. No timer and no cancel frees "
            "this money; it stays held until someone brings evidence.",
        )
        seen, _ = await self.gateway.call(call)
        self._expect("records that are not published", await self._settle_from_records(call), [])
        self._expect("the release of an unknown hold", await self._release(call), "HOLD_STATE")
        await self._end(call, seen, "executed", 1, "OUTCOME_UNKNOWN", None)

    def _call(
        self,
        operation_id: str,
        model: str,
        *,
        url: str = "",
        stream: bool = False,
        request_group: str = "",
        patience: float = 10.0,
        mode: Mode = Mode.NORMAL,
    ) -> Call:
        return Call(
            operation_id=operation_id,
            url=url or self.provider.url,
            flavor=FLAVORS[model],
            model=model,
            budget_id=BUDGET,
            ceilings=CEILINGS,
            stream=stream,
            request_group=request_group,
            patience=patience,
            mode=mode,
        )

    async def _end(
        self, call: Call, seen: Seen, provider_did: str, acceptances: int, state: str, posted: str | None
    ) -> None:
        """Looks at how an operation stands, and holds it against how it must stand."""
        answer = await self.finance.holds.GetHold(hold_pb2.GetHoldRequest(operation_id=call.operation_id))
        hold = answer.hold
        amount = hold.resolution.amount.amount if hold.HasField("resolution") else None
        counted = self.provider.acceptances(call.operation_id)
        self._expect(f"{call.operation_id}: acceptances", counted, acceptances)
        self._expect(f"{call.operation_id}: state", _state(hold), state)
        self._expect(f"{call.operation_id}: posted", amount, posted)
        self.rows.append(
            Row(call.operation_id, _in_words(seen), counted, provider_did, _state(hold), hold.amount.amount, amount)
        )

    async def _release(self, call: Call) -> str:
        """Tries to release the hold, and gives the reason of the refusal."""
        try:
            await self.gateway.ledger.release(call.operation_id)
        except Refused as refused:
            return reason_name(refused.reason)
        return "released"

    async def _settle_from_records(self, call: Call) -> list[bool]:
        """Finance reads the provider's records of an operation and files each; true where the ledger knew it already."""
        address = f"{self.provider.url}/records"
        query = {"idempotency_key": call.operation_id}
        async with self.gateway.session.get(address, params=query, timeout=aiohttp.ClientTimeout(10)) as response:
            records = (await response.json())["records"]
        known = []
        for record in records:
            document = {"model": record["model"], "usage": record["usage"]}
            source = hold_pb2.EVIDENCE_SOURCE_PROVIDER_RECORD
            answer = await self.finance.holds.Resolve(
                hold_pb2.ResolveRequest(
                    idempotency_key=f"{call.operation_id}/record/{record['receipt']}",
                    operation_id=call.operation_id,
                    usage=usage_evidence(call.flavor, document, record["receipt"], source),
                )
            )
            known.append(answer.replayed)
        return known

    def _expect(self, what: str, found: object, right: object) -> None:
        if found != right:
            self.failures.append(f"{what}: {found}, and should be {right}")


def total(rows: list[Row]) -> Decimal:
    """What the rows posted together."""
    return sum((Decimal(row.posted) for row in rows if row.posted is not None), Decimal(0))


def _state(hold: hold_pb2.Hold) -> str:
    return hold_pb2.HoldState.Name(hold.state).removeprefix("HOLD_STATE_")


def _in_words(seen: Seen) -> str:
    if isinstance(seen, Answered):
        return "answered"
    if isinstance(seen, NeverSent):
        return "connection refused"
    if isinstance(seen, Rejected):
        return f"status {seen.status}"
    assert isinstance(seen, Unknown)
    return seen.observation
