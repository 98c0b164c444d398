from collections.abc import Iterator

import psycopg
import pytest

from tests.store.around import Sql


@pytest.fixture
def sql(shared_database_url: str) -> Iterator[Sql]:
    """A program that has the database's password, and bypasses the service. What it does is undone."""
    with psycopg.connect(shared_database_url) as connection:
        yield connection
        connection.rollback()
