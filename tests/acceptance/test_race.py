"""Many servers, one hot budget at the top of many: nothing is overspent, and nothing that fits is refused.

LEDGER_TEST_RACE says for how many seconds each side runs; the default is short.
"""

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest

from ledger.client import Client, connect, error_reason
from ledger.v1 import hold_pb2
from ledger.v1.budget_pb2 import CreateBudgetRequest
from ledger.v1.money_pb2 import Money
from tests.acceptance.harness import LiveLedger, live_ledger
from tests.figures import record

SECONDS = float(os.environ.get("LEDGER_TEST_RACE", "1"))
CALLERS = 48
LEAVES = 200
# Every caller has one hold of 1 at a time, so all of them fit at any instant.
LIMIT = 100
SOURCE = hold_pb2.EVIDENCE_SOURCE_PROVIDER_RESPONSE


def open_budgets(live: LiveLedger) -> None:
    admin = live.stubs("t0", "admin").budgets
    admin.CreateBudget(CreateBudgetRequest(idempotency_key="org", budget_id="org", currency="USD", limit=str(LIMIT)))
    for leaf in range(LEAVES):
        name = f"leaf-{leaf}"
        admin.CreateBudget(CreateBudgetRequest(idempotency_key=name, budget_id=name, parent_id="org", currency="USD"))


class Race:
    """Callers spread over the servers; `said` counts what they were told."""

    def __init__(self, live: LiveLedger) -> None:
        self._live = live
        self._names = count()
        self.said: Counter[str] = Counter()

    async def lives(self) -> float:
        """Lifecycles that end at no cost, for SECONDS; how many a second."""
        ends = time.monotonic() + SECONDS

        async def caller(client: Client) -> None:
            while time.monotonic() < ends:
                name = await self._reserve(client)
                usage = hold_pb2.UsageEvidence(source=SOURCE, provider="p", charged=Money(amount="0", currency="USD"))
                request = hold_pb2.ResolveRequest(idempotency_key=f"s-{name}", operation_id=name, usage=usage)
                await client.holds.Resolve(request, timeout=30)

        before = self.said["accepted"]
        await self._all(caller)
        return (self.said["accepted"] - before) / SECONDS

    async def until_nothing_fits(self) -> None:
        async def caller(client: Client) -> None:
            while await self._reserve(client):
                pass

        await self._all(caller)

    async def _all(self, caller: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
        token = self._live.token("t0", "gateway")
        clients = [connect(server.address, token) for server in self._live.servers]
        await asyncio.gather(*(caller(clients[number % len(clients)]) for number in range(CALLERS)))
        for client in clients:
            await client.close()

    async def _reserve(self, client: Client) -> str:
        """The name of the hold, empty if it was refused."""
        name = f"op-{next(self._names)}"
        quote = hold_pb2.FixedQuote(amount=Money(amount="1", currency="USD"), provider="p", reason="agreed")
        request = hold_pb2.ReserveRequest(
            idempotency_key=name,
            operation_id=name,
            budget_ids=[f"leaf-{random.randrange(LEAVES)}"],
            quote=hold_pb2.QuoteSpec(fixed=quote),
            begin_dispatch=True,
            dispatch=hold_pb2.Dispatch(nonce=f"nonce-of-{name}-at-random"),
        )
        try:
            await client.holds.Reserve(request, timeout=30)
        except grpc.aio.AioRpcError as error:
            refusal = error_reason(error)
            self.said[str(error.code()) if refusal is None else refusal.reason] += 1
            return ""
        self.said["accepted"] += 1
        return name


def run(database_url: str, folder: Path, servers: int) -> float:
    """Lifecycles a second over so many servers, after a look that the books are right, at work and at rest."""
    with live_ledger(database_url, folder, servers=servers) as live:
        open_budgets(live)
        race = Race(live)
        rate = asyncio.run(race.lives())
        # Neither a false refusal nor a deadlock reached a caller.
        assert set(race.said) == {"accepted"}
        asyncio.run(race.until_nothing_fits())
        assert set(race.said) == {"accepted", "INSUFFICIENT_BUDGET"}
        with psycopg.connect(database_url) as connection:
            (org,) = connection.execute("SELECT available, held FROM book WHERE budget_id = 'org'").fetchall()
        assert org == (Decimal(0), Decimal(LIMIT)), "what was accepted is what fits"
        assert live.violations() == []
        return rate


@pytest.mark.timeout(90 + 4 * SECONDS)
def test_three_servers_on_one_hot_budget(database_url: str, tmp_path: Path) -> None:
    rate = run(database_url, tmp_path, 3)
    record(
        "race, 3 servers", callers=CALLERS, lifecycles_a_second=round(rate), overspent=0, false_refusals=0, deadlocks=0
    )


@pytest.mark.timeout(90 + 4 * SECONDS)
def test_one_server_with_as_many_callers(database_url: str, tmp_path: Path) -> None:
    rate = run(database_url, tmp_path, 1)
    record(
        "race, 1 server", callers=CALLERS, lifecycles_a_second=round(rate), overspent=0, false_refusals=0, deadlocks=0
    )
