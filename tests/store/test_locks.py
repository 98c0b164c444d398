"""Rows are locked in one order, and what a batch is decided on is read when it has the locks."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal

import psycopg
import pytest

from ledger.domain.batch import Loaded
from ledger.domain.commands import Command, CreateBudget
from ledger.domain.needs import financial_book
from ledger.store.database import Database
from tests.store import samples as s
from tests.store.samples import ADMIN, T
from tests.store.sql import insert

Sql = psycopg.Connection[tuple[object, ...]]

# The rows that two settlements need, in the order in which every batch locks them: holds by name, then books by name.
FINANCIAL = financial_book(s.hold(), 0).book_id
ORDER = [
    ("hold", "operation_id", "op-1"),
    ("hold", "operation_id", "op-2"),
    ("book", "book_id", FINANCIAL),
    ("book", "book_id", "org#0"),
    ("book", "book_id", "team#0"),
]
SETTLE: list[Command] = [s.settle("op-2"), s.settle("op-1")]


@pytest.fixture
def other(database: Database, database_url: str) -> Iterator[Sql]:
    """Another process, on books with two dispatched holds below org and team, and a stripe of the financial book."""
    s.apply(database, [CreateBudget(ADMIN, "k-1", "org", None, "USD", "", Decimal(10))])
    s.apply(database, [CreateBudget(ADMIN, "k-2", "team", "org", "USD", "", Decimal(10))])
    s.apply(database, [s.dispatched(name) for name in ("op-1", "op-2", "first")])
    s.apply(database, [s.settle("first")])
    with psycopg.connect(database_url) as connection:
        yield connection


@contextmanager
def waiting(database: Database, commands: list[Command]) -> Iterator["Future[Loaded]"]:
    """A load that waits for a lock of the other process, until that lets go."""
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(s.read, database, commands)
        s.until_waiting(database, loading)
        yield loading


def lock(sql: Sql, row: tuple[str, str, str], wait: str = "") -> None:
    table, column, name = row
    query = f"SELECT 1 FROM {table} WHERE tenant = %s AND {column} = %s FOR NO KEY UPDATE {wait}"
    assert sql.execute(query.encode(), [T, name]).fetchone()


def is_free(url: str, row: tuple[str, str, str]) -> bool:
    with psycopg.connect(url) as third:
        try:
            lock(third, row, "NOWAIT")
        except psycopg.errors.LockNotAvailable:
            return False
        return True


@pytest.mark.parametrize("place", range(len(ORDER)), ids=[name for _, _, name in ORDER])
def test_a_batch_has_the_rows_before_and_not_yet_those_after(
    database: Database, database_url: str, other: Sql, place: int
) -> None:
    lock(other, ORDER[place])
    with waiting(database, SETTLE) as loading:
        free = [is_free(database_url, row) for row in ORDER]
        other.rollback()
        loading.result(timeout=10)
    assert free == [False] * (place + 1) + [True] * (len(ORDER) - place - 1)


def test_a_hold_is_as_the_one_before_left_it(database: Database, other: Sql) -> None:
    other.execute("UPDATE hold SET state = 'OUTCOME_UNKNOWN', version = version + 1 WHERE operation_id = 'op-1'")
    with waiting(database, SETTLE) as loading:
        other.commit()
        hold = loading.result(timeout=10).holds[(T, "op-1")]
    assert (hold.state, hold.version) == ("OUTCOME_UNKNOWN", 2)


def test_now_and_the_receipts_are_read_when_the_locks_are_there(database: Database, other: Sql) -> None:
    (asked,) = commands = [s.reserve("op-3", key="key-3")]
    lock(other, ("book", "book_id", "org#0"))
    with waiting(database, list(commands)) as loading:
        done = insert(
            "receipt", tenant=f"'{T}'", actor="'gateway-1'", command="'Reserve'", key="'key-3'", resource="'op-3'",
            fingerprint=f"'\\x{asked.fingerprint.hex()}'", fingerprint_version="1", outcome="'UNQUOTABLE'", refusal="'{}'",
        )  # fmt: skip
        other.execute(done.encode())
        (let_go,) = other.execute("SELECT clock_timestamp()").fetchone() or (None,)
        other.commit()
        loaded = loading.result(timeout=10)
    assert isinstance(let_go, datetime)
    assert loaded.now > let_go
    assert loaded.receipts.keys() == {asked.receipt_key}
