"""Evidence and hold that meet at the same moment, on real connections: neither is missed, and nothing is done twice."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import Connection, text

from ledger.domain.batch import Outcome
from ledger.domain.commands import Command, CreateBudget, FileParked
from ledger.domain.decide import decide
from ledger.domain.filing import filing
from ledger.domain.states import HoldState
from ledger.engine.batch import Runner
from ledger.store.database import Database
from ledger.store.load import load
from ledger.store.read import waited
from ledger.store.save import save
from tests.store import samples as s
from tests.store.samples import ADMIN

DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def budget(database: Database) -> None:
    s.apply(database, [CreateBudget(ADMIN, "k1", "team", None, "USD", "", None)])


@contextmanager
def uncommitted(database: Database, *commands: Command) -> Iterator[tuple[Connection, list[Outcome]]]:
    """A transaction that has done everything but its commit."""
    with database.transaction() as connection:
        loaded, _ = load(connection, commands, 0, uuid4)
        decision = decide(loaded, commands)
        save(connection, decision, loaded)
        yield connection, decision.outcomes


def filings(database: Database, patience: timedelta = DAY) -> list[FileParked]:
    with database.read() as connection:
        return [filing(parked, patience) for parked in waited(connection, patience, 100).ready]


def blocked(database: Database, commands: Sequence[Command], first: Connection) -> list[Outcome]:
    """What the commands come to that must wait for another transaction, which then commits."""
    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(Runner(database).execute, commands)
        s.until_waiting(database, later)
        first.commit()
        return later.result(30)


def hold(database: Database) -> tuple[object, ...]:
    with database.read() as connection:
        return tuple(connection.execute(text("SELECT state, settled, inferred FROM hold")).one())


@pytest.mark.parametrize("sends", [False, True])
@pytest.mark.parametrize("parks_first", [False, True])
def test_a_reserve_and_a_report_that_do_not_see_each_other(database: Database, sends: bool, parks_first: bool) -> None:
    reserve = s.dispatched() if sends else s.reserve()
    with uncommitted(database, s.settle()) as (parking, parked), uncommitted(database, reserve) as (holding, held):
        assert parked[0].parked
        assert held[0].may_send is sends
        for connection in (parking, holding) if parks_first else (holding, parking):
            connection.commit()
    assert hold(database) == ("DISPATCHING" if sends else "RESERVED", None, False)
    # Where the answer was lost, the same request gives no permission past the evidence.
    (again,) = s.apply(database, [reserve])
    assert not again.may_send
    (command,) = filings(database)
    (outcome,) = s.apply(database, [command])
    assert outcome.hold is not None
    assert outcome.hold.state is HoldState.SETTLED
    assert hold(database) == ("SETTLED", 1, not sends)
    assert filings(database) == []
    assert s.column(database, "SELECT classification FROM evidence ORDER BY 1") == ["AUTHORITATIVE", "PARKED"]


def test_one_report_that_two_servers_park_at_once_waits_once(database: Database) -> None:
    with uncommitted(database, s.settle()) as (first, outcomes):
        assert outcomes[0].applied
        again = s.settle()
        other_key = type(again)(again.caller, "another-key", again.operation_id, again.evidence)
        (outcome,) = blocked(database, [other_key], first)
    assert (outcome.refusal, outcome.parked, outcome.applied) == (None, True, False)
    assert s.column(database, "SELECT count(*) FROM parked") == [1]
    assert s.column(database, "SELECT count(*) FROM evidence") == [1]
    assert s.column(database, "SELECT count(*) FROM receipt WHERE command = 'Resolve'") == [2]


def test_of_two_workers_the_second_finds_nothing_to_file(database: Database) -> None:
    s.apply(database, [s.settle()])
    s.apply(database, [s.reserve()])
    (command,) = filings(database)
    with uncommitted(database, command) as (first, outcomes):
        assert outcomes[0].applied
        (outcome,) = blocked(database, [command], first)
    assert (outcome.refusal, outcome.applied) == (None, False)
    assert hold(database) == ("SETTLED", 1, True)
    assert s.column(database, "SELECT count(*) FROM entry WHERE kind = 'SETTLE'") == [1]


def test_what_one_worker_gives_up_no_other_files(database: Database) -> None:
    """The time is over at the very moment at which the hold comes: it is a case, and the hold has an inferred attempt."""
    s.apply(database, [s.settle()])
    (command,) = filings(database, timedelta())
    with uncommitted(database, command) as (first, outcomes):
        assert outcomes[0].incident_id is not None
        (reserved,) = s.apply(database, [s.dispatched()])
        assert not reserved.may_send
        (outcome,) = blocked(database, [command], first)
    assert (outcome.refusal, outcome.applied) == (None, False)
    assert s.column(database, "SELECT kind FROM incident") == ["ORPHAN_EVIDENCE"]
    assert s.column(database, "SELECT classification FROM evidence") == ["PARKED"]
    assert hold(database) == ("DISPATCHING", None, True)


def test_a_case_counts_where_what_waited_counted(database: Database) -> None:
    """A reserve that comes after the case sees that, as one that came before it saw what waited."""
    s.apply(database, [s.settle()])
    s.apply(database, filings(database, timedelta()))
    (reserved,) = s.apply(database, [s.dispatched()])
    assert not reserved.may_send
    assert hold(database) == ("DISPATCHING", None, True)
