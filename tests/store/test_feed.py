"""The order of the feed: nothing turns up late, nothing stands before its cause, whatever runs beside it."""

import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Connection

from ledger.audit.check import check
from ledger.domain.commands import BeginDispatch, Command, CreateBudget, Dispatch, MarkOutcomeUnknown
from ledger.domain.decide import decide
from ledger.domain.document_commands import PutPriceCard
from ledger.engine.faults import Fault, classify
from ledger.store import feed
from ledger.store.database import Database
from ledger.store.load import load
from ledger.store.save import save
from tests.store import samples as s
from tests.store.samples import ADMIN, GATEWAY, T

Sql = psycopg.Connection[tuple[object, ...]]
DISPATCH = Dispatch("nonce-0123456789", timedelta(minutes=15), "pod-7")


@pytest.fixture
def other(database: Database, database_url: str) -> Iterator[Sql]:
    """A connection of somebody else's, on books with a budget whose feed has been read."""
    s.apply(database, [CreateBudget(ADMIN, "k-1", "team", None, "USD", "", None)])
    with psycopg.connect(database_url) as connection:
        yield connection


def transaction_id(connection: Connection) -> int:
    """Gives the transaction its number, as its first lock would."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    # Not prepared: when it rolls back the driver would drop every prepared statement, the engine's too.
    ((number,),) = driver.execute("SELECT pg_current_xact_id()::text::bigint", prepare=False)
    return int(number)


def write(connection: Connection, *commands: Command, clock: timedelta = timedelta(0)) -> None:
    """A batch up to its COMMIT, on a server whose clock is off."""
    loaded, _ = load(connection, commands, 0, uuid4)
    loaded = replace(loaded, now=loaded.now + clock)
    save(connection, decide(loaded, commands), loaded)


def told(database: Database, after: feed.Place | None = None) -> list[tuple[str, str]]:
    """What a reader gets now: operations and their states."""
    with database.read() as connection:
        found = feed.batches(connection, T, after, 1000)
    return [(e["operation_id"], e["to"]) for batch in found for e in batch.events if e["type"] == "HOLD"]


def dispatch(operation: str) -> Command:
    return BeginDispatch(GATEWAY, f"d-{operation}", operation, DISPATCH)


def unknown(operation: str) -> Command:
    return MarkOutcomeUnknown(GATEWAY, f"u-{operation}", operation, "time-out")


def test_what_is_committed_is_told_at_once(database: Database, other: Sql) -> None:
    for number in range(3):
        s.apply(database, [s.reserve(f"op-{number}")])
        assert told(database)[-1] == (f"op-{number}", "RESERVED")
    with database.read() as connection:
        first, *rest = feed.batches(connection, T, None, 2)
        assert [batch.events[0]["type"] for batch in (first, *rest)] == ["BUDGET", "HOLD"]
        again = feed.batches(connection, T, rest[0].place, 1, inclusive=True)
        assert again == rest
        end = feed.newest(connection, T)
        assert end is not None
        assert feed.batches(connection, T, end[0], 10) == []
        assert feed.recorded_at(connection, T, end[0]) == end[1]
        assert feed.recorded_at(connection, T, end[0]._replace(turn=0)) is None
        assert feed.newest(connection, "nobody") is None
        assert feed.batches(connection, "nobody", None, 10) == []


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_nothing_is_told_past_a_transaction_that_may_still_commit(database: Database, other: Sql, end: str) -> None:
    with database.transaction() as slow:
        write(slow, s.reserve("slow"))
        for number in range(3):
            s.apply(database, [card(number)])
        assert told(database) == []
        with database.read() as connection:
            newest = feed.newest(connection, T)
            assert newest is not None
            assert [b.events[0]["type"] for b in feed.batches(connection, T, None, 10)] == ["BUDGET"]
        getattr(slow, end)()
    with database.read() as connection:
        later = feed.batches(connection, T, newest[0], 10)
    cards = [("PRICE_CARD", number + 1) for number in range(3)]
    found = [(e["type"], e["version"]) for batch in later for e in batch.events]
    assert found == ([("HOLD", 1), *cards] if end == "commit" else cards)


def card(number: int) -> Command:
    return PutPriceCard(ADMIN, f"card-{number}", replace(s.card(version=0), model=f"gpt-{number}"))


def test_who_waits_is_told_after_the_one_it_waited_for(database: Database, other: Sql) -> None:
    """The waiting transaction has the lower number: it got it at another lock, and before."""
    s.apply(database, [s.reserve("op-1")])
    with database.transaction() as waiting, database.transaction() as first, ThreadPoolExecutor(1) as pool:
        low = transaction_id(waiting)
        write(first, dispatch("op-1"))
        assert low < transaction_id(first)
        writing = pool.submit(write, waiting, unknown("op-1"))
        s.until_waiting(database, writing)
        first.commit()
        writing.result(10)
        waiting.commit()
    assert told(database) == [("op-1", "RESERVED"), ("op-1", "DISPATCHING"), ("op-1", "OUTCOME_UNKNOWN")]


def test_nor_is_it_told_alone_while_a_third_one_runs(database: Database, other: Sql) -> None:
    """The number of the one that runs on is between theirs: below it is the effect, and not its cause."""
    s.apply(database, [s.reserve("op-1")])
    with database.transaction() as waiting:
        low = transaction_id(waiting)
        (between,) = other.execute("SELECT pg_current_xact_id()::text::bigint").fetchone() or (0,)
        with database.transaction() as first:
            write(first, dispatch("op-1"))
            assert low < int(str(between)) < transaction_id(first)
            first.commit()
        write(waiting, unknown("op-1"))
        waiting.commit()
    assert told(database) == [("op-1", "RESERVED")]
    other.commit()
    assert told(database) == [("op-1", "RESERVED"), ("op-1", "DISPATCHING"), ("op-1", "OUTCOME_UNKNOWN")]


def test_a_clock_that_goes_back_changes_no_order(database: Database, other: Sql) -> None:
    for command, hours in ((s.reserve("op-1"), 0), (dispatch("op-1"), -5), (unknown("op-1"), -9)):
        with database.transaction() as connection:
            write(connection, command, clock=timedelta(hours=hours))
            connection.commit()
    assert told(database) == [("op-1", "RESERVED"), ("op-1", "DISPATCHING"), ("op-1", "OUTCOME_UNKNOWN")]
    with database.read() as connection:
        times = [batch.recorded_at for batch in feed.batches(connection, T, None, 10)]
    assert times != sorted(times)


def test_in_another_cluster_the_order_goes_on(database: Database, other: Sql) -> None:
    """As after a restore from a dump, where numbers begin again far below those of the rows."""
    s.apply(database, [s.reserve("op-1")])
    other.execute("SET session_replication_role = replica")
    other.execute("UPDATE outbox SET cluster = 7, xid = xid + 1000000000, position = position + 1000000000")
    other.commit()
    # Nothing of another cluster runs here.
    assert told(database) == [("op-1", "RESERVED")]
    s.apply(database, [dispatch("op-1")])
    s.apply(database, [unknown("op-1")])
    assert told(database) == [("op-1", "RESERVED"), ("op-1", "DISPATCHING"), ("op-1", "OUTCOME_UNKNOWN")]
    assert s.column(database, "SELECT epoch FROM outbox ORDER BY xid") == [2, 2, 1, 1]


def test_what_a_place_is_made_of_is_open_to_every_role(other: Sql) -> None:
    other.execute("CREATE ROLE nobody_special")
    other.execute("SET ROLE nobody_special")
    assert other.execute("SELECT system_identifier IS NOT NULL FROM pg_control_system()").fetchone() == (True,)
    other.rollback()


def drive(database: Database) -> None:
    """Holds from their reserve until they are unknown, six names per round; other writers drive the same."""
    for turn in range(25):
        names = [f"op-{turn}-{k}" for k in random.sample(range(6), 3)]
        for make in (s.reserve, dispatch, unknown):
            try:
                with database.transaction() as connection:
                    if random.random() < 0.5:
                        transaction_id(connection)
                        time.sleep(random.uniform(0, 0.01))
                    write(connection, *(make(name) for name in names))
                    time.sleep(random.uniform(0, 0.004))
                    connection.commit()
            except Exception as error:
                # Two made the same hold at a time.
                assert classify(error) in {Fault.TAKEN, Fault.CONTENTION}  # noqa: PT017 - most do not fail


def follow(database: Database, stop: threading.Event) -> list[feed.Batch]:
    """Reads on from where it was, until the writers have stopped and the end is reached."""
    seen: list[feed.Batch] = []
    while True:
        last = stop.is_set()
        with database.read() as connection:
            more = feed.batches(connection, T, seen[-1].place if seen else None, 5)
        seen += more
        if last and not more:
            return seen


def test_a_reader_beside_many_writers_misses_nothing(database: Database, database_url: str, other: Sql) -> None:
    own = [Database(database_url, pool_size=1) for _ in range(4)]
    stop = threading.Event()
    with ThreadPoolExecutor(len(own) + 1) as pool:
        following = pool.submit(follow, database, stop)
        driving = [pool.submit(drive, one) for one in own]
        wait(driving, 60)
        stop.set()
        for done in driving:
            done.result(0)
        seen = following.result(30)
    for one in own:
        one.close()
    assert [batch.place for batch in seen] == sorted(batch.place for batch in seen)
    versions: dict[str, list[int]] = defaultdict(list)
    for event in (event for batch in seen for event in batch.events if event["type"] == "HOLD"):
        versions[event["operation_id"]].append(event["version"])
    rows = [s.column(database, f"SELECT {c} FROM hold ORDER BY operation_id") for c in ("operation_id", "version")]
    assert versions == {name: list(range(1, version + 1)) for name, version in zip(*rows, strict=True)}
    assert len(versions) > 50
    # The rows themselves say the same.
    assert [r for r in check(database) if r.violations and r.law.startswith("8")] == []
