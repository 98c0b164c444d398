"""Reads go to their rows by an index, whatever the size of the tables, with statistics or without."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, event, text

from ledger.domain.model import Account
from ledger.domain.states import HoldState
from ledger.store import read
from ledger.store.database import Database
from tests.store.sql import insert
from tests.stories import Ledger

NUMBERS, NAME = "generate_series(1, 20000) n", "'many-' || n"
ROWS = f"FROM {NUMBERS}"
ONE_OF_MANY = {"tenant": "'acme'", "operation_id": NAME}


def journal_of_many() -> list[str]:
    """An entry, two postings and a case for each of many operations."""
    sides = f"{ROWS}, generate_series(1, 2) side"
    return [
        insert("entry", ROWS, **ONE_OF_MANY, kind="'RESERVE'", currency="'USD'"),
        insert(
            "posting", sides, tenant="'acme'", book_id=f"{NAME} || '#0'", version="side", entry_id="md5(n::text)::uuid",
            account="'HELD'", amount="3 - 2 * side",
        ),
        insert("incident", ROWS, **ONE_OF_MANY, kind="'RESOLUTION_CONFLICT'"),
    ]  # fmt: skip


# Of everything so much that to go through it would be dear; on the paths of the reads stand only the rows of 'template' and 'org'.
MANY = ";".join(
    [
        f"""
        INSERT INTO hold SELECT (jsonb_populate_record(h, jsonb_build_object('operation_id', {NAME}))).*
            FROM hold h, {NUMBERS} WHERE h.tenant = 'acme' AND h.operation_id = 'template';
        INSERT INTO budget SELECT (jsonb_populate_record(b, jsonb_build_object(
                'budget_id', {NAME}, 'path', jsonb_build_array('parent-' || n, {NAME})))).*
            FROM budget b, {NUMBERS} WHERE b.budget_id = 'org';
        INSERT INTO book SELECT (jsonb_populate_record(b, jsonb_build_object('book_id', {NAME} || '#0', 'budget_id', {NAME}))).*
            FROM book b, {NUMBERS} WHERE b.book_id = 'org#0'
        """,
        *journal_of_many(),
        insert("parked", ROWS, **ONE_OF_MANY, kind="'USAGE'", source="'WEBHOOK'", role="'gateway'"),
        insert("resolution", ROWS, **ONE_OF_MANY, revision="1", kind="'USAGE'", currency="'USD'"),
        insert("price_card", ROWS, tenant="'acme'", card_id=NAME, version="1", provider="'p'"),
    ]
)

READS: dict[str, Callable[[Connection], object]] = {
    "hold": lambda c: read.get_hold(c, "acme", "template"),
    "holds": lambda c: read.list_holds(c, "acme", limit=10, after=("a",)),
    "unknown holds": lambda c: read.list_holds(c, "acme", limit=10, state=HoldState.OUTCOME_UNKNOWN),
    "released holds": lambda c: read.list_holds(c, "acme", limit=10, state=HoldState.RELEASED),
    "the log of an operation": lambda c: read.list_invocations(c, "acme", "template", limit=10),
    "holds of a group": lambda c: read.list_holds(c, "acme", limit=10, request_group="g"),
    "resolutions": lambda c: read.list_resolutions(c, "acme", "template", limit=10),
    "incidents": lambda c: read.list_incidents(c, "acme", limit=10),
    "incidents of an operation": lambda c: read.list_incidents(c, "acme", limit=10, operation_id="template"),
    "budget": lambda c: read.get_budget(c, "acme", "org"),
    "budgets": lambda c: read.list_budgets(c, "acme", limit=10, after=("a",)),
    "periods": lambda c: read.list_periods(c, "acme", "org", limit=10),
    "children": lambda c: read.list_budgets(c, "acme", limit=10, parent="org"),
    "card": lambda c: read.get_card(c, "acme", "gpt"),
    "entries": lambda c: read.list_entries(c, "acme", limit=10),
    "entries of an operation": lambda c: read.list_entries(c, "acme", limit=10, operation_id="template"),
    "postings": lambda c: read.list_postings(c, "acme", "org#0", limit=10),
    "balance": lambda c: read.balance(c, "acme", Account.HELD, budget_id="org"),
    "due": lambda c: read.due(c, 10),
    "parked": lambda c: read.list_parked(c, "acme", limit=10, after=("a", str(UUID(int=1)))),
    "parked of an operation": lambda c: read.list_parked(c, "acme", limit=10, operation_id="template"),
    "waited": lambda c: read.waited(c, timedelta(days=1), 10, ("acme", "a", UUID(int=1))),
}


def test_each_read_is_one_statement_that_scans_no_table(database: Database) -> None:
    ledger = Ledger(database)
    ledger.budget("org", "100")
    ledger.budget("team", "100", "org")
    ledger.card()
    ledger.reserve("template", "0", "team")
    with database.engine.connect() as connection:
        connection.execute(text(MANY))
        connection.commit()
    for analysed in (False, True):
        if analysed:
            with database.engine.connect() as connection:
                connection.execute(
                    text("ANALYZE hold, entry, posting, budget, book, incident, price_card, resolution, parked")
                )
                connection.commit()
        for name, ask in READS.items():
            assert scans(database, ask) == [], (name, analysed)


HISTORY = """
    SET LOCAL session_replication_role = replica;
    INSERT INTO hold SELECT (jsonb_populate_record(h, jsonb_build_object('operation_id', 'past-' || n, 'state', 'SETTLED',
        'attempt', 1))).* FROM hold h, generate_series(1, 20000) n WHERE h.operation_id = 'template';
    INSERT INTO hold SELECT (jsonb_populate_record(h, jsonb_build_object('operation_id', 'open-' || n, 'amount', n, 'attempt', 1,
        'lease_expires_at', now(),
        'state', CASE n % 2 WHEN 0 THEN 'DISPATCHING' ELSE 'OUTCOME_UNKNOWN' END))).*
        FROM hold h, generate_series(1, 300) n WHERE h.operation_id = 'template';
    INSERT INTO hold SELECT (jsonb_populate_record(h, jsonb_build_object('tenant', 'other', 'operation_id', 'other-' || n,
        'amount', n, 'attempt', 1, 'lease_expires_at', now(),
        'state', CASE n % 2 WHEN 0 THEN 'DISPATCHING' ELSE 'OUTCOME_UNKNOWN' END))).*
        FROM hold h, generate_series(1, 400) n WHERE h.operation_id = 'template';
"""


def test_open_holds_are_found_without_those_of_the_past(database: Database) -> None:
    ledger = Ledger(database)
    ledger.budget("team", "100")
    ledger.reserve("template", "0", "team")

    def ask(connection: Connection) -> list[str]:
        page = read.list_open_holds(connection, "acme", "team#0", limit=3, after=("300", "open-300"))
        return [hold.operation_id for hold in page.items]

    for statement in (HISTORY, "ANALYZE hold"):
        with database.engine.connect() as connection:
            connection.execute(text(statement))
            connection.commit()
        found = plan(database, ask)
        used = {node["Index Name"]: node["Index Cond"] for node in found if "Index Name" in node}
        assert used.keys() == {"hold_due", "hold_unknown"}, statement
        # Of other tenants no row is read, although the first of these indexes does not begin with the tenant.
        assert all("(tenant = 'acme'" in condition for condition in used.values()), used
        with database.read() as connection:
            assert ask(connection) == ["open-299", "open-298", "open-297"]


def test_released_holds_are_found_without_the_settled_ones(database: Database) -> None:
    ledger = Ledger(database)
    ledger.budget("team", "100")
    ledger.reserve("template", "0", "team")

    def ask(connection: Connection) -> list[str]:
        page = read.list_holds(connection, "acme", limit=2, after=("free-1",), state=HoldState.RELEASED)
        return [hold.operation_id for hold in page.items]

    released = """
        SET LOCAL session_replication_role = replica;
        INSERT INTO hold SELECT (jsonb_populate_record(h, jsonb_build_object('operation_id', 'free-' || n, 'state', 'RELEASED'))).*
            FROM hold h, generate_series(1, 4) n WHERE h.operation_id = 'template'
    """
    for statement in (HISTORY + released, "ANALYZE hold"):
        with database.engine.connect() as connection:
            connection.execute(text(statement))
            connection.commit()
        found = plan(database, ask)
        assert {node["Index Name"] for node in found if "Index Name" in node} == {"hold_released"}, statement
        with database.read() as connection:
            assert ask(connection) == ["free-2", "free-3"]


def test_a_page_of_the_log_does_not_sort_all_refusals(database: Database) -> None:
    ledger = Ledger(database)
    ledger.budget("team", "100")
    refusals = insert(
        "refused",
        ROWS,
        tenant="'acme'",
        key="'k-' || n",
        resource="'op'",
        recorded_at="timestamptz '2026-03-01' + n * interval '1 s'",
    )
    since = "2026-03-01T01:00:00+00:00"

    def ask(connection: Connection) -> list[str]:
        page = read.list_invocations(connection, "acme", "op", limit=2, after=(since, "~"))
        return [line.key for line in page.items]

    with database.engine.connect() as connection:
        connection.execute(text(refusals))
        connection.execute(text("ANALYZE refused"))
        connection.commit()
    found = plan(database, ask)
    (scan,) = (node for node in found if node.get("Relation Name") == "refused")
    assert scan["Index Name"] == "refused_resource"
    assert "recorded_at" in scan["Index Cond"]
    assert "Incremental Sort" in {node["Node Type"] for node in found}
    with database.read() as connection:
        assert ask(connection) == ["k-3601", "k-3602"]


def scans(database: Database, ask: Callable[[Connection], object]) -> list[str]:
    """The tables that the one statement of a read goes through from end to end."""
    return [node["Relation Name"] for node in plan(database, ask) if node["Node Type"] == "Seq Scan"]


def plan(database: Database, ask: Callable[[Connection], object]) -> list[dict[str, Any]]:
    """The nodes of the plan of the one statement of a read."""
    sent: list[tuple[str, object]] = []
    with database.read() as connection:
        event.listen(connection, "before_cursor_execute", lambda _c, _cur, sql, values, *_: sent.append((sql, values)))
        ask(connection)
        ((statement, values),) = sent
        explained = connection.exec_driver_sql("EXPLAIN (FORMAT JSON) " + statement, values).scalar_one()  # type: ignore[arg-type]
    nodes = [explained[0]["Plan"]]
    for node in nodes:
        # Grows while it is walked.
        nodes += node.get("Plans", [])
    return nodes
