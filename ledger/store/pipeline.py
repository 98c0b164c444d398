"""Many statements in one round trip: libpq's pipeline mode, on the connection that SQLAlchemy manages."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from ledger.store.arrays import Array
from ledger.store.statements import Statement


class StaleRow(Exception):
    """A row is not as it was when it was read: roll back, load and decide again."""


class Pipeline:
    """Sends statements without waiting for their results, which can be taken when the pipeline is left."""

    def __init__(self, driver: psycopg.Connection[Any]) -> None:
        self._driver = driver

    def send(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> psycopg.Cursor[Any] | None:
        """Runs a statement on the rows or keys; not at all if there are none."""
        return self.run(statement.sql, statement.bind(rows)) if rows else None

    def run(self, sql: str, arrays: dict[str, Array] | None = None) -> psycopg.Cursor[Any]:
        cursor = self._driver.cursor(binary=True)
        cursor.execute(sql, arrays)
        return cursor


@contextmanager
def pipeline(connection: Connection) -> Iterator[Pipeline]:
    """One round trip within the connection's transaction, which begins here if it has not.

    Raises sqlalchemy.exc.DBAPIError, as SQLAlchemy itself does, for the first statement that failed.
    """
    if not connection.in_transaction():
        connection.begin()
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection), "the engine runs on psycopg"
    try:
        with driver.pipeline():
            yield Pipeline(driver)
    except psycopg.Error as error:
        # The rest of what the server says quotes the rows. It stays in `orig.diag`, and out of the logs.
        error.args = (error.diag.message_primary or str(error),)
        lost = driver.closed
        if lost:
            connection.invalidate(error)
        raise DBAPIError.instance(
            None,
            None,
            error,
            psycopg.Error,
            hide_parameters=True,
            connection_invalidated=lost,
            dialect=connection.dialect,
        ) from error


def rows_of(cursor: psycopg.Cursor[Any] | None) -> list[Any]:
    """The rows that a statement found; none if it was not sent."""
    return [] if cursor is None else cursor.fetchall()
