"""Callers that drive holds from reserve to settled, and repeat each call with its key until it is answered."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from typing import Any

import grpc
import psycopg

from ledger.client import Client, connect
from ledger.v1 import hold_pb2
from ledger.v1.budget_pb2 import CreateBudgetRequest
from tests.acceptance.harness import LiveLedger, reason_of, usd

CALLERS = 16
COST = Decimal("0.3")
RANK = {"RESERVED": 1, "DISPATCHING": 2, "SETTLED": 3}
# What says neither yes nor no, or that nothing was done: the same key may be sent again.
AGAIN = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
}


def open_budget(live: LiveLedger) -> None:
    """The budget on which the load's holds are."""
    request = CreateBudgetRequest(idempotency_key="b", budget_id="hot", currency="USD", limit="1000000")
    live.stubs("t0", "admin").budgets.CreateBudget(request)


@dataclass
class Load:
    """Drives holds until `stopping`, and then ends what it began. `timeout` (seconds) is that of each call.

    `repeated` counts the calls that had to be repeated, by what they were told.
    `disturbed` counts the operations during which `disturbances()` grew or a call had to be repeated.
    """

    address: str
    token: str
    timeout: float = 10
    disturbances: Callable[[], int] = lambda: 0
    acknowledged: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    repeated: Counter[str] = field(default_factory=Counter)
    disturbed: int = 0
    stopping: bool = False
    _numbers: Iterator[int] = field(default_factory=count)

    async def run(self) -> None:
        async with connect(self.address, self.token) as client:
            await asyncio.gather(*(self._caller(client) for _ in range(CALLERS)))

    async def _caller(self, client: Client) -> None:
        while not self.stopping:
            before, repeats = self.disturbances(), 0
            for method, request in self._life(client, f"op-{next(self._numbers)}"):
                repeats += await self._call(method, request)
            self.disturbed += repeats > 0 or self.disturbances() > before

    def _life(self, client: Client, operation: str) -> Iterator[tuple[Callable[..., Any], Any]]:
        nonce = f"nonce-{operation}-{random.getrandbits(64)}"
        agreed = hold_pb2.FixedQuote(amount=usd("1"), provider="p", reason="load")
        yield (
            client.holds.Reserve,
            hold_pb2.ReserveRequest(
                idempotency_key=f"r-{operation}",
                operation_id=operation,
                budget_ids=["hot"],
                quote=hold_pb2.QuoteSpec(fixed=agreed),
            ),
        )
        yield (
            client.holds.BeginDispatch,
            hold_pb2.BeginDispatchRequest(
                idempotency_key=f"d-{operation}", operation_id=operation, dispatch=hold_pb2.Dispatch(nonce=nonce)
            ),
        )
        yield (
            client.holds.Resolve,
            hold_pb2.ResolveRequest(
                idempotency_key=f"s-{operation}",
                operation_id=operation,
                usage=hold_pb2.UsageEvidence(
                    source=hold_pb2.EVIDENCE_SOURCE_PROVIDER_RESPONSE,
                    provider="p",
                    charged=usd(COST),
                ),
            ),
        )

    async def _call(self, method: Callable[..., Any], request: Any) -> int:
        """How often the call had to be repeated until it was answered."""
        repeats = 0
        while True:
            try:
                answer = await method(request, timeout=self.timeout)
            except grpc.aio.AioRpcError as error:
                if error.code() not in AGAIN:
                    self._wrong(request, f"{reason_of(error)} {error}")
                    return repeats
                repeats += 1
                self.repeated[reason_of(error)] += 1
                await asyncio.sleep(random.uniform(0.01, 0.05))
            else:
                if not getattr(answer, "may_send", True) and isinstance(request, hold_pb2.BeginDispatchRequest):
                    self._wrong(request, "the permission to send was lost")
                state = hold_pb2.HoldState.Name(answer.hold.state).removeprefix("HOLD_STATE_")
                self.acknowledged[request.operation_id] = state
                return repeats

    def _wrong(self, request: Any, what: str) -> None:
        self.refused.append(f"{type(request).__name__} {request.operation_id}: {what}")
        self.stopping = True


def lost(database_url: str, acknowledged: dict[str, str]) -> list[str]:
    """The acknowledged writes that are not in the database."""
    with psycopg.connect(database_url) as connection:
        found: dict[str, str] = dict(connection.execute("SELECT operation_id, state FROM hold").fetchall())
    return [name for name, state in acknowledged.items() if RANK.get(found.get(name, ""), 0) < RANK[state]]


def nothing_lost_and_nothing_twice(live: LiveLedger, load: Load) -> None:
    """Every operation came to its end exactly once, on every book, and no law is broken."""
    assert load.refused == []
    assert set(load.acknowledged.values()) == {"SETTLED"}
    assert lost(live.database_url, load.acknowledged) == []
    assert live.violations() == []
    number = len(load.acknowledged)
    with psycopg.connect(live.database_url) as connection:
        entries = connection.execute("SELECT count(*) FROM entry WHERE operation_id IS NOT NULL").fetchone()
        spent = connection.execute("SELECT spent, held FROM book WHERE budget_id = 'hot'").fetchone()
    assert entries == (2 * number,)
    assert spent == (COST * number, 0)
