"""A law, and how it is asked."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from ledger.store.database import Database

EXAMPLES = 5


class Law(NamedTuple):
    """`query` gives one text per thing that is checked: NULL, or what is wrong with it."""

    law: str
    title: str
    query: str
    parameters: Mapping[str, Any] = {}


class Measured(NamedTuple):
    """How many things were checked, how many violate the law, and some of them."""

    checked: int
    violations: int
    examples: tuple[str, ...]


def measure(connection: Connection, law: Law) -> Measured:
    asked = text(f"""
        SELECT count(*), count(violation), (array_agg(violation) FILTER (WHERE violation IS NOT NULL))[1:{EXAMPLES}]
        FROM ({law.query}) AS subject (violation)
    """)  # noqa: S608 - put together from this package's constants
    checked, violations, examples = connection.execute(asked, law.parameters).one()
    return Measured(checked, violations, tuple(examples or ()))


@contextmanager
def snapshot(database: Database) -> Iterator[Connection]:
    """A connection that sees one state of all rows, for as long as it takes, and cannot write."""
    with database.read() as connection:
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        yield connection
