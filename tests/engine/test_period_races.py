"""Periods that end while several processes are at work: one opens the next, nobody passes a limit, nothing is lost.

The boundary is one that is about to come: a FIXED period of an hour, anchored at the next full second.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from ledger.domain.budget_commands import UpdateBudget
from ledger.domain.commands import CreateBudget
from ledger.domain.periods import PeriodKind, Rollover, RolloverKind, Schedule
from tests.engine.asks import ADMIN, TENANT, begin, release, reserve, resolve, told
from tests.engine.test_tree_races import Processes, process, undecided
from tests.watching import until_waiting

__all__ = ["process"]

ALL = Rollover(RolloverKind.ALL)


@dataclass
class Boundary:
    """The end of the running period."""

    at: datetime
    sql: psycopg.Connection[Any]

    def budget(self, limit: str, rollover: Rollover = ALL) -> CreateBudget:
        hours = Schedule(PeriodKind.FIXED, anchor=self.at, length=timedelta(hours=1))
        return CreateBudget(ADMIN, "create", "team", None, "USD", "", Decimal(limit), schedule=hours, rollover=rollover)

    def wait(self) -> None:
        while self.sql.execute("SELECT clock_timestamp() < %s", [self.at]).fetchone() == (True,):
            time.sleep(0.02)

    def books(self) -> list[tuple[Any, ...]]:
        """closed, authority, available, held, spent of each period, in their order."""
        columns = ("authority", "available", "held", "spent")
        trimmed = ", ".join(f"trim_scale({column})::float" for column in columns)
        query = f"SELECT closed, {trimmed} FROM book WHERE tenant = %s AND budget_id = 'team' ORDER BY book_id"
        return self.sql.execute(query.encode(), [TENANT]).fetchall()


@pytest.fixture
def boundary(superuser: psycopg.Connection) -> Boundary:
    row = superuser.execute("SELECT date_trunc('second', clock_timestamp()) + interval '2 s'").fetchone()
    assert row is not None
    return Boundary(row[0].astimezone(UTC), superuser)


@pytest.mark.parametrize(("limit", "amount", "accepted"), [("1.00", "0.90", 1), ("0.000000001", "1", 0)])
def test_eight_first_holds_of_a_period_at_once(
    process: Processes, boundary: Boundary, limit: str, amount: str, accepted: int
) -> None:
    told(process(), boundary.budget(limit, Rollover()))
    runners = [process() for _ in range(8)]
    boundary.wait()
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(told, runner, reserve(f"op-{i}", amount)) for i, runner in enumerate(runners)]
        said = [call.result(timeout=20)[0] for call in calls]
    assert said.count("RESERVED") == accepted
    assert said.count("INSUFFICIENT_BUDGET") == 8 - accepted
    held = accepted * float(amount)
    whole = float(limit)
    assert boundary.books() == [(True, whole, whole, 0, 0), (False, whole, pytest.approx(whole - held), held, 0)]


def test_a_hold_that_outlives_its_period_is_settled_in_it(process: Processes, boundary: Boundary) -> None:
    gateway, other = process(), process()
    told(gateway, boundary.budget("10"))
    states = ["DISPATCHING"] * 3 + ["RESERVED"] * 2
    assert told(gateway, *(reserve(f"op-{i}", "2", dispatch=i < 3) for i in range(5))) == states
    boundary.wait()
    # The period is over, and no later one is open: what is settled now is still carried over when that is opened.
    assert told(gateway, resolve("op-0", "1")) == ["SETTLED"]
    assert boundary.books() == [(False, 10, 1, 8, 1)]
    assert told(gateway, reserve("new", "3")) == ["RESERVED"]
    assert boundary.books() == [(True, 9, 0, 8, 1), (False, 11, 8, 3, 0)]
    # A process that has not heard of it finds out, the one that opened it too.
    assert told(other, resolve("op-1", "0.5")) == ["SETTLED"]
    assert told(gateway, release("op-3")) == ["RELEASED"]
    assert boundary.books() == [(True, 5.5, 0, 4, 1.5), (False, 14.5, 11.5, 3, 0)]
    assert told(other, begin("op-4"), release("new")) == ["DISPATCHING", "RELEASED"]
    assert told(gateway, resolve("op-4", "2"), resolve("op-2", "2")) == ["SETTLED"] * 2
    assert boundary.books() == [(True, 5.5, 0, 0, 5.5), (False, 14.5, 14.5, 0, 0)]


def test_a_settlement_that_waits_while_the_period_is_closed_is_carried_on(
    process: Processes, database_url: str, boundary: Boundary
) -> None:
    told(process(), boundary.budget("10"))
    told(process(), reserve("op-1", "4", dispatch=True))
    boundary.wait()
    with ThreadPoolExecutor(1) as pool:
        with undecided(database_url, reserve("new", "1")):
            call = pool.submit(told, process(), resolve("op-1", "1"))
            until_waiting(database_url, call)
        assert call.result(timeout=10) == ["SETTLED"]
    assert boundary.books() == [(True, 1, 0, 0, 1), (False, 19, 18, 1, 0)]


def test_a_period_is_opened_with_the_limit_that_was_set_while_it_was_waited_for(
    process: Processes, database_url: str, boundary: Boundary
) -> None:
    told(process(), boundary.budget("10", Rollover()))
    with ThreadPoolExecutor(1) as pool:
        with undecided(database_url, UpdateBudget(ADMIN, "lower", "team", ("limit",), limit=Decimal(5))):
            call = pool.submit(told, process(), reserve("op-1", "6"))
            until_waiting(database_url, call)
            boundary.wait()
        assert call.result(timeout=10) == ["INSUFFICIENT_BUDGET"]
    assert told(process(), reserve("op-2", "5")) == ["RESERVED"]
    assert boundary.books() == [(True, 5, 5, 0, 0), (False, 5, 0, 5, 0)]
