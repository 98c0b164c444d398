"""Many statements in one round trip: libpq's pipeline mode, on the connection that SQLAlchemy manages.

psycopg's own pipeline stops for each statement to send it and to look for answers, which costs more than a small batch itself.
Here all statements of a round trip are sent, and then all answers are taken. Each statement is prepared once per connection.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import generators, pq
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq.abc import PGresult
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from ledger.store.arrays import Array
from ledger.store.statements import Statement

_PREPARED = "ledger.prepared"


class StaleRow(Exception):
    """A row is not as it was when it was read: roll back, load and decide again."""


class Answer:
    """What the server answers to a statement. It is there when the pipeline is left."""

    __slots__ = ("_driver", "result")

    def __init__(self, driver: psycopg.Connection[Any]) -> None:
        self._driver = driver
        self.result: PGresult | None = None

    @property
    def rowcount(self) -> int:
        """How many rows the statement wrote."""
        assert self.result is not None, "the pipeline is left"
        return self.result.command_tuples or 0

    def rows(self) -> list[Any]:
        """The rows that the statement found."""
        assert self.result is not None, "the pipeline is left"
        if not self.result.ntuples:
            return []
        found = Transformer(self._driver)
        found.set_pgresult(self.result)
        return found.load_rows(0, self.result.ntuples, tuple)


class Pipeline:
    """Takes statements, whose answers come all together. `prepared` are those that the connection knows already."""

    def __init__(self, driver: psycopg.Connection[Any], prepared: set[bytes]) -> None:
        self._driver = driver
        self._pgconn = driver.pgconn
        self._prepared = prepared
        # For each answer that the server owes: who waits for it, or which statement it says to be prepared.
        self._owed: list[Answer | bytes | None] = []
        self._pgconn.enter_pipeline_mode()
        if self._pgconn.transaction_status == pq.TransactionStatus.IDLE:
            self._pgconn.send_query_params(b"BEGIN", None)
            self._owed.append(None)

    def send(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> Answer | None:
        """Runs a statement on the rows or keys; not at all if there are none."""
        return self.run(statement, statement.bind(rows)) if rows else None

    def run(self, statement: Statement, arrays: Sequence[Array] = ()) -> Answer:
        """Runs a statement with one array per placeholder."""
        if statement.name not in self._prepared and statement.name not in self._owed:
            self._pgconn.send_prepare(statement.name, statement.sql.encode(), [array.array_oid for array in arrays])
            self._owed.append(statement.name)
        values = [array.encoded() for array in arrays]
        self._pgconn.send_query_prepared(statement.name, values, [pq.Format.BINARY] * len(values), pq.Format.BINARY)
        answer = Answer(self._driver)
        self._owed.append(answer)
        return answer

    def finish(self) -> list[PGresult]:
        """Sends what is left and takes what the server owes; the connection is an ordinary one again.

        Raises psycopg.OperationalError if it is lost.
        """
        if self._pgconn.status == pq.ConnStatus.BAD:
            raise psycopg.OperationalError("the connection is lost")
        self._pgconn.pipeline_sync()
        results = self._driver.wait(_exchange(self._pgconn, len(self._owed)))
        self._pgconn.exit_pipeline_mode()
        for owed, result in zip(self._owed, results, strict=True):
            # A prepared statement outlives its transaction, whatever becomes of that.
            if isinstance(owed, bytes) and result.status == pq.ExecStatus.COMMAND_OK:
                self._prepared.add(owed)
        return results

    def answer(self, results: Sequence[PGresult]) -> None:
        """Hands the results out. Raises psycopg.Error for the first statement that failed; those after it were not executed."""
        for owed, result in zip(self._owed, results, strict=True):
            if result.status == pq.ExecStatus.FATAL_ERROR:
                raise error_from_result(result, encoding=self._driver.info.encoding)
            if isinstance(owed, Answer):
                owed.result = result


def _exchange(pgconn: pq.abc.PGconn, owed: int) -> PQGen[list[PGresult]]:
    """Sends what is still to be sent, and gives one result per statement. The answer to the sync comes last, and says nothing."""
    yield from generators.send(pgconn)
    results = []
    for _ in range(owed):
        results += yield from generators.fetch_many(pgconn)
    yield from generators.fetch_many(pgconn)
    return results


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
        p = Pipeline(driver, connection.info.setdefault(_PREPARED, set()))
        try:
            yield p
        finally:
            results = p.finish()
        p.answer(results)
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


def rows_of(answer: Answer | None) -> list[Any]:
    """The rows that a statement found; none if it was not sent."""
    return [] if answer is None else answer.rows()
