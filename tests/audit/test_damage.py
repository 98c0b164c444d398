"""The check finds each kind of damage, done as a superuser could."""

import psycopg
import pytest
from sqlalchemy import Connection

from ledger.audit.check import LawResult, check_within
from tests.audit import damage_to_books, damage_to_feed, damage_to_holds, damage_to_records

DAMAGE = [*damage_to_books.DAMAGE, *damage_to_holds.DAMAGE, *damage_to_records.DAMAGE, *damage_to_feed.DAMAGE]


def damage(within: Connection, statements: str) -> None:
    driver = within.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute("SET LOCAL session_replication_role = replica")
    # Not by SQLAlchemy, to which a % is a parameter.
    driver.execute(statements.encode())


def checked(within: Connection) -> dict[str, LawResult]:
    return {result.law: result for result in check_within(within)}


@pytest.mark.parametrize(("law", "says", "statements"), DAMAGE, ids=[f"{law}: {says}" for law, says, _ in DAMAGE])
def test_damage_is_found(within: Connection, law: str, says: str, statements: str) -> None:
    damage(within, statements)
    result = checked(within)[law]
    assert result.violations > 0
    assert says in " | ".join(result.examples)
    assert result.violations <= result.checked


def test_each_law_is_broken_by_something(within: Connection) -> None:
    assert {law for law, _, _ in DAMAGE} == checked(within).keys()


def test_at_most_five_examples_are_given(within: Connection) -> None:
    damage(within, "UPDATE posting SET amount = amount + 12345.678")
    result = checked(within)["1.1"]
    assert result.violations == result.checked
    assert len(result.examples) == 5
