"""The benchmark works, and compares like with like. Nothing is timed here."""

from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from ledger.audit.check import check
from ledger.domain.cards import STANDARD_TIER
from ledger.store.database import Database
from ledger.usage import normalize
from tests.benchmarks import raw_sql, report, setting, workload
from tests.benchmarks.__main__ import run
from tests.benchmarks.figures import RATIOS, Figure, Notes, document
from tests.benchmarks.load import Job
from tests.benchmarks.postgres import Databases
from tests.benchmarks.servers import call, servers
from tests.benchmarks.trials import Plan

TINY = Plan(trials=1, callers=4, crowd=8, warmup=0.0, seconds=0.3, size=10, count=4, warmup_count=1, spread=5)
# What an operation is known by, and when it was: the only things in which rows of the two sides differ.
OWN = {
    "tenant", "key", "entry_id", "evidence_id", "fingerprint", "nonce_hash", "digest", "fact", "resolution_digest", "created_at",
    "updated_at", "expire_at", "dispatched_at", "lease_expires_at", "resolved_at", "recorded_at", "effective_at",
    "received_at",
}  # fmt: skip


def test_a_tiny_run_has_every_figure_and_no_mismatch() -> None:
    done = run(TINY)
    found = document(done.notes)
    assert found["ledger_mismatches"] == 0
    assert {
        "unary_over_noop",
        "batch_over_raw",
        "hot_over_spread",
        "coalesced_over_alone",
        "guarded_over_raw",
        "four_levels_over_one",
        "as_sent_over_buckets",
    } <= found.keys()
    assert all(low <= high for low, high in found["ranges"].values())
    measured = document(done.notes).keys()
    assert all(name in report.figures(done.notes) for name in report.UNITS if name in measured)
    assert "PostgreSQL" in report.breakdown(done.parts, found["noop_unary_rps"])
    assert "1 trials" in report.method(TINY)


def test_a_part_is_measured_on_its_own_and_a_past_is_made() -> None:
    done = run(replace(TINY, past=25), ["past"])
    found = document(done.notes)
    assert found["ledger_mismatches"] == 0
    assert {"grown_over_young", "read_grown_over_young"} <= found.keys()
    assert "unary_rps" not in found
    assert "grown_over_young" in report.figures(done.notes)
    assert not done.parts


def test_the_sql_writes_the_rows_of_the_service(server_url: str, tmp_path: Path) -> None:
    databases = Databases(server_url)
    token = setting.make(databases, tmp_path / "tokens.jsonl", 1)
    with databases.copy(setting.TEMPLATE) as by_service, databases.copy(setting.TEMPLATE) as by_sql:
        with servers(by_service, tmp_path / "tokens.jsonl") as (server,):
            call([Job("batch", (server.target,), token, "b", size=3, count=1, warmup_count=0)])
        raw_sql.run(by_sql, setting.GATEWAY, "b", size=3, count=1, warmup_count=0)
        assert raw_sql.written(by_service) == raw_sql.written(by_sql)
        for table, order in ORDER.items():
            assert _rows(by_service, table, order) == _rows(by_sql, table, order)
        # The SQL makes no digest and no fact that means anything; every other law holds for it too.
        assert {law for law, violations in _violations(by_sql).items() if violations} <= {"7.4", "7.5"}
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {setting.TEMPLATE}")


ORDER = {
    "hold": "operation_id",
    "entry": "kind, operation_id",
    "posting": "book_id LIKE '#%', version",
    "receipt": "command, resource",
    "evidence": "operation_id",
    "resolution": "operation_id",
}


def _rows(url: str, table: str, order: str) -> list[dict[str, object]]:
    with psycopg.connect(url) as connection:
        cursor = connection.execute(f"SELECT * FROM {table} ORDER BY {order}")
        names = [column.name for column in cursor.description or ()]
        return [{name: _shown(name, value) for name, value in zip(names, row, strict=True)} for row in cursor]


def _shown(name: str, value: object) -> object:
    """The value; of one that is the row's own only whether there is one; of a financial book not which stripe it is."""
    if name in OWN:
        return value is None
    return value.rpartition("#")[0] if name == "book_id" and isinstance(value, str) and value[0] == "#" else value


def _violations(url: str) -> dict[str, int]:
    database = Database(url, pool_size=1)
    try:
        return {result.law: result.violations for result in check(database)}
    finally:
        database.close()


def test_usage_as_it_was_sent_is_the_usage_in_buckets() -> None:
    for number in range(200):
        seen = normalize(workload.FLAVOR, workload.document(number))
        used = {bucket: quantity for bucket, quantity in workload.usage(number).items() if quantity}
        assert (dict(seen.buckets), seen.model, seen.service_tier) == (used, workload.MODEL, STANDARD_TIER)


def test_a_figure_is_the_median_with_its_range() -> None:
    assert Figure.of([3.0, 1.0, 2.0]) == Figure(2.0, 1.0, 3.0)


def noted(above: list[float], below: list[float]) -> Notes:
    """Notes in which every ratio is of these two series."""
    notes = Notes()
    for name, of in {
        name: of for pair in RATIOS.values() for name, of in zip(pair, (above, below), strict=True)
    }.items():
        for value in of:
            notes.note(name, value)
    return notes


def test_a_ratio_is_taken_within_each_trial() -> None:
    # 10/20, 30/30, 20/80.
    assert noted([10.0, 30.0, 20.0], [20.0, 30.0, 80.0]).figures()["unary_over_noop"] == Figure(0.5, 0.25, 1.0)


@pytest.mark.parametrize(("values", "shown"), [([4.0, 3.0], 4.0), ([90.0, 120.5], 120.5)])
def test_memory_is_the_most_of_any_server(values: list[float], shown: float) -> None:
    notes = noted([1.0], [1.0])
    notes.note("mismatches", 0)
    for value in values:
        notes.note("server_peak_rss_mb", value)
    assert document(notes)["server_peak_rss_mb"] == shown
