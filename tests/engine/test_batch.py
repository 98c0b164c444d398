"""What becomes of a batch when the database, or one of its commands, does not do as it should."""

import socket
import threading
import time
from dataclasses import replace

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from ledger.engine.apply import TookTooLong, apply
from ledger.engine.batch import Patience, Runner
from ledger.engine.faults import Fault, classify
from ledger.store import database as database_module
from ledger.store.database import Database
from tests.engine.asks import begin, budget, release, reserve, resolve, told, unknown
from tests.engine.proxy import Proxy


def holds(superuser: psycopg.Connection) -> list[tuple[str, str]]:
    return superuser.execute("SELECT operation_id, state FROM hold ORDER BY 1").fetchall()


def on_each_new_hold(superuser: psycopg.Connection, body: str) -> None:
    """Plants a fault in the database itself. `faults` counts and is not undone with the transaction."""
    superuser.execute("CREATE SEQUENCE faults")
    superuser.execute(f"CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NEW; END $$")
    superuser.execute("CREATE TRIGGER zz_fault BEFORE INSERT ON hold FOR EACH ROW EXECUTE FUNCTION fault()")


def test_the_life_of_a_hold(runner: Runner) -> None:
    assert told(runner, reserve("a", "10"), reserve("b", "95"), reserve("c", "5")) == [
        "RESERVED",
        "INSUFFICIENT_BUDGET",
        "RESERVED",
    ]
    assert told(runner, begin("a"), release("c")) == ["DISPATCHING", "RELEASED"]
    assert told(runner, unknown("a")) == ["OUTCOME_UNKNOWN"]
    assert told(runner, release("a")) == ["HOLD_STATE"]
    assert told(runner, resolve("a", "9.5")) == ["SETTLED"]
    again = runner.execute([resolve("a", "9.5", key="another")])[0]
    assert again.replayed
    assert told(runner, resolve("a", "9.6", key="third")) == ["RESOLUTION_CONFLICT"]


def test_one_poisonous_command_stands_alone(runner: Runner, superuser: psycopg.Connection) -> None:
    on_each_new_hold(superuser, "IF NEW.operation_id = 'p6' THEN RAISE EXCEPTION 'secret text'; END IF;")
    words = told(runner, *(reserve(f"p{i}", "1") for i in range(10)))
    assert words == ["RESERVED"] * 6 + ["INTERNAL"] + ["RESERVED"] * 3
    assert len(holds(superuser)) == 9
    refusal = runner.execute([reserve("p6", "1")])[0].refusal
    assert refusal is not None
    assert "secret" not in refusal.message
    # The key was never claimed: when the fault is gone, the same command is done.
    superuser.execute("DROP TRIGGER zz_fault ON hold")
    assert told(runner, reserve("p6", "1")) == ["RESERVED"]


def test_a_unique_violation_is_tried_again_and_becomes_the_answer(database: Database, runner: Runner) -> None:
    """Two processes with one key at one time: the second finds the row of the first when it is tried again."""
    other = Runner(database)
    for i in range(10):
        outcomes: list[list[str]] = []
        start = threading.Barrier(2)

        def go(who: Runner, i: int = i, start: threading.Barrier = start, into: list[list[str]] = outcomes) -> None:
            start.wait()
            into.append(told(who, reserve(f"u{i}", "1"), reserve(f"v{i}", "1")))

        threads = [threading.Thread(target=go, args=(who,)) for who in (runner, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes == [["RESERVED", "RESERVED"]] * 2


def test_a_key_that_is_taken_more_than_once_is_no_fault_of_the_server(
    runner: Runner, superuser: psycopg.Connection
) -> None:
    """Several put versions of one card at once: each time that one is tried again, another may have been faster."""
    on_each_new_hold(
        superuser, "IF nextval('faults') <= 4 THEN RAISE EXCEPTION 'x' USING ERRCODE = 'unique_violation'; END IF;"
    )
    assert told(runner, reserve("a", "1"), reserve("b", "1")) == ["RESERVED", "RESERVED"]


def test_an_exclusive_key_has_one_open_hold_in_a_batch_and_between_processes(
    database: Database, runner: Runner
) -> None:
    """The index of open holds refuses the second process; tried again alone, it finds who has the key."""
    other = Runner(database)
    assert told(runner, *(replace(reserve(f"x{i}", "1"), exclusive_key="order") for i in range(3))) == [
        "RESERVED",
        "EXCLUSIVE_HOLD",
        "EXCLUSIVE_HOLD",
    ]
    for i in range(10):
        outcomes: list[list[str]] = []
        start = threading.Barrier(2)

        def go(who: Runner, name: str, start: threading.Barrier = start, into: list[list[str]] = outcomes) -> None:
            start.wait()
            into.append(told(who, replace(reserve(name, "1"), exclusive_key=f"order-{name[1:]}")))

        threads = [threading.Thread(target=go, args=(who, f"{k}{i}")) for who, k in ((runner, "y"), (other, "z"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == [["EXCLUSIVE_HOLD"], ["RESERVED"]]


def test_a_key_that_others_take_again_and_again_is_contention(runner: Runner, superuser: psycopg.Connection) -> None:
    """As when many processes put a version of one price card: each time another one is first."""
    on_each_new_hold(
        superuser, "IF nextval('faults') <= 5 THEN RAISE EXCEPTION 'x' USING ERRCODE = 'unique_violation'; END IF;"
    )
    assert told(runner, reserve("a", "1")) == ["RESERVED"]
    superuser.execute("ALTER SEQUENCE faults RESTART START -1000 MINVALUE -1000")
    assert told(runner, reserve("b", "1")) == ["CONTENTION"]
    assert holds(superuser) == [("a", "RESERVED")]


def test_a_deadlock_is_tried_again(runner: Runner, superuser: psycopg.Connection) -> None:
    on_each_new_hold(
        superuser, "IF nextval('faults') <= 2 THEN RAISE EXCEPTION 'x' USING ERRCODE = 'deadlock_detected'; END IF;"
    )
    assert told(runner, reserve("a", "1"), reserve("b", "1")) == ["RESERVED", "RESERVED"]


def test_too_much_contention_is_told_as_that_and_leaves_nothing(runner: Runner, superuser: psycopg.Connection) -> None:
    on_each_new_hold(superuser, "RAISE EXCEPTION 'x' USING ERRCODE = 'serialization_failure';")
    assert told(runner, reserve("a", "1"), reserve("b", "1")) == ["CONTENTION", "CONTENTION"]
    assert holds(superuser) == []


def test_a_lock_that_others_keep_is_contention(
    database_url: str, runner: Runner, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(database_module.WRITE_SETTINGS, "lock_timeout", "30ms")
    impatient = Database(database_url)
    quick = Runner(impatient, Patience(contention_tries=3, first_pause=0.001))
    with superuser.transaction():
        superuser.execute("SELECT 1 FROM book FOR UPDATE")
        assert told(quick, reserve("a", "1")) == ["CONTENTION"]
    assert told(quick, reserve("a", "1")) == ["RESERVED"]
    impatient.close()


def test_a_process_that_stands_still_within_a_transaction_loses_its_locks_before_others_give_up(
    database_url: str, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = "SELECT setting::int FROM pg_settings WHERE name = :name"
    with Database(database_url).transaction() as connection:
        idle, lock = (
            connection.execute(text(waits), {"name": name}).scalar_one()
            for name in ("idle_in_transaction_session_timeout", "lock_timeout")
        )
    assert idle <= lock / 2
    monkeypatch.setitem(database_module.WRITE_SETTINGS, "idle_in_transaction_session_timeout", "300ms")
    still = Database(database_url)
    with still.transaction() as connection:
        connection.execute(text("SELECT 1 FROM book FOR UPDATE"))
        assert told(runner, reserve("a", "1")) == ["RESERVED"]
        with pytest.raises(DBAPIError):
            connection.execute(text("SELECT 1"))
    still.close()


def test_a_connection_lost_before_the_commit_is_no_loss(runner: Runner, superuser: psycopg.Connection) -> None:
    on_each_new_hold(
        superuser, "IF nextval('faults') <= 2 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;"
    )
    assert told(runner, reserve("a", "1"), reserve("b", "1")) == ["RESERVED", "RESERVED"]
    assert holds(superuser) == [("a", "RESERVED"), ("b", "RESERVED")]


@pytest.mark.parametrize(
    ("condition", "remedy"),
    [("disk_full", "disk is full: make room"), ("out_of_memory", "out of memory"), ("io_error", "look at its log")],
)
def test_a_database_without_room_says_so_at_once_and_keeps_nothing(
    runner: Runner, superuser: psycopg.Connection, condition: str, remedy: str
) -> None:
    on_each_new_hold(superuser, f"RAISE EXCEPTION 'x' USING ERRCODE = '{condition}', HINT = nextval('faults')::text;")
    outcomes = runner.execute([reserve("a", "1"), reserve("b", "1")])
    assert [(o.refusal.reason, remedy in o.refusal.message) for o in outcomes if o.refusal is not None] == [
        ("STORE_UNAVAILABLE", True)
    ] * 2
    assert superuser.execute("SELECT last_value FROM faults").fetchone() == (1,), "people must repair it: no second try"
    assert holds(superuser) == []
    assert superuser.execute("SELECT count(*) FROM receipt WHERE command = 'Reserve'").fetchone() == (0,)


def test_a_database_that_is_gone_is_unavailable_and_comes_back(
    runner: Runner, superuser: psycopg.Connection, server_url: str
) -> None:
    name = superuser.info.dbname
    with psycopg.connect(server_url, autocommit=True) as elsewhere:
        elsewhere.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        elsewhere.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        assert told(runner, reserve("a", "1"), reserve("b", "1")) == ["STORE_UNAVAILABLE", "STORE_UNAVAILABLE"]
        elsewhere.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    assert told(runner, reserve("a", "1")) == ["RESERVED"]


def test_a_database_that_says_nothing_is_not_waited_for_long() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        database = Database(f"postgresql://ledger@127.0.0.1:{port}/ledger?connect_timeout=2")
        started = time.monotonic()
        assert told(Runner(database, Patience(lost_tries=2)), reserve("a", "1")) == ["STORE_UNAVAILABLE"]
        assert time.monotonic() - started < 10
        database.close()


@pytest.mark.parametrize(
    ("damage", "repair", "remedy"),
    [
        (
            "ALTER DATABASE {name} SET default_transaction_read_only = on",
            "ALTER DATABASE {name} RESET default_transaction_read_only",
            "read-only",
        ),
        ("ALTER TABLE receipt RENAME TO receipts", "ALTER TABLE receipts RENAME TO receipt", "migration"),
        ("ALTER TABLE hold RENAME COLUMN labels TO tags", "ALTER TABLE hold RENAME COLUMN tags TO labels", "migration"),
    ],
)
def test_a_database_that_cannot_take_writes_says_the_remedy(
    database_url: str, runner: Runner, superuser: psycopg.Connection, damage: str, repair: str, remedy: str
) -> None:
    superuser.execute(damage.format(name=superuser.info.dbname))
    damaged = Database(database_url)
    other = Runner(damaged)
    for _ in range(2):
        refusal = other.execute([reserve("a", "1")])[0].refusal
        assert refusal is not None
        assert (refusal.reason, remedy in refusal.message) == ("STORE_UNAVAILABLE", True)
    superuser.execute(repair.format(name=superuser.info.dbname))
    # Without a restart: a session that began read-only stays so, but it is not kept.
    assert told(other, reserve("a", "1")) == ["RESERVED"]
    damaged.close()


def test_settings_that_lose_writes_stop_the_writes_of_new_connections(
    database_url: str, runner: Runner, superuser: psycopg.Connection
) -> None:
    """As after a restart with other settings, or a change to another server, while the service runs."""
    name = superuser.info.dbname
    superuser.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    superuser.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
                      (name,))  # fmt: skip
    refusal = runner.execute([reserve("a", "1")])[0].refusal
    assert refusal is not None
    assert refusal.reason == "STORE_UNAVAILABLE"
    assert "synchronous_commit is off" in refusal.message
    assert holds(superuser) == []
    superuser.execute(f"ALTER DATABASE {name} RESET synchronous_commit")
    assert told(runner, reserve("a", "1")) == ["RESERVED"]


def test_a_connection_keeps_its_synchronous_commit_when_the_configuration_is_changed(database: Database) -> None:
    with database.transaction() as connection:
        source = "SELECT setting, source FROM pg_settings WHERE name = 'synchronous_commit'"
        assert tuple(connection.execute(text(source)).one()) == ("on", "session")


def test_an_answer_to_commit_that_is_lost_is_found_out(
    distant: Runner, proxy: Proxy, superuser: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    proxy.cut_commits = 1
    outcome = distant.execute([reserve("a", "1", dispatch=True)])[0]
    assert caplog.messages == ["COMMIT did not answer", "the transaction's fate: committed"]
    # As it was decided: not a replay, and with the permission to send.
    assert (outcome.refusal, outcome.replayed, outcome.may_send) == (None, False, True)
    assert holds(superuser) == [("a", "DISPATCHING")]


def test_a_commit_whose_fate_nobody_says_is_never_called_failed(
    distant: Runner, runner: Runner, proxy: Proxy, superuser: psycopg.Connection
) -> None:
    proxy.cut_commits, proxy.deaf_after_cut = 1, True
    refusal = distant.execute([reserve("a", "1")])[0].refusal
    assert refusal is not None
    assert refusal.reason == "UNKNOWN_WRITE_OUTCOME"
    assert refusal.metadata == {"recovery_action": "retry_same_key"}
    # The same key finds out.
    proxy.deaf = False
    again = distant.execute([reserve("a", "1")])[0]
    assert again.hold is not None
    assert again.replayed
    assert holds(superuser) == [("a", "RESERVED")]


def test_a_commit_that_the_server_did_not_make_is_made_again(
    runner: Runner, superuser: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    on_each_new_hold(superuser, "NULL;")
    superuser.execute(
        "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF nextval('faults') <= 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NULL; END $$"
    )
    superuser.execute(
        "CREATE CONSTRAINT TRIGGER die AFTER INSERT ON hold DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die()"
    )
    outcome = runner.execute([reserve("a", "1")])[0]
    assert (outcome.refusal, outcome.replayed) == (None, False)
    assert caplog.messages == ["COMMIT did not answer", "the transaction's fate: aborted"]
    assert superuser.execute("SELECT last_value FROM faults").fetchone() == (2,)
    assert holds(superuser) == [("a", "RESERVED")]


def test_a_law_that_speaks_at_commit_is_a_fault_of_that_command_alone(
    runner: Runner, superuser: psycopg.Connection
) -> None:
    superuser.execute(
        "CREATE FUNCTION law() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF NEW.operation_id = 'b' THEN RAISE EXCEPTION 'no' USING ERRCODE = 'check_violation'; END IF; RETURN NULL; END $$"
    )
    superuser.execute(
        "CREATE CONSTRAINT TRIGGER law AFTER INSERT ON hold DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION law()"
    )
    assert told(runner, *(reserve(name, "1") for name in "abcd")) == ["RESERVED", "INTERNAL", "RESERVED", "RESERVED"]


def test_budgets_made_in_one_batch_know_each_other(runner: Runner) -> None:
    assert told(runner, budget("org", "50"), budget("unit", "20", "org")) == ["done", "done"]
    assert told(runner, reserve("a", "30", budget_id="unit"), reserve("b", "20", budget_id="unit")) == [
        "INSUFFICIENT_BUDGET",
        "RESERVED",
    ]


def test_no_commit_is_begun_after_its_time(database: Database, runner: Runner) -> None:
    told(runner, reserve("a", "10"))
    with pytest.raises(TookTooLong):
        apply(database, [reserve("b", "10")], not_after=time.monotonic())
    with database.read() as connection:
        assert connection.execute(text("SELECT operation_id FROM hold")).scalars().all() == ["a"]
    # It is told as what it is: nothing was done, and the same key may be sent again.
    assert told(runner, reserve("b", "10")) == ["RESERVED"]
    assert classify(TookTooLong()) is Fault.CONTENTION


def test_a_server_that_hangs_is_given_up(
    distant: Runner, proxy: Proxy, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections stand, so nothing but a clock can tell."""
    monkeypatch.setattr(database_module, "SILENCE", 0.3)
    threading.Timer(1.0, lambda: setattr(proxy, "hung", False)).start()
    proxy.hung = True
    begun = time.monotonic()
    # The first try is given up after 0.3 s, and so are those that begin before the second is over.
    assert told(distant, reserve("a", "10")) == ["RESERVED"]
    assert 1 <= time.monotonic() - begun < 10
    assert holds(superuser) == [("a", "RESERVED")]
