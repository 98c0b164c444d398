"""The tree under processes that change it at the same moment: no cycle, no stale path, whoever comes first."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from uuid import uuid4

import psycopg
import pytest

from ledger.domain.budget_commands import CloseBudget, MoveBudget, UpdateBudget
from ledger.domain.commands import Command
from ledger.domain.decide import decide
from ledger.engine.batch import Patience, Runner
from ledger.store.database import Database
from ledger.store.load import load
from ledger.store.save import save
from tests.engine.asks import ADMIN, TENANT, begin, budget, release, reserve, told
from tests.watching import until_waiting, violations

PATIENT = Patience(first_pause=0.001, longest_pause=0.02, total=20)
Processes = Callable[[], Runner]


@pytest.fixture
def process(database_url: str) -> Iterator[Processes]:
    """Makes runners, each with connections of its own. In the end every law is asked."""
    with ExitStack() as stack:

        def made() -> Runner:
            database = Database(database_url, pool_size=1)
            stack.callback(database.close)
            return Runner(database, PATIENT)

        yield made
        assert violations(database_url) == []


@contextmanager
def undecided(database_url: str, *commands: Command) -> Iterator[None]:
    """Another process has decided and written the commands, and commits when the block ends."""
    database = Database(database_url, pool_size=1)
    with database.transaction() as connection:
        loaded, _ = load(connection, commands, 0, uuid4)
        decision = decide(loaded, commands)
        assert [outcome.refusal for outcome in decision.outcomes] == [None] * len(commands)
        save(connection, decision, loaded)
        yield
        connection.commit()
    database.close()


def paths(sql: psycopg.Connection) -> dict[str, str]:
    return {path[-1]: "/".join(path) for (path,) in sql.execute("SELECT path FROM budget WHERE tenant = %s", [TENANT])}


def move(budget_id: str, parent_id: str | None) -> MoveBudget:
    return MoveBudget(ADMIN, f"move-{budget_id}-{parent_id}", budget_id, parent_id)


def test_of_a_below_b_and_b_below_a_at_once_one_wins(
    process: Processes, database_url: str, superuser: psycopg.Connection
) -> None:
    told(process(), budget("a", "9"), budget("b", "9"), budget("deep", "9", "a"), budget("other", "9"))
    with ThreadPoolExecutor(2) as pool:
        # Both have begun before either can read the tree.
        with undecided(database_url, move("other", "deep")):
            calls = [pool.submit(told, process(), move(*pair)) for pair in (("a", "b"), ("b", "a"))]
            until_waiting(database_url, *calls, number=2)
        assert sorted(call.result(timeout=10)[0] for call in calls) == ["INVALID_FIELD", "done"]
    found = paths(superuser)
    assert found in (
        {"b": "b", "a": "b/a", "deep": "b/a/deep", "other": "b/a/deep/other"},
        {"a": "a", "b": "a/b", "deep": "a/deep", "other": "a/deep/other"},
    )


def test_what_is_created_below_a_budget_while_it_moves_stands_where_it_went(
    process: Processes, database_url: str, superuser: psycopg.Connection
) -> None:
    told(process(), budget("x", "9"), budget("y", "9"), budget("team", "9", "x"))
    with ThreadPoolExecutor(1) as pool:
        with undecided(database_url, move("x", "y")):
            call = pool.submit(told, process(), budget("key", "9", "team"))
            until_waiting(database_url, call)
        assert call.result(timeout=10) == ["done"]
    assert paths(superuser)["key"] == "y/x/team/key"


def test_what_was_created_below_it_moves_with_it(
    process: Processes, database_url: str, superuser: psycopg.Connection
) -> None:
    told(process(), budget("x", "9"), budget("y", "9"), budget("team", "9", "x"))
    with ThreadPoolExecutor(1) as pool:
        with undecided(database_url, budget("key", "9", "team")):
            call = pool.submit(told, process(), move("x", "y"))
            until_waiting(database_url, call)
        assert call.result(timeout=10) == ["done"]
    assert paths(superuser) == {"y": "y", "x": "y/x", "team": "y/x/team", "key": "y/x/team/key"}


def test_a_reserve_that_waited_for_a_move_takes_the_new_path(
    process: Processes, database_url: str, superuser: psycopg.Connection
) -> None:
    told(process(), budget("x", "9"), budget("y", "5"), budget("key", "9", "x"))
    with ThreadPoolExecutor(1) as pool:
        with undecided(database_url, move("x", "y")):
            # The move has the book of what it moves; the reserve has read the old path, and waits for that book.
            call = pool.submit(told, process(), reserve("op-1", "6", budget_id="key"))
            until_waiting(database_url, call)
        assert call.result(timeout=10) == ["INSUFFICIENT_BUDGET"], "y has 5"
    assert told(process(), reserve("op-2", "5", budget_id="key")) == ["RESERVED"]


def test_a_reserve_that_waited_for_a_close_or_a_cap_sees_it(
    process: Processes, database_url: str, superuser: psycopg.Connection
) -> None:
    told(process(), budget("x", "9"), budget("key", "9", "x"))
    asked: dict[str, Command] = {
        "HOLD_TOO_LARGE": UpdateBudget(ADMIN, "cap", "x", ("max_hold",), max_hold=Decimal(5)),
        "BUDGET_CLOSED": CloseBudget(ADMIN, "close", "x"),
    }
    for number, (reason, command) in enumerate(asked.items()):
        with ThreadPoolExecutor(1) as pool:
            with undecided(database_url, command):
                call = pool.submit(told, process(), reserve(f"op-{number}", "6", budget_id="key"))
                until_waiting(database_url, call)
            assert call.result(timeout=10) == [reason]


def test_a_move_and_a_change_of_what_moves_with_it_are_both_there(
    process: Processes, database_url: str, superuser: psycopg.Connection
) -> None:
    told(process(), budget("x", "9"), budget("y", "9"), budget("key", "9", "x"))
    with ThreadPoolExecutor(1) as pool:
        with undecided(database_url, CloseBudget(ADMIN, "close", "key")):
            # The move does not lock the book of key; it finds its row changed when it writes, and decides again.
            call = pool.submit(told, process(), move("x", "y"))
            until_waiting(database_url, call)
        assert call.result(timeout=10) == ["done"]
    assert paths(superuser)["key"] == "y/x/key"
    assert superuser.execute("SELECT closed_at IS NULL FROM budget WHERE budget_id = 'key'").fetchone() == (False,)


def test_many_processes_move_create_and_reserve(process: Processes, superuser: psycopg.Connection) -> None:
    names = ["a", "b", "c", "d"]
    told(process(), *[budget(name, "1000") for name in names])
    runners = [process() for _ in range(4)]

    def work(number: int) -> list[str]:
        runner, words = runners[number], []
        for turn in range(8):
            mine, other = names[number], names[(number + 1 + turn % 3) % 4]
            key = f"{number}-{turn}"
            words += told(runner, MoveBudget(ADMIN, f"m-{key}", mine, other if turn % 4 else None))
            words += told(runner, budget(f"n-{key}", "1000", other))
            words += told(runner, reserve(f"op-{key}", "1", budget_id=f"n-{key}"))
        return words

    with ThreadPoolExecutor(4) as pool:
        words = {word for answer in pool.map(work, range(4)) for word in answer}
    assert words <= {"done", "RESERVED", "INVALID_FIELD", "NOT_FOUND"}, words
    assert {"done", "RESERVED"} <= words
    assert max(len(path.split("/")) for path in paths(superuser).values()) <= 8


def test_a_batch_in_which_a_reserve_follows_a_move_is_done_in_its_order(
    process: Processes, superuser: psycopg.Connection
) -> None:
    runner = process()
    told(runner, budget("x", "9"), budget("y", "5"), budget("key", "9", "x"))
    batch = (
        move("x", "y"),
        reserve("op-1", "6", budget_id="key"),
        budget("z", "9", "key"),
        reserve("op-2", "4", budget_id="z"),
    )
    assert told(runner, *batch) == ["done", "INSUFFICIENT_BUDGET", "done", "RESERVED"]
    assert paths(superuser)["z"] == "y/x/key/z"
    told(runner, CloseBudget(ADMIN, "close", "x"))
    assert told(runner, begin("op-2")) == ["BUDGET_CLOSED"]
    assert told(runner, release("op-2")) == ["RELEASED"]
