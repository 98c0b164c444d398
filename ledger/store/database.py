"""The database of the ledger: pools of connections, with what the process remembers of it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.types.array import ListBinaryDumper
from sqlalchemy import Connection, Engine, create_engine, event, make_url

from ledger.store.memory import Memory

# A transaction of the engine lasts milliseconds; one that waits this long has met a stuck neighbour, and gives way. A process that
# stands still within one loses it, with its locks, before the others lose their patience.
WRITE_SETTINGS = {
    "TimeZone": "UTC",
    "lock_timeout": "10s",
    "statement_timeout": "30s",
    "idle_in_transaction_session_timeout": "5s",
    # Each statement of the engine has one right plan. For small batches PostgreSQL would plan it anew at each execution.
    "plan_cache_mode": "force_generic_plan",
}
# A long snapshot keeps dead rows alive on the hot tables. All statements of a read see the same state.
READ_SETTINGS = {
    "TimeZone": "UTC",
    "statement_timeout": "10s",
    "idle_in_transaction_session_timeout": "10s",
    "default_transaction_read_only": "on",
    "default_transaction_isolation": "repeatable read",
}
# How long (seconds; tcp_user_timeout: milliseconds) a server that says nothing is waited for. The URL may say otherwise.
NETWORK = {
    "connect_timeout": 5,
    "tcp_user_timeout": 15_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
# The bounds above are the server's. One that hangs, or a wire that swallows what it carries, keeps none of them: an answer that
# takes longer than this (seconds; more than a statement may take) is not waited for.
SILENCE = 40.0
# A session's own setting outlives a reload of the server's configuration: what was found fit stays so.
_PIN = "set_config('synchronous_commit', current_setting('synchronous_commit'), false)"
_MEMORY = "ledger.memory"


Result = TypeVar("Result")


class PatientConnection(psycopg.Connection[Any]):
    """A connection that is given up for lost when the server says nothing for SILENCE seconds."""

    def wait(self, gen: PQGen[Result], interval: float = 0.1, timeout: float | None = None) -> Result:
        begun = time.monotonic()
        limit = SILENCE if timeout is None else timeout
        try:
            return super().wait(gen, interval, limit)
        except psycopg.OperationalError:
            if timeout is None and time.monotonic() - begun >= limit:
                # It may answer yet, to a question that nobody asks any more.
                self.pgconn.finish()
            raise


class Database:
    """A PostgreSQL database by its URL, with at most `pool_size` connections that write and as many that read."""

    def __init__(self, url: str, pool_size: int = 4) -> None:
        self.memory = Memory()
        self.engine = self._engine(url, pool_size, WRITE_SETTINGS)
        self.readers = self._engine(url, pool_size, READ_SETTINGS)

    def _engine(self, url: str, pool_size: int, settings: dict[str, str]) -> Engine:
        address = make_url(url).set(drivername="postgresql+psycopg")
        engine = create_engine(
            address,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=10,
            # A database of another encoding is refused in words (see fitness); without this, even asking it fails.
            connect_args={"client_encoding": "utf8"} | {k: v for k, v in NETWORK.items() if k not in address.query},
            # Payloads and ids of customers do not belong in error messages.
            hide_parameters=True,
        )

        @event.listens_for(engine, "do_connect")
        def connect(_dialect: Any, _record: Any, cargs: Any, cparams: Any) -> PatientConnection:
            return PatientConnection.connect(*cargs, **cparams)

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, record: Any) -> None:
            # A list goes out item by item through text and a regular expression otherwise: 200 times as slow.
            connection.adapters.register_dumper(list, ListBinaryDumper)
            record.info[_MEMORY] = self.memory
            parts = ", ".join("set_config(%s, %s, false)" for _ in settings)
            connection.execute(f"SELECT {parts}, {_PIN}", [text for pair in settings.items() for text in pair])
            connection.commit()

        return engine

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A connection whose work is undone on leaving, unless the caller has said `commit()`.

        The commit is the caller's own step: an error in it is not an abort, and must be told from one before it.
        Raises sqlalchemy.exc.DBAPIError if the database cannot be reached, TimeoutError if the pool is used up.
        """
        with self.engine.connect() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection for reads: it cannot write, sees one snapshot, and each statement has a time limit."""
        with self.readers.connect() as connection:
            yield connection

    def close(self) -> None:
        """Closes the connections that are not in use, and forgets: who answers next may be a standby without the last writes."""
        self.engine.dispose()
        self.readers.dispose()
        self.memory.forget()


def memory_of(connection: Connection) -> Memory:
    """What the process remembers of the database behind a connection."""
    memory: Memory = connection.info[_MEMORY]
    return memory
