"""The history of a hold, from every kind of row; and its axes, however much was reported."""

from collections.abc import Iterator

import pytest
from sqlalchemy import event, text

from ledger.domain.model import Delivery
from ledger.store import read
from ledger.store.database import Database
from ledger.store.read import HoldEvent, Key
from tests.store.sql import insert
from tests.store.test_read_plans import NAME, NUMBERS, ROWS, journal_of_many, scans
from tests.stories import Ledger, tell_attempts, tell_everything


@pytest.fixture(scope="module")
def told(shared_database_url: str) -> Iterator[Database]:
    database = Database(shared_database_url, pool_size=1)
    ledger = Ledger(database)
    tell_everything(ledger)
    tell_attempts(ledger)
    yield database
    database.close()


def events(database: Database, operation: str, size: int = 1000) -> list[HoldEvent]:
    found: list[HoldEvent] = []
    after: Key | None = None
    with database.read() as connection:
        while True:
            page = read.list_hold_events(connection, "acme", operation, limit=size, after=after)
            found += page.items
            after = page.next
            if after is None:
                return found


def lines(database: Database, operation: str) -> list[str]:
    return [f"{event.kind} {event.what}" for event in events(database, operation)]


def test_everything_that_happened_in_its_order(told: Database) -> None:
    assert lines(told, "settled") == [
        "COMMAND Reserve", "ATTEMPT BEGUN", "ENTRY RESERVE",
        "COMMAND Resolve", "EVIDENCE AUTHORITATIVE", "ENTRY SETTLE", "RESOLUTION USAGE",
        "COMMAND Resolve", "EVIDENCE CORROBORATING", "INCIDENT DOUBLE_ACCEPTANCE",
        "COMMAND Resolve", "EVIDENCE CONFLICTING", "INCIDENT RESOLUTION_CONFLICT",
    ]  # fmt: skip
    assert lines(told, "retried") == [
        "COMMAND Reserve", "ATTEMPT BEGUN", "ENTRY RESERVE",
        "COMMAND RecordFailedBeforeDispatch", "EXECUTION NOT_SENT",
        "COMMAND BeginDispatch", "ATTEMPT BEGUN",
        "COMMAND RecordReceipt", "EXECUTION ACCEPTED",
        "COMMAND RecordDelivery", "DELIVERY PARTIAL",
    ]  # fmt: skip
    assert lines(told, "released") == ["COMMAND Reserve", "ENTRY RESERVE", "COMMAND Release", "ENTRY RELEASE",
                                       "RESOLUTION NEVER_DISPATCHED"]  # fmt: skip
    # What was refused is in the log, though it made no hold.
    assert [(e.what, e.detail["outcome"]) for e in events(told, "refused")] == [("Reserve", "INSUFFICIENT_BUDGET")]
    assert events(told, "nothing of the kind") == []


def test_each_event_says_who_and_what(told: Database) -> None:
    found = {f"{event.kind} {event.what}": event for event in events(told, "overrun")}
    settle = found["ENTRY SETTLE"]
    # 5 were held of a limit of 5, 7 are spent: 2 could not be covered.
    assert settle.detail == {"DEFICIT": "2", "HELD": "-5", "SPENT": "7"}
    resolution = found["RESOLUTION USAGE"]
    assert (str(resolution.amount.normalize() if resolution.amount else None), resolution.currency) == ("7", "USD")
    assert (resolution.detail["cost_over_hold"], resolution.detail["reason"]) == ("2", "agreed")
    assert found["EVIDENCE AUTHORITATIVE"].detail["source"] == "PROVIDER_RECORD"
    first, second = (event for event in events(told, "retried") if event.kind == "ATTEMPT")
    assert (first.attempt, first.actor, first.detail) == (1, "gateway-1", {"executor": "worker", "generation": "1"})
    assert (second.attempt, second.detail["executor"]) == (2, "other worker")
    assert "nonce" not in str([event.detail for event in events(told, "retried")])


def test_pages_are_the_whole_in_parts(told: Database) -> None:
    for operation in ("settled", "retried"):
        whole = events(told, operation)
        for size in (1, 3):
            assert events(told, operation, size) == whole


def test_the_axes_are_read_from_few_rows(told: Database) -> None:
    ledger = Ledger(told, _keys=iter(range(10_000, 20_000)))
    for delivery in (Delivery.NOTHING, Delivery.PARTIAL, Delivery.COMPLETE) * 5:
        ledger.delivery("retried", delivery)
    with told.read() as connection:
        counts: list[int] = []

        @event.listens_for(connection, "after_cursor_execute")
        def count(_c: object, cursor: object, *_: object) -> None:
            counts.append(getattr(cursor, "rowcount"))  # noqa: B009 - a driver's cursor

        standing = read.get_standing(connection, "acme", "retried")
        assert standing is not None
        # The hold; that it was not sent and was accepted; the latest delivery; no evidence.
        assert counts == [1, 2, 1, 0]
        assert standing.axes.delivery is not None
        assert standing.axes.delivery.value == "COMPLETE"
        assert standing.axes.execution is not None
        assert standing.axes.execution.value == "ACCEPTED"
        settled = read.get_standing(connection, "acme", "recorded")
        assert settled is not None
        assert settled.axes.settlement.value == "SETTLED"
        assert read.get_standing(connection, "acme", "nothing of the kind") is None


# The operation whose rows of a table are repeated under other names.
MODELS = {"hold": "settled", "evidence": "late", "observation": "failed", "resolution": "late"}
MANY = ";".join(
    [
        "SET LOCAL session_replication_role = replica",
        *(
            f"INSERT INTO {table} SELECT (jsonb_populate_record(m, jsonb_build_object("
            f"'operation_id', {NAME}, 'provider_receipt', NULL))).* FROM {table} m, {NUMBERS} WHERE m.operation_id = '{operation}'"
            for table, operation in MODELS.items()
        ),
        insert("receipt", ROWS, tenant="'acme'", actor="'gateway-1'", command="'Reserve'", key=NAME, resource=NAME),
        insert("refused", ROWS, tenant="'acme'", command="'Release'", resource=NAME, reason="'HOLD_STATE'"),
        *journal_of_many(),
    ]
)


def test_no_table_is_scanned(database: Database) -> None:
    ledger = Ledger(database)
    tell_everything(ledger)
    tell_attempts(ledger)
    with database.engine.connect() as connection:
        connection.execute(text(MANY))
        connection.commit()
    for statement in ("", "ANALYZE"):
        if statement:
            with database.engine.connect() as connection:
                connection.execute(text(statement))
                connection.commit()
        found = scans(database, lambda c: read.list_hold_events(c, "acme", "settled", limit=10))
        assert found == [], statement
