"""Callers at once on hot and cold budgets, at two servers: what they were told is what one after the other would have been told.

LEDGER_TEST_HISTORY says how many commands, LEDGER_TEST_STORM how many calls with hardly any time; the defaults are small.
"""

import asyncio
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest

from ledger.client import Client, connect, error_reason
from ledger.v1 import hold_pb2
from ledger.v1.budget_pb2 import CreateBudgetRequest
from tests.acceptance import broken_server
from tests.acceptance.harness import LiveLedger, live_ledger, usd
from tests.acceptance.history import Told, anomalies, put_in_order
from tests.figures import record

COMMANDS = int(os.environ.get("LEDGER_TEST_HISTORY", "1200"))
STORM = int(os.environ.get("LEDGER_TEST_STORM", "400"))
CALLERS = 16
LIMITS = {"hot": Decimal(60), **{f"cold-{i}": Decimal(12) for i in range(4)}}
NEXT = ("BeginDispatch", "BeginDispatch", "MarkOutcomeUnknown", "Release", "Resolve", "Resolve")


def open_budgets(live: LiveLedger) -> None:
    admin = live.stubs("t0", "admin").budgets
    for budget, limit in LIMITS.items():
        request = CreateBudgetRequest(idempotency_key=budget, budget_id=budget, currency="USD", limit=str(limit))
        admin.CreateBudget(request)


@dataclass
class Callers:
    """Ask at random, of any server, and write down what they are told."""

    live: LiveLedger
    told: list[Told] = field(default_factory=list)
    holds: list[tuple[str, Decimal]] = field(default_factory=list)
    left: int = COMMANDS

    async def run(self) -> None:
        token = self.live.token("t0", "gateway")
        clients = [connect(server.address, token) for server in self.live.servers]
        await asyncio.gather(*(self._caller(clients, number) for number in range(CALLERS)))
        for client in clients:
            await client.close()

    async def _caller(self, clients: list[Client], number: int) -> None:
        while self.left > 0:
            self.left -= 1
            told, request = self._some_command(f"{number}-{self.left}")
            method = getattr(random.choice(clients).holds, told.command)
            try:
                answer = await method(request, timeout=30)
            except grpc.aio.AioRpcError as error:
                told.said, told.facts = error_reason(error) or (str(error), {})
            else:
                told.said = hold_pb2.HoldState.Name(answer.hold.state).removeprefix("HOLD_STATE_")
                told.may_send = getattr(answer, "may_send", False)
                if told.command == "Reserve":
                    self.holds.append((told.operation, told.amount))
            told.answer()
            self.told.append(told)

    def _some_command(self, key: str) -> tuple[Told, Any]:
        if not self.holds or random.random() < 0.4:
            return self._reserve(key)
        # Of the last few, so that callers meet.
        operation, held = random.choice(self.holds[-20:])
        command = random.choice(NEXT)
        told = Told(command, operation, key)
        fields: dict[str, Any] = {"idempotency_key": key, "operation_id": operation}
        if command == "BeginDispatch":
            told.nonce = f"nonce-of-{key}-at-random"
            return told, hold_pb2.BeginDispatchRequest(**fields, dispatch=hold_pb2.Dispatch(nonce=told.nonce))
        if command == "MarkOutcomeUnknown":
            return told, hold_pb2.MarkOutcomeUnknownRequest(**fields)
        if command == "Release":
            return told, hold_pb2.ReleaseRequest(**fields)
        told.amount = held / random.choice((2, 4))
        source = hold_pb2.EVIDENCE_SOURCE_PROVIDER_RESPONSE
        usage = hold_pb2.UsageEvidence(source=source, provider="p", charged=usd(told.amount))
        return told, hold_pb2.ResolveRequest(**fields, usage=usage)

    def _reserve(self, key: str) -> tuple[Told, Any]:
        budget = "hot" if random.random() < 0.7 else random.choice(list(LIMITS))
        told = Told("Reserve", f"op-{key}", key, budget, Decimal(random.randint(1, 90)) / 10)
        quote = hold_pb2.QuoteSpec(fixed=hold_pb2.FixedQuote(amount=usd(told.amount), provider="p", reason="agreed"))
        return told, hold_pb2.ReserveRequest(
            idempotency_key=key, operation_id=told.operation, budget_ids=[budget], quote=quote
        )


def history(live: LiveLedger, what: str) -> list[str]:
    """The anomalies of a run, after a look that it reached what it must."""
    open_budgets(live)
    callers = Callers(live)
    asyncio.run(callers.run())
    with psycopg.connect(live.database_url) as connection:
        ordered = put_in_order(connection, callers.told)
    said = Counter(told.said for told in ordered)
    together = len(ordered) - len({told.recorded for told in ordered})
    assert together, "no two commands met in a batch"
    assert min(
        said[name] for name in ("SETTLED", "RELEASED", "INSUFFICIENT_BUDGET", "RESOLUTION_CONFLICT", "HOLD_STATE")
    )
    found = anomalies(ordered, LIMITS)
    record(f"history, {what}", commands=len(ordered), in_a_batch_with_another=together, anomalies=len(found), **said)
    return found


@pytest.mark.timeout(60 + COMMANDS * 0.02)
def test_a_concurrent_history_is_one_that_could_have_been_in_order(database_url: str, tmp_path: Path) -> None:
    with live_ledger(database_url, tmp_path, servers=2) as live:
        assert history(live, "as it is") == []
        assert live.violations() == []


@pytest.mark.parametrize("bug", broken_server.BUGS)
def test_the_checker_bites(bug: str, database_url: str, tmp_path: Path) -> None:
    with live_ledger(database_url, tmp_path, program=("tests.acceptance.broken_server", bug)) as live:
        assert history(live, bug) != []


@pytest.mark.timeout(60 + STORM * 0.05)
def test_calls_that_have_hardly_any_time_are_told_the_truth(database_url: str, tmp_path: Path) -> None:
    """Some are answered, some are dropped, some are done although nobody waited: a later look agrees with every answer."""
    with live_ledger(database_url, tmp_path) as live:
        request = CreateBudgetRequest(idempotency_key="b", budget_id="hot", currency="USD", limit="1000000")
        live.stubs("t0", "admin").budgets.CreateBudget(request)
        answers = asyncio.run(storm(live.servers[0].address, live.token("t0", "gateway")))
        # What was begun in time may still be committing. A lane does one batch after the other, so this call comes after all of it.
        asyncio.run(asked_again(live.servers[0].address, live.token("t0", "gateway"), ["last"]))
        with psycopg.connect(live.database_url) as connection:
            there = {row[0] for row in connection.execute("SELECT operation_id FROM hold")} - {"last"}
        answered = {name for name, code in answers.items() if code is None}
        dropped = {name for name, code in answers.items() if code is not None}
        assert answered <= there
        assert {code for code in answers.values() if code is not None} <= {
            grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED, grpc.StatusCode.RESOURCE_EXHAUSTED,
        }  # fmt: skip
        landed, not_done = dropped & there, dropped - there
        assert answered, "no call had time enough"
        assert landed, "no call was done that nobody waited for"
        assert not_done, "no call was dropped"
        again = asyncio.run(asked_again(live.servers[0].address, live.token("t0", "gateway"), sorted(answers)))
        assert {name for name, replayed in again.items() if replayed} == there
        assert live.violations() == []
        counts = {"answered": len(answered), "done_unseen": len(landed), "not_done": len(not_done)}
        record("cancellation storm", calls=len(answers), **counts, untrue_answers=0)


def _reserve(name: str) -> hold_pb2.ReserveRequest:
    quote = hold_pb2.QuoteSpec(fixed=hold_pb2.FixedQuote(amount=usd(Decimal(1)), provider="p", reason="agreed"))
    return hold_pb2.ReserveRequest(idempotency_key=name, operation_id=name, budget_ids=["hot"], quote=quote)


async def storm(address: str, token: str) -> dict[str, grpc.StatusCode | None]:
    """Calls with deadlines of 0 to 5 ms, and a tenth with time enough; how each ended, None: it was answered."""
    ended: dict[str, grpc.StatusCode | None] = {}

    async def call(client: Client, name: str) -> None:
        try:
            await client.holds.Reserve(_reserve(name), timeout=random.uniform(0, 0.005 if random.random() < 0.9 else 1))
        except grpc.aio.AioRpcError as error:
            ended[name] = error.code()
        else:
            ended[name] = None

    async with connect(address, token) as client:
        for start in range(0, STORM, CALLERS):
            names = [f"op-{number}" for number in range(start, min(start + CALLERS, STORM))]
            await asyncio.gather(*(call(client, name) for name in names))
    return ended


async def asked_again(address: str, token: str, names: list[str]) -> dict[str, bool]:
    """Whether the same key finds that it was done."""
    found: dict[str, bool] = {}
    async with connect(address, token) as client:
        for start in range(0, len(names), 100):
            some = names[start : start + 100]
            commands = [hold_pb2.Command(reserve=_reserve(name)) for name in some]
            answer = await client.holds.BatchExecute(hold_pb2.BatchExecuteRequest(commands=commands), timeout=30)
            found |= {name: result.reserve.replayed for name, result in zip(some, answer.results, strict=True)}
    return found
