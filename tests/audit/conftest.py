import uuid
from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import Connection

from ledger.store.database import Database
from tests.conftest import database_at
from tests.stories import (
    Ledger,
    tell_attempts,
    tell_corrections,
    tell_everything,
    tell_of_parking,
    tell_of_periods,
)


@pytest.fixture(scope="session")
def told(server_url: str, template: str) -> Iterator[Database]:
    """Books in which everything has happened. A test changes them only `within` a transaction."""
    name = f"told_{uuid.uuid4().hex}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
    database = Database(database_at(server_url, name), pool_size=1)
    ledger = Ledger(database)
    tell_everything(ledger)
    tell_of_parking(ledger)
    tell_corrections(ledger)
    tell_attempts(ledger)
    tell_of_periods(ledger)
    yield database
    database.close()


@pytest.fixture
def within(told: Database) -> Iterator[Connection]:
    """A transaction on them, which is undone."""
    with told.transaction() as connection:
        yield connection
