"""A hold around a call to a provider.

    async with ledger.guard("op-1", budgets=["team"], quote=quote) as operation:
        await operation.begin_dispatch()
        response = await provider(…)
        await operation.settle(response)

Leaving the block without a resolution does the honest thing: before the dispatch the money is released, after it the outcome is
unknown. While the block runs, the lease of the attempt is extended.

An exception out of `__aenter__` or `begin_dispatch` says that the call must not be sent.
"""

import asyncio
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from datetime import timedelta
from enum import Enum, auto
from types import TracebackType
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from ledger.client.commands import (
    begin_command,
    failed_command,
    receipt_command,
    release_command,
    resolve_command,
    unknown_command,
)
from ledger.client.errors import LedgerError, NotDone, NotPermitted, Refused
from ledger.client.finaliser import Finalisers
from ledger.client.heartbeat import Heartbeat
from ledger.client.leaving import Leaving
from ledger.client.messages import Amount, Evidence, dispatch, usage_evidence
from ledger.client.relay import Relay, never
from ledger.v1 import hold_pb2 as pb

Event = TypeVar("Event")
Usage: TypeAlias = Mapping[str, Any] | pb.UsageEvidence
ADAPTER: Final = "ledger.client"
ADAPTER_REVISION: Final = "1"


class Executor(Protocol):
    """Who executes the commands of a guard."""

    finalisers: Finalisers

    async def execute(self, command: pb.Command, timeout: timedelta | None = None) -> pb.CommandResult: ...


class Stage(Enum):
    """How far the operation is, as far as this guard knows."""

    NEW = auto()
    RESERVING = auto()
    """A reserve was asked for and not answered: there may be a hold."""
    RESERVED = auto()
    BEGINNING = auto()
    """The permission was asked for and not answered: nothing was sent, but the hold may say that it was."""
    PERMITTED = auto()
    """The permission was given: from here on the call may have been sent."""
    FREE = auto()
    """The attempt ended before anything was sent, and the ledger knows it: the next one may be begun."""
    TOLD = auto()
    """The ledger knows what became of it."""
    NOT_OURS = auto()
    """There is nothing to end, or it is another's to end."""


_NOT_SENT: Final = (Stage.RESERVING, Stage.RESERVED, Stage.BEGINNING, Stage.FREE)
_NOTHING_TO_END: Final = (Stage.NEW, Stage.TOLD, Stage.NOT_OURS)


class Guard:
    """One operation, to be entered once. `hold` is as the ledger said last. Errors are those of `ledger.client.errors`."""

    def __init__(
        self,
        ledger: Executor,
        request: pb.ReserveRequest,
        *,
        provider: str,
        dispatch: bool,
        lease: timedelta | None,
        executor: str,
        adapter: str,
        adapter_revision: str,
        timeout: timedelta | None,
    ) -> None:
        self.hold = pb.Hold()
        self.operation_id = request.operation_id
        self._ledger = ledger
        self._request = request
        self._provider = provider
        self._at_once = dispatch
        self._lease = lease
        self._executor = executor
        self._adapter = adapter or ADAPTER
        self._revision = adapter_revision or ADAPTER_REVISION
        self._timeout = timeout
        # In the memory of this process only: it is what makes the permission this process's own.
        self._nonce = secrets.token_hex(16)
        # That of the attempt before, which failed before anything was sent.
        self._ended = ""
        self._asking = self._left = False
        self._stage = Stage.NEW
        # What is known and not yet acknowledged: whoever ends the operation says this first.
        self._report: pb.Command | None = None
        self._heartbeat: Heartbeat | None = None

    @property
    def may_send(self) -> bool:
        """Whether the permission to send was given, and nothing was said since of what became of the call."""
        return self._stage is Stage.PERMITTED

    @property
    def may_continue(self) -> bool:
        """False once the ledger has said that the attempt is over (cancelled, or its lease ran out): stop if you can."""
        return self._heartbeat is None or self._heartbeat.may_continue

    async def __aenter__(self) -> "Guard":
        """Reserves. Raises Refused if the ledger does, and NotPermitted if the operation has run, or runs elsewhere."""
        if self._stage is not Stage.NEW:
            raise RuntimeError("a guard is entered once; a new intent is a new operation")
        if self._at_once:
            self._request.begin_dispatch = True
            self._request.dispatch.CopyFrom(self._dispatch())
        self._stage = Stage.RESERVING
        try:
            answer = (await self._execute(pb.Command(reserve=self._request))).reserve
        except (Refused, NotDone):
            self._stage = Stage.NOT_OURS
            raise
        except BaseException:
            # It may have been done, and no block is there to be left.
            self._leave("the reserve was not answered")
            raise
        self.hold = answer.hold
        if answer.may_send:
            self._permitted()
        elif answer.hold.state == pb.HOLD_STATE_RESERVED and not self._at_once:
            self._stage = Stage.RESERVED
        elif answer.hold.attempt.failed_before_dispatch and not self._at_once:
            self._stage = Stage.FREE
        else:
            self._stage = Stage.NOT_OURS
            raise NotPermitted(answer.hold, answer.denial)
        return self

    async def begin_dispatch(self) -> pb.Hold:
        """Asks for the permission to send. If it returns, send, once; if it raises, do not send.

        After NotDone or WriteOutcomeUnknown it may be called again: it asks with the same key and nonce. After
        `failed_before_dispatch` it asks for the next attempt, with others.
        """
        if self._asking or self._left or self._stage not in (Stage.RESERVED, Stage.BEGINNING, Stage.FREE):
            stage = "being asked for already" if self._asking else self._stage.name
            raise RuntimeError(f"the permission cannot be asked for: this operation is {stage}")
        before, self._stage, self._asking = self._stage, Stage.BEGINNING, True
        try:
            command = begin_command(self.operation_id, self._dispatch(), attempt=self.hold.attempt.number + 1)
            answer = (await self._execute(command)).begin_dispatch
        except (Refused, NotDone):
            self._stage = before
            raise
        finally:
            self._asking = False
        if self._left:
            # The finaliser says that nothing was sent, and must not be made a liar of.
            raise RuntimeError("the block was left while the permission was asked for: do not send")
        self.hold = answer.hold
        if not answer.may_send:
            self._stage = Stage.NOT_OURS
            raise NotPermitted(answer.hold, answer.denial)
        self._permitted()
        return answer.hold

    async def settle(
        self,
        usage: Usage | None = None,
        *,
        buckets: Mapping[str, int] | None = None,
        charged: tuple[Amount, str] | None = None,
        receipt: str = "",
        model: str = "",
        service_tier: str = "",
    ) -> pb.ResolveResponse:
        """Settles on what the provider says: its response (of which the usage is taken), buckets, or what was charged.

        `receipt` is the provider's id for the call. If the evidence is refused it is kept, and leaving the block makes the outcome
        unknown. A caller who is cancelled here has said what he knew: the finaliser goes on saying it.
        """
        evidence = self.evidence(
            usage, buckets=buckets, charged=charged, receipt=receipt, model=model, service_tier=service_tier
        )
        return await self._resolve(evidence)

    async def rejected(self, status: int, request_id: str) -> pb.ResolveResponse:
        """The provider refused the call before executing it, and said so by this status and with its request id."""
        return await self._no_cost(
            kind=pb.NO_COST_KIND_REJECTED_BEFORE_EXECUTION, provider_status=status, provider_request_id=request_id
        )

    async def never_sent(self, cause: pb.NeverSentCause.ValueType) -> pb.ResolveResponse:
        """The call never left this process. Believed of the holder of the permission, whose nonce goes with it."""
        return await self._no_cost(kind=pb.NO_COST_KIND_NEVER_SENT, cause=cause, nonce=self._nonce)

    async def cache_hit(self) -> pb.ResolveResponse:
        """The answer came from the gateway's own cache: the provider was not called."""
        return await self._no_cost(kind=pb.NO_COST_KIND_GATEWAY_CACHE_HIT, nonce=self._nonce)

    async def failed_before_dispatch(self, cause: pb.NeverSentCause.ValueType) -> pb.Hold:
        """This attempt never left this process: the call may be tried by another route of the quote, after `begin_dispatch`.

        If it is not, leaving the block settles the hold as never sent.
        """
        command = failed_command(
            self.operation_id,
            self._nonce,
            cause,
            attempt=self.hold.attempt.number,
            adapter=self._adapter,
            adapter_revision=self._revision,
        )
        self.hold = (await self._tell(command)).record_failed_before_dispatch.hold
        self._stage, self._ended, self._nonce = Stage.FREE, self._nonce, secrets.token_hex(16)
        return self.hold

    async def record_receipt(self, receipt: str) -> pb.RecordReceiptResponse:
        """The provider accepted the call, and gave this id for it. Its cost is still to be settled."""
        command = receipt_command(
            self.operation_id,
            self._provider,
            receipt,
            attempt=self.hold.attempt.number,
            adapter=self._adapter,
            adapter_revision=self._revision,
        )
        answer = (await self._execute(command)).record_receipt
        self.hold = answer.hold
        return answer

    async def outcome_unknown(self, observation: str) -> pb.MarkOutcomeUnknownResponse:
        """Nobody here knows what became of the call; `observation` says what was seen, for people: "time-out"."""
        answer = (await self._tell(unknown_command(self.operation_id, observation))).mark_outcome_unknown
        self.hold = answer.hold
        return answer

    async def release(self) -> pb.ReleaseResponse:
        """Gives the money back: only before the dispatch."""
        answer = (await self._tell(release_command(self.operation_id))).release
        self.hold = answer.hold
        return answer

    async def stream(
        self,
        events: AsyncIterable[Event],
        *,
        usage: Callable[[Event], Usage | None],
        terminal: Callable[[Event], bool] = never,
    ) -> AsyncIterator[Event]:
        """Relays the events of a streamed response, and holds its end back until the resolution is durable.

        `usage` gives the final usage if the event brings it, else None: running totals are not final. From the first event that
        does, or that `terminal` says is the last, all are held back until the stream has ended and the ledger knows: settled on
        that usage, or unknown if there was none. If the stream breaks, what breaks it is raised, and leaving the block says what is
        known. An error of the ledger is raised in place of the end.
        """
        relay: Relay[Event, Usage] = Relay(usage, terminal)
        async for event in events:
            if relay.passes(event):
                yield event
            elif relay.found is not None:
                self.found(relay.found)
        await self.end_of_stream()
        for event in relay.held:
            yield event

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._report is None and self._stage in _NOTHING_TO_END:
            return
        leaving = self._leave("left without a resolution" if kind is None else f"left by {kind.__name__}")
        if error is not None and not isinstance(error, Exception):
            # A cancelled caller is not kept waiting. The finaliser goes on without him.
            return
        failed = await asyncio.shield(leaving)
        if failed is not None and error is None:
            raise failed
        if failed is not None and error is not None:
            error.add_note(f"The ledger could not be told either: {failed}")

    def _leave(self, observation: str) -> "asyncio.Future[LedgerError | None]":
        """Begins the finaliser, with all that is known now."""
        self._rest()
        self._left = True
        asked = self._at_once or self._stage is Stage.BEGINNING
        leaving = Leaving(
            self._ledger.execute,
            self.operation_id,
            report=self._report,
            not_sent=self._stage in _NOT_SENT,
            nonces=tuple(filter(None, (self._nonce if asked else "", self._ended))),
            observation=observation,
        )
        self._stage, self._report = Stage.TOLD, None
        return self._ledger.finalisers.start(self.operation_id, leaving.run(self._ledger.finalisers.bound))

    def _permitted(self) -> None:
        self._stage, self._heartbeat = Stage.PERMITTED, None
        self._beat()

    def _beat(self) -> None:
        if self.may_continue:
            self._heartbeat = Heartbeat(self._ledger.execute, self.operation_id, self._nonce, self._lease)

    def _rest(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.stop()

    def _dispatch(self) -> pb.Dispatch:
        return dispatch(self._nonce, lease=self._lease, executor=self._executor)

    def found(self, usage: Usage) -> None:
        """Remembers a final usage before it is told, so that it is not lost with the caller."""
        self._report = resolve_command(self.operation_id, self.evidence(usage))

    def evidence(self, usage: Usage | None = None, **facts: Any) -> pb.UsageEvidence:
        """What `settle` would bring, without bringing it: its arguments are the same."""
        if isinstance(usage, pb.UsageEvidence):
            if any(facts.values()):
                raise ValueError("a UsageEvidence is told as it is: put receipt, model and the rest into it")
            return usage
        flavor = self._request.quote.metered.api_flavor
        if usage is not None and not flavor:
            raise ValueError("the quote has no api_flavor, so that the usage in a response cannot be read")
        return usage_evidence(
            self._provider, usage, api_flavor=flavor, adapter=self._adapter, adapter_revision=self._revision, **facts
        )

    async def end_of_stream(self) -> None:
        """Tells how a stream ended that ended by itself: what `found` remembered, or that there was nothing."""
        if self._report is None:
            await self.outcome_unknown("the stream ended without its final usage")
        else:
            self.hold = (await self._tell(self._report)).resolve.hold

    async def _no_cost(self, **facts: Any) -> pb.ResolveResponse:
        return await self._resolve(pb.NoCostProof(adapter=self._adapter, adapter_revision=self._revision, **facts))

    async def _resolve(self, evidence: Evidence) -> pb.ResolveResponse:
        answer = (await self._tell(resolve_command(self.operation_id, evidence))).resolve
        self.hold = answer.hold
        return answer

    async def _tell(self, report: pb.Command) -> pb.CommandResult:
        """Says what became of the call. What is not acknowledged is said again by the finaliser."""
        self._rest()
        self._report = report
        try:
            result = await self._execute(report)
        except LedgerError as error:
            if isinstance(error, Refused):
                self._report = None
            if self._stage is Stage.PERMITTED:
                # The block goes on, and so does the attempt.
                self._beat()
            raise
        self._stage, self._report = Stage.TOLD, None
        return result

    async def _execute(self, command: pb.Command) -> pb.CommandResult:
        return await self._ledger.execute(command, self._timeout)
