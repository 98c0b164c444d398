"""How many statements a batch costs does not depend on how many commands it has."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from sqlalchemy import event

from ledger.domain.attempt_commands import (
    Cancel,
    Heartbeat,
    RecordDelivery,
    RecordFailedBeforeDispatch,
    RecordReceipt,
)
from ledger.domain.commands import BeginDispatch, Command, CreateBudget, Dispatch, MarkOutcomeUnknown, Release
from ledger.domain.filing import filing
from ledger.domain.model import Delivery
from ledger.domain.periods import PeriodKind, Rollover, RolloverKind, Schedule
from ledger.store import lookups
from ledger.store.arrays import Array
from ledger.store.database import Database
from ledger.store.pipeline import Answer, Pipeline
from ledger.store.read import waited
from ledger.store.statements import Statement
from tests.store import samples as s
from tests.store.samples import ADMIN, GATEWAY


class Recorder:
    """Every statement that goes out in a pipeline, through psycopg or SQLAlchemy."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.many = 0

    def cursor_class(self) -> type[psycopg.Cursor[Any]]:
        recorder = self

        class Counting(psycopg.Cursor[Any]):
            def execute(self, query: Any, *args: Any, **kwargs: Any) -> Any:
                recorder.statements.append(query)
                return super().execute(query, *args, **kwargs)

            def executemany(self, *args: Any, **kwargs: Any) -> None:
                recorder.many += 1
                super().executemany(*args, **kwargs)

        return Counting

    def pipelines(self) -> Callable[[Pipeline, Statement, Sequence[Array]], Answer]:
        run = Pipeline.run

        def counting(pipeline: Pipeline, statement: Statement, arrays: Sequence[Array] = ()) -> Answer:
            self.statements.append(statement.sql)
            return run(pipeline, statement, arrays)

        return counting


@pytest.fixture
def recorder(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    recorder = Recorder()
    monkeypatch.setattr(Pipeline, "run", recorder.pipelines())

    @event.listens_for(database.engine, "checkout")
    def count(connection: Any, *_: Any) -> None:
        connection.cursor_factory = recorder.cursor_class()

    @event.listens_for(database.engine, "before_cursor_execute")
    def seen(_c: Any, _cursor: Any, _statement: Any, _parameters: Any, _context: Any, executemany: bool) -> None:
        recorder.many += executemany

    yield recorder
    assert recorder.many == 0


def budgets(database: Database) -> None:
    s.apply(database, [CreateBudget(ADMIN, "k1", "org", None, "USD", "", None)])
    s.apply(database, [CreateBudget(ADMIN, "k2", "team", "org", "USD", "", None)])


def cost(database: Database, recorder: Recorder, commands: list[Command]) -> int:
    recorder.statements.clear()
    outcomes = s.apply(database, commands)
    assert [o.refusal for o in outcomes] == [None] * len(commands)
    return len(recorder.statements)


def commands(kind: str, ids: list[str]) -> list[Command]:
    match kind:
        case "reserve":
            return [s.reserve(i, exclusive_key=i) for i in ids]
        case "dispatch":
            dispatch = Dispatch("nonce-0123456789", timedelta(minutes=1), "pod")
            return [BeginDispatch(GATEWAY, f"d{i}", i, dispatch) for i in ids]
        case "unknown":
            return [MarkOutcomeUnknown(GATEWAY, f"u{i}", i, "time-out") for i in ids]
        case "witness":
            return [replace(s.settle(i, "0.5"), key=f"w{i}") for i in ids]
        case _:
            return [s.settle(i, "0.5") for i in ids]


# Statements by hand: the load looks up holds, receipts and the clock; and what else the kind needs (see each line). The save
# writes the kinds of rows that follow. Begin and commit are not counted.
COSTS = {
    # budgets, books, whether a budget changed, exclusive keys, signs; holds, books, entries, postings, receipts, events
    "reserve": (3 + 5, 6),
    "dispatch": (3 + 2, 3),  # closed budgets, signs; holds, receipts, events
    "unknown": (3 + 1, 7),  # books; holds, books, entries, postings, receipts, observations, events
    "settle": (3 + 2, 8),  # books, policies; the six, evidence, resolutions
    "again": (3 + 3, 0),  # books, facts, policies; the key has done its work
    "witness": (3 + 3, 2),  # books, facts, policies; receipts, evidence
}
# The same for attempts, each on holds that were born DISPATCHING.
COSTS_OF_ATTEMPTS = {
    "heartbeat": (3, 2),  # holds, events
    "failed": (3, 4),  # holds, receipts, observations, events
    "retry": (3 + 2, 3),  # closed budgets, signs; holds, receipts, events
    "failed twice": (3, 4),
    "third": (3 + 3, 3),  # as retry, and the nonces of both that failed
    "receipt": (3 + 1, 4),  # who has it; holds, receipts, observations, events
    "delivery": (3, 3),  # receipts, observations, events
    "cancel": (3 + 2, 7),  # as unknown, and signs
}


def test_constant_number_of_statements(database: Database, recorder: Recorder) -> None:
    budgets(database)
    few, many = ["one"], [f"op-{i:03}" for i in range(500)]
    # The first settlement opens the stripe of the financial book, the second learns that it is there.
    for warm in ("a", "b"):
        s.apply(database, [s.dispatched(warm)])
        s.apply(database, [s.settle(warm)])
    for kind, (loads, saves) in COSTS.items():
        assert cost(database, recorder, commands(kind, few)) == loads + saves, kind
        assert cost(database, recorder, commands(kind, many)) == loads + saves, kind


def test_constant_number_of_statements_for_attempts(database: Database, recorder: Recorder) -> None:
    budgets(database)
    few, many = ["one"], [f"op-{i:03}" for i in range(500)]
    s.apply(database, [s.dispatched(i) for i in few + many])
    for kind, (loads, saves) in COSTS_OF_ATTEMPTS.items():
        assert cost(database, recorder, on_attempts(kind, few)) == loads + saves, kind
        assert cost(database, recorder, on_attempts(kind, many)) == loads + saves, kind


def on_attempts(kind: str, ids: list[str]) -> list[Command]:
    match kind:
        case "heartbeat":
            return [Heartbeat(GATEWAY, i, i, "nonce-0123456789", timedelta(minutes=16)) for i in ids]
        case "failed":
            return [RecordFailedBeforeDispatch(GATEWAY, i, i, "nonce-0123456789", "DNS_FAILURE", "", "") for i in ids]
        case "retry":
            return [
                BeginDispatch(GATEWAY, i, i, Dispatch("nonce-x-123456789", timedelta(minutes=1), "pod")) for i in ids
            ]
        case "failed twice":
            return [
                RecordFailedBeforeDispatch(GATEWAY, f"{i}-2", i, "nonce-x-123456789", "DNS_FAILURE", "", "")
                for i in ids
            ]
        case "third":
            third = Dispatch("nonce-y-123456789", timedelta(minutes=1), "pod")
            return [BeginDispatch(GATEWAY, f"{i}-3", i, third) for i in ids]
        case "receipt":
            return [RecordReceipt(GATEWAY, i, i, "stripe", f"rcpt-{i}") for i in ids]
        case "delivery":
            return [RecordDelivery(GATEWAY, i, i, Delivery.COMPLETE) for i in ids]
        case _:
            return [Cancel(GATEWAY, i, i, "left") for i in ids]


def test_corrections_and_what_they_superseded(database: Database, recorder: Recorder) -> None:
    budgets(database)
    few, many = ["one"], [f"op-{i:03}" for i in range(200)]
    for ids in (["a"], ["b"], few, many):
        s.apply(database, [s.dispatched(i) for i in ids])
        s.apply(database, [s.settle(i, "0.5") for i in ids])
    for ids in (few, many):
        loaded = s.read(database, [s.settle(i) for i in ids])
        corrections: list[Command] = [s.correct(loaded.holds[(s.T, i)], "0.25") for i in ids]
        # holds, books, receipts, facts, revisions, policies, clock; the eight of a settlement.
        assert cost(database, recorder, corrections) == 7 + 8
        # The key of what was superseded: the same, without anything to save.
        assert cost(database, recorder, [s.settle(i, "0.5") for i in ids]) == 7


def test_a_period_that_a_hold_outlived_costs_no_statement_more(database: Database, recorder: Recorder) -> None:
    seconds = Schedule(PeriodKind.FIXED, anchor=datetime(2026, 1, 1, tzinfo=UTC), length=timedelta(seconds=1))
    all_of_it = Rollover(RolloverKind.ALL)
    s.apply(
        database,
        [CreateBudget(ADMIN, "k", "team", None, "USD", "", Decimal(9999), schedule=seconds, rollover=all_of_it)],
    )
    ids = [f"op-{i:03}" for i in range(500)]
    s.apply(database, [s.dispatched(i) for i in ("warm-1", "warm-2", "one", *ids)])
    time.sleep(1.1)
    s.apply(database, [s.reserve("next")])
    # The first is told by the locked books which are closed, and opens a stripe; the second learns that it is there.
    for warm in ("warm-1", "warm-2"):
        s.apply(database, [s.settle(warm)])
    for few_or_many in (["one"], ids):
        assert cost(database, recorder, commands("settle", few_or_many)) == sum(COSTS["settle"])


def hourly(database: Database, limit: int = 9999) -> Callable[[], None]:
    """Makes the budget 'team', of periods of an hour; gives what waits for the end of the first, which is near."""
    ends = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
    hours = Schedule(PeriodKind.FIXED, anchor=ends, length=timedelta(hours=1))
    made = CreateBudget(
        ADMIN, "k", "team", None, "USD", "", Decimal(limit), schedule=hours, rollover=Rollover(RolloverKind.ALL)
    )
    s.apply(database, [made])

    def wait() -> None:
        time.sleep(max(0.0, (ends - datetime.now(UTC)).total_seconds()) + 0.05)

    return wait


def test_who_opened_a_period_looks_its_book_up_once(database: Database, recorder: Recorder) -> None:
    wait = hourly(database)
    s.apply(database, [s.reserve("old")])
    wait()
    s.apply(database, [s.reserve("opens")])
    # One statement more than other reserves, and no turn that ends at a closed book.
    assert cost(database, recorder, [s.reserve("next", exclusive_key="x")]) == sum(COSTS["reserve"]) + 1
    assert cost(database, recorder, [s.reserve("later", exclusive_key="y")]) == sum(COSTS["reserve"])


def test_the_end_of_a_period_costs_another_process_one_turn_more(
    database: Database, database_url: str, recorder: Recorder
) -> None:
    wait = hourly(database)
    s.apply(database, [s.dispatched(name) for name in ("a", "b")])
    wait()
    other = Database(database_url)
    s.apply(other, [s.reserve("opens")])
    other.close()
    # Its book is closed, and so is the one that this process took for the newest.
    recorder.statements.clear()
    assert [outcome.refusal for outcome in s.apply(database, [s.settle("a")])] == [None]
    assert recorder.statements.count(lookups.LOCK_HOLDS.sql) == 2
    recorder.statements.clear()
    s.apply(database, [s.settle("b"), s.reserve("new")])
    assert recorder.statements.count(lookups.LOCK_HOLDS.sql) == 1


def test_kinds_in_one_batch_share_their_statements(database: Database, recorder: Recorder) -> None:
    budgets(database)
    s.apply(database, [s.dispatched("a"), s.dispatched("b"), s.reserve("c")])
    s.apply(database, [s.settle("a")])
    mixed: list[Command] = [s.settle("b"), Release(GATEWAY, "r", "c"), s.reserve("d"), s.dispatched("e")]
    # holds, budgets, opened books, books, whether a budget changed, receipts, policies, signs, clock; new and changed holds, books,
    # entries, postings, receipts, evidence, resolutions, events
    assert cost(database, recorder, mixed) == 9 + 9


def test_what_is_parked_is_filed_with_as_many_statements(database: Database, recorder: Recorder) -> None:
    budgets(database)
    for warm in ("a", "b"):
        s.apply(database, [s.dispatched(warm)])
        s.apply(database, [s.settle(warm)])
    for ids in (["one"], [f"op-{i:03}" for i in range(500)]):
        # holds, receipts, signs, cases of the same reports, what waits, clock; receipts, evidence, parked
        assert cost(database, recorder, [s.settle(i) for i in ids]) == 6 + 3
        s.apply(database, [s.reserve(i) for i in ids])
        with database.read() as connection:
            ready = waited(connection, timedelta(days=1), 1000).ready
        assert len(ready) == len(ids)
        # holds, books, receipts, facts, policies, parked, clock; holds, books, entries, postings, receipts, evidence, resolutions,
        # unparked, events
        assert cost(database, recorder, [filing(parked, timedelta(days=1)) for parked in ready]) == 7 + 9
        assert s.column(database, "SELECT count(*) FROM parked") == [0]
