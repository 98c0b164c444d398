"""Going around the service: what a program can ask of the database that has its password."""

import psycopg
import pytest

Sql = psycopg.Connection[tuple[object, ...]]
ENTRY = "'00000000-0000-0000-0000-000000000001'"


def refused(sql: Sql, statement: str, message: str, law: str) -> None:
    """The statement is refused, with these words among others, by this trigger or constraint."""
    with pytest.raises(psycopg.errors.IntegrityError) as error, sql.transaction():
        sql.execute(statement.encode())
    assert message in str(error.value)
    assert error.value.diag.constraint_name == law


def done(sql: Sql, *statements: str) -> None:
    for statement in statements:
        sql.execute(statement.encode())
