"""The server: listens once the database is known to be fit, says whether it is serving, and drains before it ends."""

import asyncio
import contextlib
import gc
import logging
import signal
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server
from grpc_reflection.v1alpha import reflection

from ledger.engine.lane import Engine, EngineOptions
from ledger.engine.reader import Reader
from ledger.service.budgets import Budgets
from ledger.service.evidence import Evidence
from ledger.service.feed import Feed
from ledger.service.holds import Holds
from ledger.service.interceptor import Boundary
from ledger.service.journal import Journal
from ledger.service.prices import Prices
from ledger.service.tokens import Tokens
from ledger.service.writes import Writes
from ledger.settings import PREFIX, Settings
from ledger.store.database import Database
from ledger.store.fitness import verify
from ledger.v1 import budget_pb2, evidence_pb2, feed_pb2, hold_pb2, journal_pb2, price_pb2, write_pb2
from ledger.v1.budget_pb2_grpc import add_BudgetServiceServicer_to_server
from ledger.v1.evidence_pb2_grpc import add_EvidenceServiceServicer_to_server
from ledger.v1.feed_pb2_grpc import add_FeedServiceServicer_to_server
from ledger.v1.hold_pb2_grpc import add_HoldServiceServicer_to_server
from ledger.v1.journal_pb2_grpc import add_JournalServiceServicer_to_server
from ledger.v1.price_pb2_grpc import add_PriceServiceServicer_to_server
from ledger.v1.write_pb2_grpc import add_WriteServiceServicer_to_server

log = logging.getLogger("ledger.service")

SERVICES = tuple(
    file.DESCRIPTOR.services_by_name[name].full_name
    for file, name in (
        (hold_pb2, "HoldService"),
        (budget_pb2, "BudgetService"),
        (price_pb2, "PriceService"),
        (evidence_pb2, "EvidenceService"),
        (journal_pb2, "JournalService"),
        (feed_pb2, "FeedService"),
        (write_pb2, "WriteService"),
    )
)
# How long an answer may take from its handler to the wire.
_WRITING_SECONDS = 0.1
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Worker(Protocol):
    """Background work beside the calls."""

    def start(self) -> None: ...

    async def stop(self) -> None: ...


Workers = Callable[[Engine, Reader], Sequence[Worker]]


class Server:
    """One process of the service. `start` returns when it listens; `drain` when it has ended what it began."""

    def __init__(self, settings: Settings, database_url: str, workers: Workers = lambda _engine, _reader: ()) -> None:
        self._settings = settings
        self._database = Database(database_url, max(settings.pool_size, settings.lanes))
        options = EngineOptions(settings.lanes, settings.max_batch, settings.max_queue)
        self._engine = Engine(self._database, options)
        self._reader = Reader(self._database, settings.pool_size)
        self._feed = Feed(database_url, settings.max_watchers)
        self._workers = workers(self._engine, self._reader)
        self._health = health.aio.HealthServicer()
        self._grpc: grpc.aio.Server | None = None
        self._boundary: Boundary | None = None
        self.address = ""

    async def start(self) -> None:
        """Raises UnfitDatabase or OSError, with nothing listening, if the server cannot serve."""
        settings = self._settings
        await asyncio.to_thread(self._verify)
        self._boundary = boundary = Boundary(
            Tokens.load(settings.tokens_file), reflection=settings.reflection, limit=settings.max_concurrent_rpcs
        )
        self._grpc = server = grpc.aio.server(interceptors=(boundary,), options=_options(settings))
        add_HoldServiceServicer_to_server(Holds(self._engine, self._reader), server)
        add_BudgetServiceServicer_to_server(Budgets(self._engine, self._reader), server)
        add_PriceServiceServicer_to_server(Prices(self._engine, self._reader), server)
        add_EvidenceServiceServicer_to_server(Evidence(self._engine, self._reader), server)
        add_JournalServiceServicer_to_server(Journal(self._reader), server)
        add_WriteServiceServicer_to_server(Writes(self._engine, self._reader), server)
        add_FeedServiceServicer_to_server(self._feed, server)
        add_HealthServicer_to_server(self._health, server)
        if settings.reflection:
            reflection.enable_server_reflection((*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        port = self._bind(server)
        self.address = f"{settings.listen.rpartition(':')[0]}:{port}"
        self._engine.start()
        await server.start()
        for worker in self._workers:
            worker.start()
        for name in ("", *SERVICES):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        log.info("listening", extra={"address": self.address})

    async def drain(self) -> None:
        """Takes no new calls, ends those in progress (at most drain_seconds) and what the engine has begun, then closes."""
        await self._health.enter_graceful_shutdown()
        grace = self._settings.drain_seconds
        for worker in self._workers:
            await worker.stop()
        await self._feed.stop()
        if self._grpc is not None and self._boundary is not None:
            await _stop(self._grpc, self._boundary, grace)
        if not await self._engine.stop(grace):
            log.error("stopped with commands undone; their callers may ask again with the same keys")
        await self._feed.close()
        await asyncio.to_thread(self._reader.close)
        self._database.close()
        log.info("stopped", extra={"address": self.address})

    def _verify(self) -> None:
        with self._database.transaction() as connection:
            verify(connection)

    def _bind(self, server: grpc.aio.Server) -> int:
        settings = self._settings
        credentials = None
        if settings.tls_certificate is not None and settings.tls_key is not None:
            credentials = _credentials(settings.tls_certificate, settings.tls_key)
        try:
            if credentials is None:
                return server.add_insecure_port(settings.listen)
            return server.add_secure_port(settings.listen, credentials)
        except RuntimeError as error:
            raise OSError(
                f"Cannot listen on {settings.listen}: is the port taken, is the address this machine's?"
            ) from error


def _credentials(certificate: Path, key: Path) -> grpc.ServerCredentials:
    """Raises OSError that names the setting of a file that cannot be used: of gRPC one would only hear that it does not listen."""
    for name, path in (("TLS_CERTIFICATE", certificate), ("TLS_KEY", key)):
        if not path.is_file():
            raise OSError(f"{PREFIX}{name}: {path} is not there, or is not a file: name a PEM file.")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        raise OSError(
            f"{PREFIX}TLS_CERTIFICATE and {PREFIX}TLS_KEY: {certificate} and {key} must be PEM files, the one with the certificate "
            "and the other with its key, without a password."
        ) from error
    return grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])


async def _stop(server: grpc.aio.Server, boundary: Boundary, grace: float) -> None:
    """Takes no new calls, and waits for those in progress. Streams that go on are cut."""
    stopping = asyncio.create_task(server.stop(grace))
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(boundary.idle(), grace)
        await asyncio.sleep(_WRITING_SECONDS)
    await server.stop(None)
    await stopping


async def serve(settings: Settings, database_url: str, workers: Workers = lambda _engine, _reader: ()) -> None:
    """Serves until SIGTERM or SIGINT. Raises UnfitDatabase, with the remedy, before it listens."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stopping.set)
    server = Server(settings, database_url, workers)
    try:
        await server.start()
        _calm_collector()
        await stopping.wait()
        log.info("draining", extra={"address": server.address})
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
        await server.drain()


def _calm_collector() -> None:
    """Batches make thousands of objects that die by reference count: looking for cycles after every 700 costs a tenth."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _options(settings: Settings) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        # Answers are bounded where they are written: what was done must be told.
        ("grpc.max_send_message_length", -1),
        # Two servers on one port would share it without a word.
        ("grpc.so_reuseport", 0),
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.max_metadata_size", 16 * 1024),
    ]
