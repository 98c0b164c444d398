"""Servers as processes of their own, as they are run: two on one database, and one that is told to end."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc.aio
import psycopg
import pytest

from ledger.client import Client, connect, error_reason
from ledger.domain.model import Role
from ledger.v1 import budget_pb2, hold_pb2
from tests.service.harness import make_tokens, reserve_request, resolve_request, sending_request
from tests.watching import until_waiting, violations


@asynccontextmanager
async def process(
    database_url: str, tokens_file: Path, **settings: str
) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """A server's address, and its process, which is ended if it has not ended by itself."""
    environment = {
        **os.environ,
        "DATABASE_URL": database_url,
        "SPEND_LEDGER_TOKENS_FILE": str(tokens_file),
        "SPEND_LEDGER_LISTEN": "127.0.0.1:0",
        **{f"SPEND_LEDGER_{name.upper()}": value for name, value in settings.items()},
    }
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ledger", "serve", env=environment, stderr=asyncio.subprocess.PIPE
    )
    assert started.stderr is not None
    try:
        line = json.loads(await asyncio.wait_for(started.stderr.readline(), 30))
        assert line["message"] == "listening", line
        yield line["address"], started
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


@asynccontextmanager
async def two_servers(
    database_url: str, folder: Path, max_open_holds: int | None = None
) -> AsyncIterator[tuple[Client, Client]]:
    """Clients of two servers on one database, with the role gateway, and the budget 'team' of 100 USD."""
    secrets = make_tokens(folder / "tokens.jsonl")
    async with AsyncExitStack() as stack:
        addresses = [
            (await stack.enter_async_context(process(database_url, folder / "tokens.jsonl")))[0] for _ in range(2)
        ]
        admin = await stack.enter_async_context(connect(addresses[0], secrets[("acme", Role.ADMIN)]))
        await admin.budgets.CreateBudget(
            budget_pb2.CreateBudgetRequest(
                idempotency_key="b", budget_id="team", currency="USD", limit="100", max_open_holds=max_open_holds
            )
        )
        one, other = [
            await stack.enter_async_context(connect(address, secrets[("acme", Role.GATEWAY)])) for address in addresses
        ]
        yield one, other


async def tally(calls: list[asyncio.Task[Mapping[str, int]]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for call in calls:
        for word, number in (await call).items():
            total[word] = total.get(word, 0) + number
    return total


async def test_a_hot_budget_is_never_over_with_two_servers(database_url: str, tmp_path: Path) -> None:
    async with two_servers(database_url, tmp_path) as servers:

        async def reserve(client: Client, name: str) -> Mapping[str, int]:
            commands = [hold_pb2.Command(reserve=reserve_request(f"{name}-{i}", "0.9")) for i in range(20)]
            answer = await client.holds.BatchExecute(hold_pb2.BatchExecuteRequest(commands=commands))
            words = [result.WhichOneof("result") or "" for result in answer.results]
            return {word: words.count(word) for word in set(words)}

        calls = [
            asyncio.create_task(reserve(client, f"{number}-{round_}"))
            for round_ in range(6)
            for number, client in enumerate(servers)
        ]
        # 240 are asked for; 111 of 0.9 are 99.9 of the 100.
        assert await tally(calls) == {"reserve": 111, "error": 129}
    assert violations(database_url) == []


async def test_of_eight_reserves_at_once_at_two_servers_three_are_open_if_three_may_be(
    database_url: str, tmp_path: Path
) -> None:
    async with two_servers(database_url, tmp_path, max_open_holds=3) as servers:

        async def reserve(name: str, client: Client) -> str:
            try:
                await client.holds.Reserve(reserve_request(name, "0.1"))
            except grpc.aio.AioRpcError as error:
                told = error_reason(error)
                return "" if told is None else told.reason
            return "open"

        for round_ in range(5):
            names = [f"op-{round_}-{number}" for number in range(8)]
            told = await asyncio.gather(*(reserve(name, servers[i % 2]) for i, name in enumerate(names)))
            assert sorted(told) == ["TOO_MANY_HOLDS"] * 5 + ["open"] * 3
            for name in (name for name, word in zip(names, told, strict=True) if word == "open"):
                await servers[0].holds.Release(hold_pb2.ReleaseRequest(idempotency_key=name, operation_id=name))
    assert violations(database_url) == []


async def test_one_operation_at_two_servers_is_one_hold_and_one_permission(database_url: str, tmp_path: Path) -> None:
    async with two_servers(database_url, tmp_path) as (one, other):
        for i in range(15):
            first, second = await asyncio.gather(
                one.holds.Reserve(sending_request(f"op-{i}", dispatch=hold_pb2.Dispatch(nonce="one-" + "x" * 16))),
                other.holds.Reserve(sending_request(f"op-{i}", dispatch=hold_pb2.Dispatch(nonce="two-" + "x" * 16))),
            )
            assert sorted((first.may_send, second.may_send)) == [False, True]
            settled = await asyncio.gather(
                one.holds.Resolve(resolve_request(f"op-{i}", "0.5", idempotency_key=f"s1-{i}")),
                other.holds.Resolve(resolve_request(f"op-{i}", "0.5", idempotency_key=f"s2-{i}")),
            )
            assert sorted(answer.replayed for answer in settled) == [False, True]
    assert violations(database_url) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_server_that_is_told_to_end_ends_what_it_began(
    database_url: str, tmp_path: Path, number: signal.Signals
) -> None:
    secrets = make_tokens(tmp_path / "tokens.jsonl")
    async with process(database_url, tmp_path / "tokens.jsonl") as (address, server):
        async with connect(address, secrets[("acme", Role.ADMIN)]) as admin:
            await admin.budgets.CreateBudget(
                budget_pb2.CreateBudgetRequest(idempotency_key="b", budget_id="team", currency="USD", limit="100")
            )
        async with connect(address, secrets[("acme", Role.GATEWAY)]) as gateway:
            with psycopg.connect(database_url) as connection:
                connection.execute("SELECT 1 FROM book FOR UPDATE")
                call = asyncio.ensure_future(gateway.holds.Reserve(reserve_request("op-1")))
                await asyncio.to_thread(until_waiting, database_url)
                server.send_signal(number)
                assert server.stderr is not None
                while json.loads(await asyncio.wait_for(server.stderr.readline(), 20))["message"] != "draining":
                    pass
                with pytest.raises(grpc.aio.AioRpcError):
                    await gateway.holds.Reserve(reserve_request("op-2"), timeout=1)
                assert server.returncode is None
            assert (await call).hold.operation_id == "op-1"
        assert await asyncio.wait_for(server.wait(), 20) == 0
        lines = [json.loads(line) for line in (await server.stderr.read()).splitlines()]
        assert lines[-1]["message"] == "stopped"
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT operation_id FROM hold").fetchall() == [("op-1",)]
