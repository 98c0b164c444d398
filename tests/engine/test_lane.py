"""Deadlines, cancellation, the bound of the queue, and the end: a batch that has begun is never stopped."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import psycopg
import pytest

from ledger.domain.batch import Outcome
from ledger.domain.commands import Command
from ledger.engine.batch import Runner
from ledger.engine.lane import Engine, EngineOptions
from ledger.store.database import Database
from tests.engine.asks import begin, release, reserve, resolve, unknown
from tests.watching import waiting


@asynccontextmanager
async def running(database: Database, **options: int) -> AsyncIterator[Engine]:
    engine = Engine(database, EngineOptions(**options))
    engine.start()
    yield engine
    assert await engine.stop(10)


@contextmanager
def stalled(superuser: psycopg.Connection) -> Iterator[None]:
    """The books are locked: a batch begins, and waits."""
    with superuser.transaction():
        superuser.execute("SELECT 1 FROM book FOR UPDATE")
        yield


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to pass")


def word(outcome: Outcome) -> str:
    if outcome.refusal is not None:
        return outcome.refusal.reason.value
    assert outcome.hold is not None
    return outcome.hold.state.value


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(test(), 30)

    asyncio.run(bounded())


def count(superuser: psycopg.Connection, table: str) -> int:
    row = superuser.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("lanes", [1, 2, 3])
def test_the_steps_of_a_hold_are_done_in_their_order(database: Database, runner: Runner, lanes: int) -> None:
    async def test() -> None:
        async with running(database, lanes=lanes, batch_limit=7) as engine:
            lives = [
                command
                for i in range(20)
                for command in (reserve(f"o{i}", "1"), begin(f"o{i}"), unknown(f"o{i}"), resolve(f"o{i}", "0.5"))
            ]
            outcomes = await engine.submit(lives)
            assert [word(o) for o in outcomes] == ["RESERVED", "DISPATCHING", "OUTCOME_UNKNOWN", "SETTLED"] * 20

    run(test)


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_hot_budget_is_never_over(
    database: Database, runner: Runner, superuser: psycopg.Connection, lanes: int
) -> None:
    async def test() -> None:
        async with running(database, lanes=lanes, batch_limit=9) as engine:
            outcomes = await asyncio.gather(*(engine.submit_one(reserve(f"o{i}", "0.9")) for i in range(200)))
            words = [word(o) for o in outcomes]
            # 111 times 0.9 is 99.9 of the 100.
            assert (words.count("RESERVED"), words.count("INSUFFICIENT_BUDGET")) == (111, 89)
            assert superuser.execute("SELECT available::text, held::text FROM book").fetchone() == (
                "0.100000000000000000",
                "99.900000000000000000",
            )

    run(test)


def test_one_key_from_many_callers_at_once_is_done_once(
    database: Database, runner: Runner, superuser: psycopg.Connection
) -> None:
    async def test() -> None:
        async with running(database, lanes=2, batch_limit=4) as engine:
            outcomes = await asyncio.gather(*(engine.submit_one(reserve("o", "1", dispatch=True)) for _ in range(25)))
            assert sum(not o.replayed for o in outcomes) == 1
            assert {word(o) for o in outcomes} == {"DISPATCHING"}
            assert count(superuser, "entry") == 2

    run(test)


def test_what_is_too_late_is_dropped_before_it_begins(
    database: Database, runner: Runner, superuser: psycopg.Connection
) -> None:
    async def test() -> None:
        async with running(database) as engine:
            with stalled(superuser):
                first = asyncio.create_task(engine.submit_one(reserve("first", "1"), 0.5))
                await until(lambda: waiting(superuser) > 0)
                late = asyncio.create_task(engine.submit_one(reserve("late", "1"), 0.05))
                patient = asyncio.create_task(engine.submit_one(reserve("patient", "1"), 30))
                await asyncio.sleep(0.6)
            # The first had begun in time, and its deadline does not matter any more.
            assert [word(await task) for task in (first, late, patient)] == ["RESERVED", "DEADLINE_PASSED", "RESERVED"]
            assert count(superuser, "hold") == 2
            # Nothing was claimed by the late one.
            assert word(await engine.submit_one(reserve("late", "1"))) == "RESERVED"

    run(test)


def test_a_cancelled_caller_stops_nothing_that_began(
    database: Database, runner: Runner, superuser: psycopg.Connection
) -> None:
    async def test() -> None:
        async with running(database) as engine:
            with stalled(superuser):
                begun = asyncio.create_task(engine.submit_one(reserve("begun", "1")))
                await until(lambda: waiting(superuser) > 0)
                queued = asyncio.create_task(engine.submit_one(reserve("queued", "1")))
                await until(lambda: engine.waiting == 1)
                begun.cancel()
                queued.cancel()
                for task in (begun, queued):
                    with pytest.raises(asyncio.CancelledError):
                        await task
            assert word(await engine.submit_one(reserve("after", "1"))) == "RESERVED"
            names = superuser.execute("SELECT operation_id FROM hold ORDER BY 1").fetchall()
            assert names == [("after",), ("begun",)]
            # The key finds out what became of it.
            assert (await engine.submit_one(reserve("begun", "1"))).replayed

    run(test)


def test_a_full_queue_is_throttled_and_does_nothing(
    database: Database, runner: Runner, superuser: psycopg.Connection
) -> None:
    async def test() -> None:
        async with running(database, queue_limit=3) as engine:
            with stalled(superuser):
                first = asyncio.create_task(engine.submit_one(reserve("first", "1")))
                await until(lambda: waiting(superuser) > 0)
                queued = asyncio.create_task(engine.submit([reserve(f"q{i}", "1") for i in range(3)]))
                await until(lambda: engine.waiting == 3)
                assert word(await engine.submit_one(reserve("one too many", "1"))) == "THROTTLED"
            assert word(await first) == "RESERVED"
            assert [word(o) for o in await queued] == ["RESERVED"] * 3
            assert word(await engine.submit_one(reserve("later", "1"))) == "RESERVED"
            assert count(superuser, "hold") == 5

    run(test)


def test_stopping_does_what_was_taken_in_and_takes_nothing_more(
    database: Database, runner: Runner, superuser: psycopg.Connection
) -> None:
    async def test() -> None:
        async with running(database) as engine:
            with stalled(superuser):
                calls = [asyncio.create_task(engine.submit_one(reserve(f"o{i}", "1"))) for i in range(3)]
                await until(lambda: waiting(superuser) > 0)
                stopping = asyncio.create_task(engine.stop(10))
                await asyncio.sleep(0.05)
                assert word(await engine.submit_one(release("o1"))) == "STORE_UNAVAILABLE"
                assert not stopping.done()
            assert await stopping
            assert [word(await call) for call in calls] == ["RESERVED"] * 3

    run(test)


def test_stopping_is_bounded(database: Database, runner: Runner, superuser: psycopg.Connection) -> None:
    async def test() -> None:
        async with running(database) as engine:
            with stalled(superuser):
                call = asyncio.create_task(engine.submit_one(reserve("o", "1")))
                await until(lambda: waiting(superuser) > 0)
                assert not await engine.stop(0.05)
            assert word(await call) == "RESERVED"

    run(test)


def test_a_lane_outlives_a_fault_of_its_own(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_runner: Runner, _commands: Sequence[Command]) -> list[Outcome]:
        raise RuntimeError("a fault that nobody thought of")

    async def test() -> None:
        async with running(database) as engine:
            with monkeypatch.context() as broken:
                broken.setattr(Runner, "execute", fail)
                # What went wrong is not known, so it is not called failed.
                assert word(await engine.submit_one(reserve("a", "1"))) == "UNKNOWN_WRITE_OUTCOME"
            assert word(await engine.submit_one(reserve("a", "1"))) == "RESERVED"

    run(test)
    assert caplog.messages == ["a batch of 1 commands was given up"]
