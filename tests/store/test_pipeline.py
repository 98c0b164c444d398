"""Statements in one round trip: what fails is told, and the connection is good for more."""

from collections.abc import Callable

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DataError, OperationalError, ProgrammingError

from ledger.store.database import Database
from ledger.store.pipeline import pipeline, rows_of
from ledger.store.statements import Statement, statement

ONE = statement("SELECT 1")
BACKEND = statement("SELECT pg_backend_pid()")
NO_NUMBER = statement("SELECT 'ten'::text::integer")
NO_TABLE = statement("SELECT 1 FROM nothing_of_the_kind")


def together(connection: Connection, *statements: Statement, between: Callable[[], object] = list) -> list[object]:
    """What the statements find, in one round trip."""
    answers = []
    with pipeline(connection) as p:
        for each in statements:
            answers.append(p.run(each))
            between()
    return [rows_of(answer) for answer in answers]


def test_answers_are_there_when_the_pipeline_is_left(database: Database) -> None:
    with database.transaction() as connection:
        pid = connection.execute(text("SELECT pg_backend_pid()")).scalar()
        assert together(connection, ONE, BACKEND) == [[(1,)], [(pid,)]]


def test_the_first_failure_is_told_and_the_rest_is_not_executed(database: Database) -> None:
    with database.transaction() as connection:
        with pytest.raises(DataError, match="ten"):
            together(connection, NO_NUMBER, NO_TABLE)
        connection.rollback()
        assert together(connection, ONE) == [[(1,)]]


def test_a_statement_that_could_not_be_prepared_is_prepared_again(database: Database) -> None:
    with database.transaction() as connection:
        for _ in range(2):
            with pytest.raises(ProgrammingError, match="nothing_of_the_kind"):
                together(connection, NO_TABLE)
            connection.rollback()
        connection.execute(text("CREATE TEMPORARY TABLE nothing_of_the_kind ON COMMIT DROP AS SELECT 1"))
        assert together(connection, NO_TABLE) == [[(1,)]]


def test_a_fault_of_our_own_leaves_the_connection_good(database: Database) -> None:
    with database.transaction() as connection:
        with pytest.raises(ZeroDivisionError):
            together(connection, ONE, NO_TABLE, between=lambda: 1 // 0)
        connection.rollback()
        assert together(connection, ONE) == [[(1,)]]


def test_a_pipeline_begins_the_transaction_that_the_caller_ends(database: Database) -> None:
    create = statement("CREATE TABLE kept (n integer)")
    with database.transaction() as connection:
        together(connection, create)
        connection.rollback()
        together(connection, create)
        connection.commit()


def test_a_statement_is_prepared_once_for_each_connection(database: Database) -> None:
    twice = statement("SELECT 2")
    named = statement(f"SELECT count(*) FROM pg_prepared_statements WHERE name = '{twice.name.decode()}'")
    with database.transaction() as connection, database.transaction() as other:
        for _ in range(3):
            assert together(connection, twice, twice, named) == [[(2,)], [(2,)], [(1,)]]
        assert together(other, named) == [[(0,)]]


@pytest.mark.parametrize("before", [True, False])
def test_a_lost_connection_is_replaced_and_its_statements_are_prepared_again(database: Database, before: bool) -> None:
    with database.transaction() as connection:
        pid = connection.execute(text("SELECT pg_backend_pid()")).scalar()

        def end() -> None:
            with database.read() as other:
                other.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})

        if before:
            end()
        with pytest.raises(OperationalError) as failed:
            together(connection, ONE, BACKEND, between=list if before else end)
        assert failed.value.connection_invalidated
    with database.transaction() as connection:
        assert together(connection, ONE) == [[(1,)]]
