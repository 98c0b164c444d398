"""Many servers, one hot budget at the top of many: nothing is overspent, and nothing that fits is refused.

LEDGER_TEST_RACE says for how many seconds each side runs; the default is short.
"""

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import pytest

from ledger.client import Client, connect
from ledger.v1 import hold_pb2
from ledger.v1.budget_pb2 import CreateBudgetRequest
from tests.acceptance.harness import LiveLedger, live_ledger, reason_of, usd
from tests.conftest import new_database
from tests.figures import record
from tests.watching import used_at_each_moment

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
                usage = hold_pb2.UsageEvidence(source=SOURCE, provider="p", charged=usd("0"))
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
        quote = hold_pb2.FixedQuote(amount=usd("1"), provider="p", reason="agreed")
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
            self.said[reason_of(error)] += 1
            return ""
        self.said["accepted"] += 1
        return name


def run(database_url: str, folder: Path, servers: int) -> float:
    """Lifecycles a second over so many servers, after a look that the books are right, at work and at rest."""
    folder.mkdir()
    with live_ledger(database_url, folder, servers=servers) as live:
        open_budgets(live)
        race = Race(live)
        rate = asyncio.run(race.lives())
        # Neither a false refusal nor a deadlock reached a caller.
        assert set(race.said) == {"accepted"}
        asyncio.run(race.until_nothing_fits())
        assert set(race.said) == {"accepted", "INSUFFICIENT_BUDGET"}
        used = used_at_each_moment(database_url, "t0", "org#0")
        assert max(used) == used[-1] == LIMIT, "never more than fits, and in the end all that does"
        assert live.violations() == []
        record(
            f"race, {servers} servers",
            callers=CALLERS,
            accepted=race.said["accepted"],
            lifecycles_a_second=round(rate),
            overspent=0,
            false_refusals=0,
            deadlocks=0,
        )
        return rate


@pytest.mark.timeout(120 + 8 * SECONDS)
def test_three_servers_on_one_hot_budget_and_one_with_as_many_callers(
    server_url: str, template: str, tmp_path: Path
) -> None:
    with new_database(server_url, template) as url:
        three = run(url, tmp_path / "three", 3)
    with new_database(server_url, template) as url:
        one = run(url, tmp_path / "one", 1)
    record("race, 3 servers over 1", three_over_one=round(three / one, 2))
