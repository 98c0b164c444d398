"""The statements of the hot path look rows up in indexes, whatever the size of the tables, and with no statistics."""

import json
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import pq
from psycopg.rows import scalar_row

from ledger.store import lookups, save
from ledger.store.arrays import Array
from ledger.store.statements import Statement
from tests.store import samples as s
from tests.store.samples import T
from tests.store.sql import insert

LOOK_UPS: dict[str, tuple[Statement, Any]] = {
    "holds": (lookups.LOCK_HOLDS, lambda i: (T, f"op-{i}")),
    "budgets": (lookups.BUDGET_CHAINS, lambda i: (T, f"team-{i}")),
    "books": (lookups.LOCK_BOOKS, lambda i: (T, f"team-{i}#0")),
    "newest books": (lookups.NEWEST_BOOKS, lambda i: (T, f"team-{i}")),
    "closed budgets": (lookups.CLOSED_BUDGETS, lambda i: (T, f"team-{i}")),
    "receipts": (lookups.RECEIPTS, lambda i: (T, "gateway-1", "Reserve", f"key-{i}")),
    "exclusive": (lookups.EXCLUSIVE, lambda i: (T, f"order-{i}")),
    "signs": (lookups.SIGNS, lambda i: (T, f"op-{i}")),
    "orphans": (lookups.ORPHANS, lambda i: (T, UUID(int=i))),
    "grants": (lookups.GRANTS, lambda i: (T, f"team-{i}", "po")),
    "ended attempts": (lookups.ENDED, lambda i: (T, f"op-{i}")),
    "facts": (lookups.FACTS, lambda i: (T, f"op-{i}", b"f")),
    "policies": (lookups.NEWEST_POLICIES, lambda i: (T, f"provider-{i}")),
    "cards": (lookups.CARDS, lambda i: (T, f"card-{i}", 1)),
    "resolutions": (lookups.RESOLUTIONS, lambda i: (T, f"op-{i}")),
    "newest cards": (lookups.NEWEST_CARDS, lambda i: (T, f"card-{i}")),
}
# What a hold was reported of is little: it is found by the hold, and filtered.
FILTERED = {"facts": ("fact",)}
KINDS = {"version": "bigint[]", "fact": "bytea[]", "incident_id": "uuid[]"}
WRITES: dict[str, tuple[Statement, list[Any]]] = {
    "change holds": (save.CHANGED_HOLDS, [save._hold_change(s.hold(f"op-{i}", version=2)) for i in range(500)]),
    "change budgets": (save.CHANGED_BUDGETS, [save._budget_change(s.budget(f"team-{i}")) for i in range(500)]),
    "change books": (save.CHANGED_BOOKS, [save._book_change(s.book(f"team-{i}", version=9)) for i in range(500)]),
}
SIZES = (0, 100, 100_000)
UNWATCHED = ("hold", "book", "budget", "receipt", "posting", "evidence")


def fill(number: int) -> str:
    """So many rows of each kind, and nothing that would make statistics of them."""
    rows = f"FROM generate_series(1, {number}) i"
    operation, budget = "'op-' || i", "'team-' || i"
    of_tenant = {"tenant": f"'{T}'"}
    return ";".join(
        [
            *(f"ALTER TABLE {table} SET (autovacuum_enabled = off)" for table in UNWATCHED),
            insert(
                "evidence", rows, **of_tenant, operation_id=operation, attempt="1", kind="'USAGE'", fact="'f'", body="'{}'",
                classification="'AUTHORITATIVE'", source="'WEBHOOK'", actor="'gw'", policy="'#built-in/1'", digest="'d'",
            ),
            insert(
                "hold", rows, **of_tenant, operation_id=operation, state="'RESERVED'", currency="'USD'", amount="1", version="1",
                exclusive_key="'order-' || i", provider_receipt="'rcpt-' || i", actor="'gateway-1'",
            ),
            insert(
                "book", rows, **of_tenant, book_id=f"{budget} || '#0'", budget_id=budget, currency="'USD'", floor="0", version="8",
                period_start="now()", rollover="'NONE'", threshold_basis="'USED'",
            ),
            insert(
                "budget", rows, **of_tenant, budget_id=budget, path=f"ARRAY[{budget}]", currency="'USD'", version="1",
                period="'NONE'", rollover="'NONE'", threshold_basis="'USED'",
            ),
            insert(
                "receipt", rows, **of_tenant, actor="'gateway-1'", command="'Reserve'", key="'key-' || i", resource="'op'",
                outcome="'OK'", fingerprint_version="1",
            ),
        ]
    )  # fmt: skip


@pytest.fixture(scope="module", params=SIZES)
def sql(request: pytest.FixtureRequest, shared_database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A database with so many holds, books, budgets and receipts, of which the planner has no statistics."""
    with psycopg.connect(shared_database_url, row_factory=scalar_row) as connection:
        connection.execute(fill(request.param).encode())
        yield connection
        connection.rollback()


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def plan_of(sql: psycopg.Connection[Any], query: str, arrays: Sequence[Array] = ()) -> list[dict[str, Any]]:
    """The plan of a statement with its arrays as they are sent."""
    result = sql.pgconn.exec_params(
        f"EXPLAIN (FORMAT JSON) {query}".encode(),
        [array.encoded() for array in arrays],
        [array.array_oid for array in arrays],
        [pq.Format.BINARY] * len(arrays),
    )
    found = result.get_value(0, 0)
    assert found is not None, result.error_message
    return list(nodes(json.loads(found)[0]["Plan"]))


def scans(plan: list[dict[str, Any]]) -> list[str]:
    return [
        f"{n['Node Type']} on {n['Relation Name']}" for n in plan if "Scan" in n["Node Type"] and "Relation Name" in n
    ]


def by_index(name: str) -> tuple[str, ...]:
    return tuple(column for column in LOOK_UPS[name][0].names if column not in FILTERED.get(name, ()))


def looked_up_by(sql: psycopg.Connection[Any], plan: list[dict[str, Any]], keys: tuple[str, ...]) -> bool:
    """Whether the plan reads tables at all, and only through indexes that begin with the whole key, by all of it."""
    found = [(n.get("Index Name", ""), n.get("Index Cond", "")) for n in plan if "Relation Name" in n]
    return found != [] and all(
        _first_columns(sql, index, len(keys)) == set(keys) and all(f"({key} = " in condition for key in keys)
        for index, condition in found
    )


def _first_columns(sql: psycopg.Connection[Any], index: str, number: int) -> set[str]:
    query = "SELECT pg_get_indexdef(to_regclass(%s), n, true) FROM generate_series(1, %s) n"
    return set(sql.execute(query, [index, number]))


@pytest.mark.parametrize("name", LOOK_UPS)
@pytest.mark.parametrize("keys", [1, 500])
def test_each_key_is_looked_up_in_an_index(sql: psycopg.Connection[Any], name: str, keys: int) -> None:
    statement, key = LOOK_UPS[name]
    plan = plan_of(sql, statement.sql, statement.bind([key(i) for i in range(keys)]))
    assert looked_up_by(sql, plan, by_index(name)), scans(plan)


@pytest.mark.parametrize("name", LOOK_UPS)
def test_so_does_the_plan_of_a_prepared_statement(sql: psycopg.Connection[Any], name: str) -> None:
    statement, _ = LOOK_UPS[name]
    kinds = [KINDS.get(column, "text[]") for column in statement.names]
    sql.execute(b"SET LOCAL plan_cache_mode = force_generic_plan")
    sql.execute(f"PREPARE look_up ({', '.join(kinds)}) AS {statement.sql}".encode())
    plan = plan_of(sql, f"EXECUTE look_up ({', '.join(f'NULL::{kind}' for kind in kinds)})")
    sql.execute(b"DEALLOCATE look_up")
    assert looked_up_by(sql, plan, by_index(name)), scans(plan)


@pytest.mark.parametrize("keys", [1, 500])
def test_who_has_a_receipt_is_looked_up_where_it_is_bound(sql: psycopg.Connection[Any], keys: int) -> None:
    """One of the indexes is over what the quote says."""
    rows = [(T, "psp", f"rcpt-{i}") for i in range(keys)]
    plan = plan_of(sql, lookups.BOUND.sql, lookups.BOUND.bind(rows))
    found = {n.get("Index Name", ""): n.get("Index Cond", "") for n in plan if "Relation Name" in n}
    assert found.keys() == {"hold_one_per_provider_receipt", "observation_one_per_provider_receipt"}, scans(plan)
    for condition in found.values():
        assert all(f"({key} = " in condition for key in ("tenant", "provider_receipt"))
        assert "provider = " in condition or "(quote ->> 'provider'::text) = " in condition


def test_whether_a_budget_changed_is_asked_of_its_row_alone(sql: psycopg.Connection[Any]) -> None:
    keys = [(T, f"team-{i}", 1) for i in range(500)]
    plan = plan_of(sql, lookups.CHANGED_BUDGETS.sql, lookups.CHANGED_BUDGETS.bind(keys))
    assert looked_up_by(sql, plan, ("tenant", "budget_id")), scans(plan)


def test_a_subtree_is_found_level_by_level(sql: psycopg.Connection[Any]) -> None:
    plan = plan_of(sql, lookups.SUBTREES.sql, lookups.SUBTREES.bind([(T, "team-1")]))
    top, children = sorted(n.get("Index Cond", "") for n in plan if n.get("Relation Name") == "budget")
    assert "(tenant = " in top
    assert "(budget_id = " in top
    assert "(tenant = " in children
    assert "(path[(cardinality(path) - 1)] = " in children


@pytest.mark.parametrize("name", WRITES)
def test_rows_are_changed_through_the_primary_key(sql: psycopg.Connection[Any], name: str) -> None:
    statement, rows = WRITES[name]
    plan = plan_of(sql, statement.sql, statement.bind(rows))
    assert plan[0]["Conflict Resolution"] == "UPDATE"
    assert plan[0]["Conflict Arbiter Indexes"] == [f"{plan[0]['Relation Name']}_pkey"]
    assert scans(plan) == []
