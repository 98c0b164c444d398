"""The plan of a run and its trials: which loads, on what, for how long."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ledger.audit.check import check
from ledger.store.database import Database
from tests.benchmarks import raw_sql
from tests.benchmarks.figures import Notes
from tests.benchmarks.load import Job
from tests.benchmarks.postgres import Databases
from tests.benchmarks.servers import Server, call, servers
from tests.benchmarks.setting import GATEWAY, TEMPLATE


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how much. Seconds for unary calls, batches for batch and SQL."""

    trials: int = 3
    callers: int = 32
    warmup: float = 2.0
    seconds: float = 6.0
    size: int = 500
    count: int = 40
    warmup_count: int = 6
    spread: int = 1_000


FULL = Plan()
QUICK = Plan(warmup=0.6, seconds=1.5, count=8, warmup_count=2)


class Trials:
    """Runs the loads of a plan on one PostgreSQL and notes what they give."""

    def __init__(self, plan: Plan, databases: Databases, tokens_file: Path, token: str) -> None:
        self._plan = plan
        self._databases = databases
        self._tokens_file = tokens_file
        self._token = token
        self.notes = Notes()

    def run(self) -> Notes:
        for number in range(self._plan.trials):
            print(f"trial {number + 1} of {self._plan.trials} …", file=sys.stderr, flush=True)
            self._unary()
            self._batch_and_raw()
            # Who goes first takes turns, so that a machine that warms up or tires favours neither.
            for budgets in (1, self._plan.spread) if number % 2 == 0 else (self._plan.spread, 1):
                self._two_servers(budgets)
        return self.notes

    def _unary(self) -> None:
        with self._serving(1) as (_, running):
            noop, unary = call([self._job("noop", running), self._job("unary", running)])
        self.notes.note("noop_unary_rps", noop.rate)
        self.notes.note("unary_rps", unary.rate)
        self.notes.note("unary_median_ms", unary.median_ms)
        self.notes.note("unary_p99_ms", unary.p99_ms)

    def _batch_and_raw(self) -> None:
        plan = self._plan
        with self._serving(1) as (url, running):
            (batch,) = call([self._job("batch", running)])
            by_service = raw_sql.written(url)
        with self._databases.copy(TEMPLATE) as url:
            seconds = raw_sql.run(url, GATEWAY, "batch", plan.size, plan.count, plan.warmup_count)
            by_sql = raw_sql.written(url)
        if by_service != by_sql:
            raise RuntimeError(f"the service wrote {by_service}, the SQL {by_sql}: they cannot be compared")
        self.notes.note("batch_lifecycles_per_s", batch.rate)
        self.notes.note("raw_sql_lifecycles_per_s", plan.count * plan.size / seconds)

    def _two_servers(self, budgets: int) -> None:
        with self._serving(2) as (_, running):
            (load,) = call([self._job("unary", running, budgets)])
        self.notes.note("hot_rps" if budgets == 1 else "spread_rps", load.rate)

    @contextmanager
    def _serving(self, count: int) -> Iterator[tuple[str, list[Server]]]:
        """Fresh servers on a fresh database; their memory is noted and the books are checked when the load is over."""
        with self._databases.copy(TEMPLATE) as url:
            with servers(url, self._tokens_file, count) as running:
                yield url, running
                for server in running:
                    self.notes.note("server_peak_rss_mb", server.peak_rss_mb())
            self.notes.note("mismatches", _mismatches(url))

    def _job(self, kind: str, running: list[Server], budgets: int = 1) -> Job:
        plan = self._plan
        return Job(
            kind,
            tuple(server.target for server in running),
            self._token,
            kind,
            callers=plan.callers,
            warmup=plan.warmup,
            seconds=plan.seconds,
            budgets=budgets,
            size=plan.size,
            count=plan.count,
            warmup_count=plan.warmup_count,
        )


def _mismatches(url: str) -> int:
    """How many things in the books violate a law: each law is recomputed from the rows."""
    database = Database(url, pool_size=1)
    try:
        return sum(result.violations for result in check(database))
    finally:
        database.close()
