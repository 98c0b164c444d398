"""kill -9 of the server, and of PostgreSQL, under load: nothing that was acknowledged is lost, nothing is half there.

Each caller repeats a call with its key until it is answered, and writes down what it was told. LEDGER_TEST_KILLS says how often
each process is killed; the default is small.
"""

import asyncio
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest

from ledger.client import Client, connect, error_reason
from ledger.store.migrate import migrate
from ledger.store.postgres import LocalPostgres
from ledger.v1 import hold_pb2
from ledger.v1.budget_pb2 import CreateBudgetRequest
from ledger.v1.money_pb2 import Money
from tests.acceptance.harness import LiveLedger, live_ledger

KILLS = int(os.environ.get("LEDGER_TEST_KILLS", "3"))
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


@dataclass
class Load:
    """Callers that drive holds from reserve to settled until they are told to stop, then end what they began."""

    address: str
    token: str
    acknowledged: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    repeated: int = 0
    stopping: bool = False
    _numbers: Iterator[int] = field(default_factory=count)

    async def run(self) -> None:
        async with connect(self.address, self.token) as client:
            await asyncio.gather(*(self._caller(client) for _ in range(CALLERS)))

    async def _caller(self, client: Client) -> None:
        while not self.stopping:
            operation = f"op-{next(self._numbers)}"
            nonce = f"nonce-{operation}-{random.getrandbits(64)}"
            await self._call(
                client.holds.Reserve,
                hold_pb2.ReserveRequest(
                    idempotency_key=f"r-{operation}",
                    operation_id=operation,
                    budget_ids=["hot"],
                    quote=hold_pb2.QuoteSpec(
                        fixed=hold_pb2.FixedQuote(amount=Money(amount="1", currency="USD"), provider="p", reason="load")
                    ),
                ),
            )
            await self._call(
                client.holds.BeginDispatch,
                hold_pb2.BeginDispatchRequest(
                    idempotency_key=f"d-{operation}", operation_id=operation, dispatch=hold_pb2.Dispatch(nonce=nonce)
                ),
            )
            await self._call(
                client.holds.Resolve,
                hold_pb2.ResolveRequest(
                    idempotency_key=f"s-{operation}",
                    operation_id=operation,
                    usage=hold_pb2.UsageEvidence(
                        source=hold_pb2.EVIDENCE_SOURCE_PROVIDER_RESPONSE,
                        provider="p",
                        charged=Money(amount=str(COST), currency="USD"),
                    ),
                ),
            )

    async def _call(self, method: Callable[..., Any], request: Any) -> None:
        while True:
            try:
                answer = await method(request, timeout=10)
            except grpc.aio.AioRpcError as error:
                if error.code() not in AGAIN:
                    self.refused.append(
                        f"{type(request).__name__} {request.operation_id}: {error_reason(error)} {error}"
                    )
                    self.stopping = True
                    return
                self.repeated += 1
                await asyncio.sleep(random.uniform(0.01, 0.05))
            else:
                state = hold_pb2.HoldState.Name(answer.hold.state).removeprefix("HOLD_STATE_")
                self.acknowledged[request.operation_id] = state
                return


def lost(database_url: str, acknowledged: dict[str, str]) -> list[str]:
    """The acknowledged writes that are not in the database."""
    with psycopg.connect(database_url) as connection:
        found: dict[str, str] = dict(connection.execute("SELECT operation_id, state FROM hold").fetchall())
    return [name for name, state in acknowledged.items() if RANK.get(found.get(name, ""), 0) < RANK[state]]


async def under_load(live: LiveLedger, kill_and_restart: Callable[[], None]) -> Load:
    load = Load(live.servers[0].address, live.token("t0", "gateway"))
    running = asyncio.create_task(load.run())
    for _ in range(KILLS):
        before = len(load.acknowledged)
        await asyncio.sleep(random.uniform(0.2, 0.6))
        while len(load.acknowledged) < before + CALLERS and not load.refused:
            await asyncio.sleep(0.02)
        told = dict(load.acknowledged)
        await asyncio.to_thread(kill_and_restart)
        assert lost(live.database_url, told) == []
    load.stopping = True
    await asyncio.wait_for(running, 60)
    return load


def nothing_lost_and_nothing_half_there(live: LiveLedger, load: Load) -> None:
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
    print(f"kills {KILLS}, lifecycles {number}, calls repeated {load.repeated}, lost 0, half-posted 0")


def open_budget(live: LiveLedger) -> None:
    request = CreateBudgetRequest(idempotency_key="b", budget_id="hot", currency="USD", limit="1000000")
    live.stubs("t0", "admin").budgets.CreateBudget(request)


@pytest.mark.timeout(60 + 10 * KILLS)
def test_the_server_is_killed_under_load(database_url: str, tmp_path: Path) -> None:
    with live_ledger(database_url, tmp_path) as live:
        open_budget(live)

        def kill_and_restart() -> None:
            live.servers[0].kill()
            live.servers[0].start()

        load = asyncio.run(under_load(live, kill_and_restart))
        nothing_lost_and_nothing_half_there(live, load)


@pytest.mark.timeout(60 + 15 * KILLS)
def test_postgresql_is_killed_under_load(tmp_path: Path) -> None:
    # Not pytest's folder: a server that drops root could not enter it.
    data = Path(tempfile.mkdtemp(prefix="ledger-kill-"))
    postgres = LocalPostgres(data)
    try:
        url = postgres.start()
        migrate(url)
        with live_ledger(url, tmp_path) as live:
            open_budget(live)

            def kill_and_restart() -> None:
                pid = int((postgres.cluster / "postmaster.pid").read_text().split()[0])
                os.kill(pid, signal.SIGKILL)
                postgres.stop()
                time.sleep(random.uniform(0, 0.3))
                assert postgres.start() == url

            load = asyncio.run(under_load(live, kill_and_restart))
            nothing_lost_and_nothing_half_there(live, load)
    finally:
        postgres.stop()
        shutil.rmtree(data, ignore_errors=True)
