"""What a test sees of a ledger's database from outside."""

import time
from concurrent.futures import Future
from decimal import Decimal
from typing import Any

import psycopg

from ledger.audit.check import check
from ledger.store.database import Database

LONGEST = 20.0


def violations(database_url: str) -> list[str]:
    """Every law that does not hold, with examples."""
    database = Database(database_url, pool_size=1)
    try:
        return [f"{law.law}: {law.title}: {law.examples}" for law in check(database) if law.violations]
    finally:
        database.close()


def used_at_each_moment(database_url: str, tenant: str, book_id: str) -> list[Decimal]:
    """held + unknown + spent of a book after each of its entries, in their order."""
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "SELECT sum(sum(-amount)) OVER (ORDER BY max(version)) FROM posting WHERE tenant = %s AND book_id = %s"
            " AND account IN ('HELD', 'UNKNOWN', 'SPENT') GROUP BY entry_id",
            [tenant, book_id],
        ).fetchall()
    return [used for (used,) in rows]


def waiting(connection: psycopg.Connection[Any]) -> int:
    """How many connections to the same database wait for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def until_waiting(database_url: str, *calls: Future[Any], number: int = 1) -> None:
    """Until so many connections to the database wait for a lock. The calls that are to wait must not end before."""
    ends = time.monotonic() + LONGEST
    with psycopg.connect(database_url, autocommit=True) as connection:
        while waiting(connection) < number:
            assert not any(call.done() for call in calls), "it did not wait"
            assert time.monotonic() < ends, "nothing waits for a lock"
            time.sleep(0.005)
