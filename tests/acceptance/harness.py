"""A whole running ledger for acceptance tests: PostgreSQL, server processes that can be killed, and callers."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import IO, Any, NamedTuple

import grpc
import grpc.aio
from sqlalchemy import text

from ledger.client import error_reason
from ledger.domain.model import Role
from ledger.service import tokens
from ledger.store.database import Database
from ledger.store.feed import RECORD
from ledger.store.pipeline import pipeline
from ledger.v1.budget_pb2_grpc import BudgetServiceStub
from ledger.v1.evidence_pb2_grpc import EvidenceServiceStub
from ledger.v1.hold_pb2 import GetHoldRequest, Hold, HoldState
from ledger.v1.hold_pb2_grpc import HoldServiceStub
from ledger.v1.journal_pb2_grpc import JournalServiceStub
from ledger.v1.money_pb2 import Money
from ledger.v1.price_pb2_grpc import PriceServiceStub
from tests.watching import violations

ROOT = Path(__file__).parents[2]
BOUND_SECONDS = 30.0


class Stubs(NamedTuple):
    """The services, as one caller of one tenant."""

    holds: Any
    budgets: Any
    prices: Any
    journal: Any
    evidence: Any


@dataclass
class ServerProcess:
    """One server process on a port of its own choice. `kill` is kill -9."""

    environment: Mapping[str, str]
    log_path: Path
    program: tuple[str, ...] = ("ledger", "serve")
    address: str = ""
    _process: subprocess.Popen[bytes] | None = None
    _log: IO[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        self._log = self.log_path.open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", *self.program],
            cwd=ROOT,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        deadline = time.monotonic() + BOUND_SECONDS
        while not self.address or "listening" not in self.log_path.read_text():
            for line in self.log_path.read_text().splitlines():
                if '"listening"' in line:
                    # The same address again after a restart: callers keep their channels.
                    self.address = json.loads(line)["address"]
                    self.environment = {**self.environment, "SPEND_LEDGER_LISTEN": self.address}
                    return
            assert self._process.poll() is None, self.log_path.read_text()
            assert time.monotonic() < deadline, "the server did not come up: " + self.log_path.read_text()
            time.sleep(0.02)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(BOUND_SECONDS)
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None


@dataclass
class LiveLedger:
    """Servers on one database, with as many tenants as a test wants."""

    database_url: str
    folder: Path
    program: tuple[str, ...] = ("ledger", "serve")
    servers: list[ServerProcess] = field(default_factory=list)
    _channels: list[grpc.Channel] = field(default_factory=list)
    _names: Iterator[int] = field(default_factory=count)
    _tokens: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def tokens_file(self) -> Path:
        return self.folder / "tokens.jsonl"

    def prepare_tenants(self, number: int) -> None:
        """Makes tokens for tenants t0, t1, … of every role before the servers start."""
        for index in range(number):
            for role in (Role.GATEWAY, Role.FINANCE, Role.AUDITOR, Role.ADMIN):
                self.token(f"t{index}", role.value)

    def token(self, tenant: str, role: str) -> str:
        key = (tenant, role)
        if key not in self._tokens:
            self._tokens[key] = tokens.add(
                self.tokens_file, tenant=tenant, actor=f"{role}-1", role=Role(role), now=datetime.now(UTC)
            )
        return self._tokens[key]

    def next_tenant(self) -> str:
        return f"t{next(self._names)}"

    def add_server(self) -> ServerProcess:
        server = ServerProcess(
            {
                "SPEND_LEDGER_DATABASE_URL": self.database_url,
                "SPEND_LEDGER_LISTEN": "127.0.0.1:0",
                "SPEND_LEDGER_TOKENS_FILE": str(self.tokens_file),
                "SPEND_LEDGER_SWEEP_SECONDS": "0.05",
                "SPEND_LEDGER_LOG_LEVEL": "info",
            },
            self.folder / f"server-{len(self.servers)}.log",
            self.program,
        )
        self.servers.append(server)
        server.start()
        return server

    def stubs(self, tenant: str, role: str, server: int = 0) -> Stubs:
        """The services of a server, called by an actor of the tenant in the role."""
        channel = grpc.intercept_channel(
            grpc.insecure_channel(self.servers[server].address), _Bearer(self.token(tenant, role))
        )
        self._channels.append(channel)
        return Stubs(
            HoldServiceStub(channel),
            BudgetServiceStub(channel),
            PriceServiceStub(channel),
            JournalServiceStub(channel),
            EvidenceServiceStub(channel),
        )

    def let_time_run_out(self, tenant: str, operation_id: str) -> None:
        """Moves a hold's deadlines into the past, as if one had waited. The feed is told, as it is of every version."""
        database = Database(self.database_url, pool_size=1)
        with database.transaction() as connection:
            moved = connection.execute(
                text(
                    "UPDATE hold SET version = version + 1, expire_at = least(expire_at, now()),"
                    " lease_expires_at = CASE WHEN lease_expires_at IS NOT NULL THEN least(lease_expires_at, now()) END,"
                    " retry_until = CASE WHEN retry_until IS NOT NULL THEN least(retry_until, now()) END"
                    " WHERE tenant = :tenant AND operation_id = :operation RETURNING *"
                ),
                {"tenant": tenant, "operation": operation_id},
            ).one()
            event = {"type": "HOLD", "operation_id": operation_id, "version": moved.version, "attempt": moved.attempt}
            event |= {"from": moved.state, "to": moved.state, "amount": str(moved.amount), "currency": moved.currency}
            with pipeline(connection) as p:
                p.send(RECORD, [(tenant, datetime.now(UTC), [event])])
            connection.commit()
        database.close()

    def wait_for_state(self, caller: Stubs, operation_id: str, state: str) -> None:
        deadline = time.monotonic() + BOUND_SECONDS
        while True:
            hold = caller.holds.GetHold(GetHoldRequest(operation_id=operation_id)).hold
            if HoldState.Name(hold.state) == f"HOLD_STATE_{state}":
                return
            assert time.monotonic() < deadline, f"{operation_id} is {HoldState.Name(hold.state)}, not {state}"
            time.sleep(0.01)

    def violations(self) -> list[str]:
        """Every law that does not hold, with examples."""
        return violations(self.database_url)

    def logged(self, message: str) -> int:
        """How often the servers, since they were last started, have logged this."""
        said = f'"message": {json.dumps(message)}'
        return sum(server.log_path.read_text().count(said) for server in self.servers)

    def close(self) -> None:
        for channel in self._channels:
            channel.close()
        for server in self.servers:
            server.stop()


class _Bearer(grpc.UnaryUnaryClientInterceptor):
    def __init__(self, token: str) -> None:
        self._header = ("authorization", f"Bearer {token}")

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        details = details._replace(
            metadata=[*(details.metadata or ()), self._header], timeout=details.timeout or BOUND_SECONDS
        )
        return continuation(details, request)


def reason_of(error: BaseException) -> str:
    """Why a call was refused; the status, if the ledger did not say."""
    told = error_reason(error)
    if told is None:
        assert isinstance(error, grpc.Call | grpc.aio.AioRpcError)
        return str(error.code().name)
    return told.reason


class Refusal:
    """Why a call was refused; known when its block is left."""

    reason: str = ""
    metadata: Mapping[str, str] = {}


@contextmanager
def refused(reason: str) -> Iterator[Refusal]:
    """The call in the block must be refused for this reason."""
    told = Refusal()
    try:
        yield told
    except grpc.RpcError as error:
        info = error_reason(error)
        told.reason, told.metadata = (reason_of(error), {}) if info is None else (info.reason, info.metadata)
    assert told.reason == reason


def usd(amount: Decimal | str) -> Money:
    return Money(amount=format(Decimal(amount), "f"), currency="USD")


def state(hold: Hold) -> str:
    return HoldState.Name(hold.state).removeprefix("HOLD_STATE_")


@contextmanager
def live_ledger(
    database_url: str,
    folder: Path,
    *,
    servers: int = 1,
    tenants: int = 1,
    program: tuple[str, ...] = ("ledger", "serve"),
) -> Iterator[LiveLedger]:
    """A running ledger on a migrated database; it ends with the block. `program` is the module that serves, with its arguments."""
    live = LiveLedger(database_url, folder, program)
    live.prepare_tenants(tenants)
    try:
        for _ in range(servers):
            live.add_server()
        yield live
    finally:
        live.close()
