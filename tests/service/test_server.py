"""The server as its clients and its operator meet it: limits, deadlines, an unfit database, draining."""

import asyncio
import json
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import psycopg
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ledger.client import connect
from ledger.domain.model import Role
from ledger.logs import JsonFormatter
from ledger.service.server import Server
from ledger.settings import Settings
from ledger.store.fitness import UnfitDatabase
from ledger.store.postgres import LocalPostgres
from ledger.v1 import budget_pb2, hold_pb2
from tests.service.harness import make_tokens, refusal, reserve_request, sending_request, serving
from tests.watching import until_waiting


@contextmanager
def stalled(database_url: str) -> Iterator[psycopg.Connection]:
    """The books are locked: a batch begins, and waits."""
    with psycopg.connect(database_url) as connection:
        connection.execute("SELECT 1 FROM book FOR UPDATE")
        yield connection


async def blocked(database_url: str) -> None:
    await asyncio.to_thread(until_waiting, database_url)


async def test_a_deadline_that_passes_in_the_queue(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        holds = ledger.gateway.holds
        with stalled(database_url):
            first = asyncio.ensure_future(holds.Reserve(reserve_request("first")))
            await blocked(database_url)
            late = holds.Reserve(reserve_request("late"), timeout=0.1)
            assert (await refusal(late))[0] == "DEADLINE_EXCEEDED"
        assert (await first).hold.operation_id == "first"
        assert (await refusal(holds.GetHold(hold_pb2.GetHoldRequest(operation_id="late"))))[1] == "NOT_FOUND"


async def test_a_call_that_is_cancelled_after_it_began_is_there(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        holds = ledger.gateway.holds
        with stalled(database_url):
            call = holds.Reserve(sending_request("op-1"))
            waiting = asyncio.ensure_future(_settled(call))
            await blocked(database_url)
            call.cancel()
            await waiting
        again = await holds.Reserve(sending_request("op-1"))
        assert (again.replayed, again.may_send) == (True, True), "the same process may still send"


async def _settled(call: Any) -> None:
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_too_many_calls_at_once_are_throttled(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path, max_concurrent_rpcs=3) as ledger:
        await ledger.budget()
        holds = ledger.gateway.holds
        with stalled(database_url):
            calls = [asyncio.ensure_future(holds.Reserve(reserve_request(f"op-{i}"))) for i in range(3)]
            await blocked(database_url)
            # When all of them are there another is one too many; until then it may be taken in, and comes too late.
            told: tuple[str, str, dict[str, str]] = ("DEADLINE_EXCEEDED", "", {})
            while told[0] == "DEADLINE_EXCEEDED":
                told = await refusal(holds.Reserve(reserve_request("op-3"), timeout=0.2))
            assert told == ("RESOURCE_EXHAUSTED", "THROTTLED", {})
            async with grpc.aio.insecure_channel(ledger.address) as channel:
                stub: Any = health_pb2_grpc.HealthStub(channel)
                answer = await stub.Check(health_pb2.HealthCheckRequest())
                assert answer.status == health_pb2.HealthCheckResponse.SERVING, "busy is not ill"
        assert [(await call).hold.operation_id for call in calls] == ["op-0", "op-1", "op-2"]
        assert (await holds.Reserve(reserve_request("op-3"))).hold.operation_id == "op-3"


async def test_a_full_queue_is_throttled(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path, max_queue=2) as ledger:
        await ledger.budget()
        commands = [hold_pb2.Command(reserve=reserve_request(f"op-{i}")) for i in range(3)]
        batch = await ledger.gateway.holds.BatchExecute(hold_pb2.BatchExecuteRequest(commands=commands))
        assert {result.error.code for result in batch.results} == {8}
        answer = await ledger.gateway.holds.Reserve(reserve_request("op-1"))
        assert not answer.replayed


async def test_a_message_above_the_limit_is_refused(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path, max_message_bytes=2000) as ledger:
        await ledger.budget()
        big = reserve_request("op-1", labels={f"k{i}": "v" * 200 for i in range(20)})
        assert (await refusal(ledger.gateway.holds.Reserve(big)))[0] == "RESOURCE_EXHAUSTED"
        assert (await ledger.gateway.holds.Reserve(reserve_request("op-1"))).hold.operation_id == "op-1"


async def test_the_database_goes_and_comes_back(database_url: str, server_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        holds = ledger.gateway.holds
        with psycopg.connect(server_url, autocommit=True) as elsewhere:
            name = psycopg.conninfo.conninfo_to_dict(database_url)["dbname"]
            elsewhere.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            elsewhere.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
            told = await refusal(holds.Reserve(reserve_request("op-1")))
            assert told[:2] == ("UNAVAILABLE", "STORE_UNAVAILABLE")
            told = await refusal(holds.ListHolds(hold_pb2.ListHoldsRequest()))
            assert told[:2] == ("UNAVAILABLE", "STORE_UNAVAILABLE")
            elsewhere.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        answer = await holds.Reserve(reserve_request("op-1"))
        assert not answer.replayed


async def test_a_database_that_becomes_read_only_is_unavailable(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        with psycopg.connect(database_url, autocommit=True) as connection:
            name = connection.info.dbname
            connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
                (name,),
            )
            told = await refusal(ledger.gateway.holds.Reserve(reserve_request("op-1")))
            assert told[:2] == ("UNAVAILABLE", "STORE_UNAVAILABLE")
            budget = await ledger.gateway.budgets.GetBudget(budget_pb2.GetBudgetRequest(budget_id="team"))
            assert budget.budget.balances.held == "0"


@pytest.mark.parametrize(
    ("damage", "remedy"),
    [
        ("UPDATE alembic_version SET version_num = 'older'", "does not know"),
        ("DROP TABLE alembic_version", "spend-ledger migrate"),
        ("ALTER DATABASE {name} SET synchronous_commit = off", "synchronous_commit is off"),
        ("ALTER DATABASE {name} SET default_transaction_read_only = on", "read-only"),
    ],
)
async def test_an_unfit_database_is_refused_before_listening(
    database_url: str, tmp_path: Path, damage: str, remedy: str
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(damage.format(name=connection.info.dbname))
    await refused_at_start(database_url, tmp_path, remedy)


async def test_a_server_without_fsync_is_refused(tmp_path: Path) -> None:
    # Not pytest's folder: a server that drops root could not enter it.
    folder = Path(tempfile.mkdtemp(prefix="ledger-test-"))
    with LocalPostgres(folder, options={"fsync": "off"}) as careless:
        await refused_at_start(careless.url, tmp_path, "fsync is off")
    shutil.rmtree(folder)


async def refused_at_start(database_url: str, folder: Path, remedy: str) -> None:
    path = folder / "tokens.jsonl"
    make_tokens(path)
    server = Server(Settings(listen="127.0.0.1:0", tokens_file=path), database_url)
    with pytest.raises(UnfitDatabase, match=remedy):
        await server.start()
    assert server.address == ""
    await server.drain()


async def test_draining_ends_what_began_and_takes_nothing_new(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        holds = ledger.gateway.holds
        async with grpc.aio.insecure_channel(ledger.address) as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            watch = stub.Watch(health_pb2.HealthCheckRequest())
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
            with stalled(database_url):
                begun = asyncio.ensure_future(holds.Reserve(reserve_request("begun")))
                await blocked(database_url)
                draining = asyncio.create_task(ledger.server.drain())
                assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
                await asyncio.sleep(0.1)
                assert (await refusal(holds.Reserve(reserve_request("new"), timeout=1)))[0] in {
                    "UNAVAILABLE",
                    "DEADLINE_EXCEEDED",
                }
                assert not draining.done()
            assert (await begun).hold.operation_id == "begun"
            await draining
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT operation_id FROM hold").fetchall() == [("begun",)]


async def test_draining_is_bounded(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path, drain_seconds=0.2) as ledger:
        await ledger.budget()
        with stalled(database_url):
            begun = asyncio.ensure_future(ledger.gateway.holds.Reserve(reserve_request("begun")))
            await blocked(database_url)
            await asyncio.wait_for(ledger.server.drain(), 5)
            assert (await refusal(begun))[0] in {"UNAVAILABLE", "CANCELLED"}


async def test_a_port_that_is_taken_is_said(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        settings = Settings(listen=ledger.address, tokens_file=tmp_path / "tokens.jsonl")
        second = Server(settings, database_url)
        with pytest.raises(OSError, match=ledger.address):
            await second.start()
        await second.drain()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to make a certificate with")
async def test_with_a_certificate_the_server_speaks_tls(database_url: str, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    async with serving(database_url, tmp_path, tls_certificate=certificate, tls_key=key) as ledger:
        token = ledger.token("acme", Role.AUDITOR)
        trusted = grpc.ssl_channel_credentials(certificate.read_bytes())
        async with connect(ledger.address, token, credentials=trusted) as client:
            assert not (await client.holds.ListHolds(hold_pb2.ListHoldsRequest())).holds
        async with connect(ledger.address, token) as in_clear:
            call = in_clear.holds.ListHolds(hold_pb2.ListHoldsRequest(), timeout=5)
            assert (await refusal(call))[0] == "UNAVAILABLE"


async def test_a_certificate_that_cannot_be_used_is_said(database_url: str, tmp_path: Path) -> None:
    make_tokens(tmp_path / "tokens.jsonl")
    text, pipe = tmp_path / "text", tmp_path / "pipe"
    text.write_text("no certificate")
    os.mkfifo(pipe)
    for certificate, says in (
        (text, "must be PEM files"),
        (pipe, "TLS_CERTIFICATE"),
        (tmp_path / "none", "TLS_CERTIFICATE"),
    ):
        settings = Settings(
            listen="127.0.0.1:0", tokens_file=tmp_path / "tokens.jsonl", tls_certificate=certificate, tls_key=text
        )
        server = Server(settings, database_url)
        with pytest.raises(OSError, match=says):
            await server.start()
        await server.drain()


async def test_logs_say_who_and_why_and_never_what(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "ledger")
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        request = reserve_request("secret-operation", labels={"secret": "secret"}, exclusive_key="secret-key")
        await ledger.gateway.holds.Reserve(request)
        await refusal(ledger.gateway.holds.Reserve(reserve_request("secret-big", "1000", exclusive_key="secret-2")))
        await refusal(ledger.admin.holds.Reserve(request))
    lines = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    told = [
        (line["level"], line["message"], line.get("method"), line.get("reason"), line.get("tenant"), line.get("actor"))
        for line in lines
        if line["logger"] == "ledger.service" and line.get("method", "").endswith("/Reserve")
    ]
    assert told == [
        ("debug", "answered", "/ledger.v1.HoldService/Reserve", None, "acme", "gateway-1"),
        ("debug", "refused", "/ledger.v1.HoldService/Reserve", "INSUFFICIENT_BUDGET", "acme", "gateway-1"),
        ("warning", "refused", "/ledger.v1.HoldService/Reserve", "ROLE_NOT_ALLOWED", "acme", "admin-1"),
    ]
    assert all(line["duration_ms"] >= 0 for line in lines if line["message"] in {"answered", "refused"})
    assert "secret" not in json.dumps(lines)
