"""A budget whose time zone the machine of a server lacks: people must install it, and nobody else is in their way."""

import logging
from collections.abc import Iterator

import psycopg
import pytest

from ledger.domain.commands import CreateBudget
from ledger.domain.periods import PeriodKind, Schedule
from ledger.domain.refusals import Reason, Refusal
from ledger.engine.batch import Runner
from ledger.engine.reader import Reader
from ledger.store import read
from ledger.store.database import Database
from tests.engine.asks import ADMIN, TENANT, reserve, resolve, told


@pytest.fixture
def strange(runner: Runner, superuser: psycopg.Connection) -> psycopg.Connection:
    """The tenant has a budget 'mars', made by a server that knows its zone, with a hold that was sent."""
    daily = Schedule(PeriodKind.DAY, "Europe/Berlin")
    assert told(runner, CreateBudget(ADMIN, "create-mars", "mars", None, "USD", "", None, schedule=daily)) == ["done"]
    assert told(runner, reserve("sent", "1", budget_id="mars", dispatch=True)) == ["DISPATCHING"]
    superuser.execute("SET session_replication_role = replica")
    superuser.execute("UPDATE budget SET zone = 'Mars/Olympus' WHERE budget_id = 'mars'")
    return superuser


@pytest.fixture
def reader(database: Database) -> Iterator[Reader]:
    made = Reader(database, 1)
    yield made
    made.close()


def test_who_names_the_budget_is_told_what_to_do_and_nobody_else_notices(
    database: Database, runner: Runner, strange: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    batch = (reserve("a", "1"), reserve("b", "1", budget_id="mars"), resolve("sent", "1"), reserve("c", "1"))
    with caplog.at_level(logging.ERROR):
        assert told(runner, *batch) == ["RESERVED", "STORE_UNAVAILABLE", "SETTLED", "RESERVED"]
    refusal = runner.execute([batch[1]])[0].refusal
    assert refusal is not None
    assert "'Mars/Olympus'" in refusal.message
    assert "tzdata" in refusal.message
    # Not a fault of the database: its connections, and what is remembered of it, are kept.
    assert database.memory.newest
    assert {record.message for record in caplog.records} == {
        "given up: This machine lacks the time zone of a budget that is named; what names no such budget goes on."
    }
    # The key was not claimed: where the zone is known, the same command is done.
    strange.execute("UPDATE budget SET zone = 'Europe/Berlin' WHERE budget_id = 'mars'")
    assert told(runner, batch[1]) == ["RESERVED"]


async def test_it_is_shown_until_its_period_is_over(reader: Reader, strange: psycopg.Connection) -> None:
    found = await reader.ask(lambda connection: read.list_budgets(connection, TENANT, limit=10))
    assert not isinstance(found, Refusal)
    assert [state.budget.budget_id for state in found.items] == ["mars", "team"]
    # Yesterday's.
    strange.execute(
        "UPDATE book SET period_start = period_start - interval '1 day', period_end = period_end - interval '1 day'"
        " WHERE budget_id = 'mars'"
    )
    asked = await reader.ask(lambda connection: read.get_budget(connection, TENANT, "mars"))
    assert isinstance(asked, Refusal)
    assert asked.reason is Reason.STORE_UNAVAILABLE
    assert "tzdata" in asked.message
