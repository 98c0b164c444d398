"""A real PostgreSQL for the tests: one server per session, one migrated template, and a database for each test."""

import asyncio
import ctypes
import inspect
import os
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from ledger.store.database import Database
from ledger.store.migrate import migrate
from ledger.store.postgres import LocalPostgres
from ledger.store.scratch import scratch_database

# Tests start processes while calls are under way. With its own handlers at a fork gRPC brings the child down before it can exec.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture(scope="session", autouse=True)
def orphans_are_waited_for() -> Iterator[None]:
    """Tests kill parents. Their children become this process's, so that none is left for an init that may never ask for it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    yield
    # What was told to end may take a moment for it.
    ends = time.monotonic() + 5
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0) or time.monotonic() < ends:
            time.sleep(0.01)


@pytest.fixture(scope="session", autouse=True)
def interrupts_are_heard() -> None:
    """A shell that runs the tests in the background makes them ignore SIGINT, and so would the processes that tests interrupt."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """The URL of a server's maintenance database, as its superuser."""
    # Not pytest's folder: its parents are closed to other users, so a server that drops root could not enter it.
    folder = Path(tempfile.mkdtemp(prefix="ledger-test-"))
    with LocalPostgres(folder) as server:
        yield database_at(server.url, "postgres")
    shutil.rmtree(folder)


def database_at(server_url: str, name: str) -> str:
    """The URL of another database of the server."""
    return make_url(server_url).set(database=name).render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def template(server_url: str) -> str:
    """The name of a migrated, empty database."""
    name = "template_ledger"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    migrate(database_at(server_url, name))
    return name


@contextmanager
def new_database(server_url: str, template: str) -> Iterator[str]:
    """The URL of a new, migrated database; it is dropped in the end."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        yield database_at(server_url, name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def database_url(server_url: str, template: str) -> Iterator[str]:
    """The URL of a migrated, empty database of the test's own."""
    with new_database(server_url, template) as url:
        yield url


@pytest.fixture
def bare_url(server_url: str) -> Iterator[str]:
    """An empty database, without a schema."""
    with scratch_database(server_url) as url:
        yield url


@pytest.fixture(scope="module")
def shared_database_url(server_url: str, template: str) -> Iterator[str]:
    """The URL of a migrated, empty database for tests that undo what they do."""
    with new_database(server_url, template) as url:
        yield url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url, pool_size=4)
    yield opened
    opened.close()


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for what is temporary. Others may pass through it: PostgreSQL does not run as root."""
    folder = Path(tempfile.mkdtemp(prefix="ledger-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
