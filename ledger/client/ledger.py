"""The ledger as a program calls it: plain values in, the contract's messages out, errors by reason.

Answers are the messages of ledger.v1, which are typed and plain: a class beside each of them would be a second contract.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypedDict, TypeVar, Unpack

import grpc

from ledger.client.commands import request_of, reserve_request
from ledger.client.connection import Client, connect
from ledger.client.courier import Courier
from ledger.client.finaliser import Finalisers
from ledger.client.guard import Guard
from ledger.client.keys import permission_key
from ledger.client.lines import Batching
from ledger.client.messages import Amount, decimal, money
from ledger.client.operations import Operations
from ledger.client.retry import Backoff, until_answered
from ledger.client.watching import watch
from ledger.v1 import budget_pb2, feed_pb2, write_pb2
from ledger.v1 import hold_pb2 as pb

Request = TypeVar("Request")
Response = TypeVar("Response")
DEFAULT_TIMEOUT: Final = timedelta(seconds=15)
DEFAULT_FINALISING: Final = timedelta(seconds=30)


class Options(TypedDict, total=False):
    """What may be said of a client, when it is connected."""

    timeout: timedelta
    """The whole time for all tries of a call that says nothing else."""
    finalising: timedelta
    """How long a finaliser may take."""
    batching: Batching
    backoff: Backoff


class Ledger(Operations):
    """One caller of one ledger: `async with Ledger.connect(address, token) as ledger`. Belongs to one event loop.

    Every method takes a `timeout`, the whole time for all tries (15 s if None, or what `connect` was given). Every command takes a
    `key`; without one it is derived from the operation and the command (see `ledger.client.keys`), never drawn.
    They raise Refused, NotDone or WriteOutcomeUnknown (see `ledger.client.errors`). `finalising` is how long a finaliser may take.
    """

    def __init__(
        self,
        client: Client,
        *,
        timeout: timedelta = DEFAULT_TIMEOUT,
        finalising: timedelta = DEFAULT_FINALISING,
        batching: Batching = Batching(),  # noqa: B008 - frozen
        backoff: Backoff = Backoff(),  # noqa: B008 - frozen
    ) -> None:
        self.stubs = client
        self.finalisers = Finalisers(finalising)
        self._timeout = timeout.total_seconds()
        self._backoff = backoff
        self._courier = Courier(client, batching, backoff)
        self._loop = asyncio.get_running_loop()

    @classmethod
    def connect(
        cls,
        address: str,
        token: str,
        *,
        root_certificate: Path | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """The ledger at `host:port`, as the caller whose token it is.

        `root_certificate` is a PEM file: the ledger's own certificate must be signed by one in it. With neither it nor gRPC's
        `credentials` the channel is not encrypted, and the token goes over it as it is: for one machine only.
        """
        return cls(connect(address, token, root_certificate=root_certificate, credentials=credentials), **options)

    async def close(self) -> None:
        """Waits until the finalisers are done, within their bound; then ends every call and closes the connection.

        Whoever still waits is told NotDone or WriteOutcomeUnknown. A second time it does nothing.
        """
        try:
            await self.finalisers.done()
        finally:
            await self._courier.close()
            await self.stubs.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def watch(
        self,
        resume_token: str = "",
        *,
        from_now: bool = False,
        types: Sequence[feed_pb2.EventType.ValueType] = (),
        operation_id: str = "",
        heartbeat: timedelta | None = None,
        patience: timedelta | None = None,
    ) -> AsyncGenerator[feed_pb2.WatchResponse, None]:
        """The change feed of the caller's tenant, for ever (see `ledger.client.watching`)."""
        request = feed_pb2.WatchRequest(
            resume_token=resume_token, from_now=from_now, types=types, operation_id=operation_id
        )
        if heartbeat is not None:
            request.heartbeat.FromTimedelta(heartbeat)
        return watch(self.stubs, request, patience=patience, backoff=self._backoff)

    def guard(
        self,
        operation_id: str,
        *,
        budgets: Sequence[str],
        quote: pb.QuoteSpec,
        dispatch: bool = False,
        provider: str = "",
        key: str | None = None,
        ttl: timedelta | None = None,
        lease: timedelta | None = None,
        executor: str = "",
        exclusive_key: str = "",
        request_group: str = "",
        labels: Mapping[str, str] | None = None,
        adapter: str = "",
        adapter_revision: str = "",
        timeout: timedelta | None = None,
    ) -> Guard:
        """A hold around a call to a provider: `async with ledger.guard(…) as operation` (see `ledger.client.guard`).

        With `dispatch` the money is set aside and the permission to send asked for in one commit. `provider` is whom the price
        card names; a FIXED quote names it itself. `adapter` and its revision say who reads the provider's answers.
        """
        request = reserve_request(
            operation_id, budgets, quote, key=key, ttl=ttl, exclusive_key=exclusive_key, request_group=request_group, labels=labels
        )  # fmt: skip
        return Guard(
            self,
            request,
            provider=provider or quote.fixed.provider,
            dispatch=dispatch,
            lease=lease,
            executor=executor,
            adapter=adapter,
            adapter_revision=adapter_revision,
            timeout=timeout,
        )

    async def get_hold(self, operation_id: str, *, timeout: timedelta | None = None) -> pb.Hold:
        """The hold of an operation, with its quote. Raises Refused with NOT_FOUND if there is none."""
        request = pb.GetHoldRequest(operation_id=operation_id)
        return (await self.ask(self.stubs.holds.GetHold, request, timeout=timeout)).hold

    async def list_holds(
        self,
        *,
        state: pb.HoldState.ValueType = pb.HOLD_STATE_UNSPECIFIED,
        request_group: str = "",
        timeout: timedelta | None = None,
    ) -> AsyncGenerator[pb.Hold, None]:
        """The holds in order of operation_id, page by page; `timeout` is that of each page."""
        request = pb.ListHoldsRequest(state=state, request_group=request_group, page_size=1000)
        while True:
            page = await self.ask(self.stubs.holds.ListHolds, request, timeout=timeout)
            for hold in page.holds:
                yield hold
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def create_budget(
        self,
        budget_id: str,
        *,
        currency: str,
        limit: Amount | None = None,
        period: budget_pb2.Period | None = None,
        rollover: budget_pb2.Rollover | None = None,
        credit_line: Amount | None = None,
        max_hold: Amount | None = None,
        max_open_holds: int | None = None,
        thresholds: budget_pb2.Thresholds | None = None,
        parent_id: str = "",
        display_name: str = "",
        key: str | None = None,
        timeout: timedelta | None = None,
    ) -> budget_pb2.CreateBudgetResponse:
        """Adds a budget to the tree. Without a limit it is unlimited; 0 is nothing; it is for each period.

        The caps are for one hold, and for how many are open at a time. The feed tells of 50, 80 and 100 percent of what is used,
        unless `thresholds` says otherwise.
        """
        request = budget_pb2.CreateBudgetRequest(
            idempotency_key=key or permission_key(budget_id, "create"),
            budget_id=budget_id,
            parent_id=parent_id,
            currency=currency,
            display_name=display_name,
            limit=None if limit is None else decimal(limit),
            period=period,
            rollover=rollover,
            credit_line=None if credit_line is None else decimal(credit_line),
            max_hold=None if max_hold is None else decimal(max_hold),
            max_open_holds=max_open_holds,
            thresholds=thresholds,
        )
        return await self.ask(self.stubs.budgets.CreateBudget, request, timeout=timeout)

    async def grant_budget(
        self,
        budget_id: str,
        amount: Amount,
        currency: str,
        *,
        reference: str,
        key: str | None = None,
        timeout: timedelta | None = None,
    ) -> budget_pb2.GrantBudgetResponse:
        """Adds money to a budget, once per reference."""
        request = budget_pb2.GrantBudgetRequest(
            idempotency_key=key or permission_key(budget_id, f"grant/{reference}"),
            budget_id=budget_id,
            amount=money(amount, currency),
            reference=reference,
        )
        return await self.ask(self.stubs.budgets.GrantBudget, request, timeout=timeout)

    async def get_budget(self, budget_id: str, *, timeout: timedelta | None = None) -> budget_pb2.Budget:
        """A budget with its balances."""
        request = budget_pb2.GetBudgetRequest(budget_id=budget_id)
        return (await self.ask(self.stubs.budgets.GetBudget, request, timeout=timeout)).budget

    async def verify_write(
        self,
        claim: write_pb2.WriteClaim,
        *,
        operation_id: str = "",
        sent: tuple[str, str] | None = None,
        call_deadline: datetime | None = None,
        timeout: timedelta | None = None,
    ) -> write_pb2.VerifyWriteResponse:
        """Holds what the caller believes against the rows: MATCH, MISMATCH by field (a case is opened), or NOT_FOUND.

        About a hold, or a command that was `sent`: its name, such as "Reserve", and its key. The answer says what it proves. When
        the call that may have written it ran out of time, or will, is its `call_deadline`: without it "not found" is never final.
        """
        request = write_pb2.VerifyWriteRequest(operation_id=operation_id, claim=claim)
        if sent is not None:
            command, key = sent
            request.sent.CopyFrom(write_pb2.SentCommand(command=command, idempotency_key=key))
        if call_deadline is not None:
            request.call_deadline.FromDatetime(call_deadline)
        return await self.ask(self.stubs.writes.VerifyWrite, request, timeout=timeout)

    async def ask(
        self, rpc: Callable[[Request], Awaitable[Response]], request: Request, *, timeout: timedelta | None = None
    ) -> Response:
        """Any other RPC of the contract, with the same errors, deadline and retries: `ask(ledger.stubs.prices.GetPriceCard, …)`.

        A request that changes something has its idempotency key in it, which is the caller's to choose.
        """
        key = getattr(request, "idempotency_key", "")
        answer: Response = await until_answered(
            self.stubs, rpc, request, ends=self.ends(timeout), backoff=self._backoff, idempotency_key=key
        )
        return answer

    async def execute(self, command: pb.Command, timeout: timedelta | None = None) -> pb.CommandResult:
        """Any command on a hold, with its key if it takes one; it goes together with others that are asked for at the same time."""
        request = request_of(command)
        key = getattr(request, "idempotency_key", "")
        return await self._courier.carry(command, request.operation_id, key, self.ends(timeout))

    def ends(self, timeout: timedelta | None) -> float:
        """When a call that begins now is given up, on the loop's clock."""
        return self._loop.time() + (self._timeout if timeout is None else timeout.total_seconds())
