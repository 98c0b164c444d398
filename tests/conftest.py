"""A real PostgreSQL for the tests: one server per session, one migrated template, and a database for each test."""

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from alembic.config import Config
from sqlalchemy import create_engine

from alembic import command
from ledger.store.database import Database

ROOT = Path(__file__).parents[1]
BINARIES = Path("/usr/lib/postgresql/15/bin")


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """The URL of a server's maintenance database, as its superuser."""
    folder = Path(tempfile.mkdtemp(prefix="ledger-test-"))
    shutil.chown(folder, "postgres")
    run = {"user": "postgres", "cwd": folder, "env": {**os.environ, "LC_ALL": "C.UTF-8"}}
    subprocess.run(
        [BINARIES / "initdb", "-D", folder / "data", "-U", "postgres", "--no-sync"],
        check=True,
        capture_output=True,
        **run,
    )
    subprocess.run(
        [
            BINARIES / "pg_ctl",
            "-D",
            folder / "data",
            "-l",
            folder / "log",
            "-w",
            "start",
            "-o",
            f"-k {folder} -c listen_addresses=''",
        ],
        check=True,
        capture_output=True,
        **run,
    )
    yield f"postgresql://postgres@/postgres?host={folder}"
    subprocess.run(
        [BINARIES / "pg_ctl", "-D", folder / "data", "-m", "immediate", "stop"], check=True, capture_output=True, **run
    )
    shutil.rmtree(folder)


def database_at(server_url: str, name: str) -> str:
    """The URL of another database of the server."""
    return server_url.replace("/postgres?", f"/{name}?")


def migrate_to_head(url: str) -> None:
    config = Config(ROOT / "alembic.ini")
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    engine.dispose()


@pytest.fixture(scope="session")
def template(server_url: str) -> str:
    """The name of a migrated, empty database."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE template_ledger")
    migrate_to_head(database_at(server_url, "template_ledger"))
    return "template_ledger"


@pytest.fixture
def database_url(server_url: str, template: str) -> Iterator[str]:
    """The URL of a migrated, empty database of the test's own."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        yield database_at(server_url, name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url, pool_size=4)
    yield opened
    opened.close()
