"""The plan of a run and its trials: which loads, on what, for how long."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ledger.audit.check import check
from ledger.store.database import Database
from tests.benchmarks import raw_sql
from tests.benchmarks.figures import Notes
from tests.benchmarks.grow import grow
from tests.benchmarks.load import Job
from tests.benchmarks.postgres import Databases
from tests.benchmarks.servers import Server, call, servers
from tests.benchmarks.setting import GATEWAY, LEVELS, TEMPLATE


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how much. Seconds for unary calls, batches for batch and SQL."""

    trials: int = 3
    callers: int = 32
    crowd: int = 256
    warmup: float = 2.0
    seconds: float = 6.0
    size: int = 500
    count: int = 30
    warmup_count: int = 5
    spread: int = 1_000
    past: int = 1_000_000


ROUNDS = 10
# What can be measured on its own.
PARTS = ("servers", "client", "levels", "evidence")
# Takes a quarter of an hour by itself, so it is done only when it is asked for.
PAST = "past"
FULL = Plan()
QUICK = Plan(warmup=0.3, seconds=1.0, count=6, warmup_count=1)


class Trials:
    """Runs the loads of a plan on one PostgreSQL and notes what they give."""

    def __init__(self, plan: Plan, databases: Databases, tokens_file: Path, token: str) -> None:
        self._plan = plan
        self._databases = databases
        self._tokens_file = tokens_file
        self._token = token
        self.notes = Notes()

    def run(self, parts: Sequence[str] = PARTS) -> Notes:
        for number in range(self._plan.trials):
            print(f"trial {number + 1} of {self._plan.trials} …", file=sys.stderr, flush=True)
            if "servers" in parts:
                self._one_server()
                self._two_servers(number)
            if "client" in parts:
                self._client(number)
            if "levels" in parts:
                self._levels(number)
            if "evidence" in parts:
                self._evidence(number)
        if PAST in parts:
            self._past()
        return self.notes

    def _one_server(self) -> None:
        plan = self._plan
        with self._databases.copy(TEMPLATE) as url:
            with self._serving(url, 1) as running:
                noop, unary = call([self._job("noop", "noop", running), self._job("unary", "unary", running)])
                before = raw_sql.written(url)
                (batch,) = call([self._job("batch", "batch", running)])
                by_service = raw_sql.written(url, before)
            self._check(url)
            before = raw_sql.written(url)
            seconds = raw_sql.run(url, GATEWAY, "sql", plan.size, plan.count, plan.warmup_count)
            by_sql = raw_sql.written(url, before)
        if by_service != by_sql:
            raise RuntimeError(f"the service wrote {by_service}, the SQL {by_sql}: they cannot be compared")
        self.notes.note("noop_unary_rps", noop.rate)
        self.notes.note("unary_rps", unary.rate)
        self.notes.note("unary_median_ms", unary.median_ms)
        self.notes.note("unary_p99_ms", unary.p99_ms)
        self.notes.note("batch_lifecycles_per_s", batch.rate)
        self.notes.note("raw_sql_lifecycles_per_s", plan.count * plan.size / seconds)

    def _two_servers(self, number: int) -> None:
        with self._databases.copy(TEMPLATE) as url:
            with self._serving(url, 2) as running:
                jobs = {
                    "hot_rps": self._job("unary", "hot", running),
                    "spread_rps": self._job("unary", "spread", running, budgets=self._plan.spread),
                }
                # Who goes first takes turns, so that a machine that warms up or tires favours neither.
                names = list(jobs)[:: 1 if number % 2 == 0 else -1]
                last = self._job("batch", "batch", running, budgets=self._plan.spread)
                *loads, batch = call([*(jobs[name] for name in names), last])
            self._check(url)
        for name, load in zip(names, loads, strict=True):
            self.notes.note(name, load.rate)
        self.notes.note("batch_two_servers_lifecycles_per_s", batch.rate)

    def _client(self, number: int) -> None:
        plan = self._plan
        with self._databases.copy(TEMPLATE) as url:
            with self._serving(url, 1) as running:
                loads = {
                    "raw": self._job("unary", "raw", running),
                    "guarded": self._job("guarded", "guarded", running),
                    "coalesced": replace(self._job("guarded", "coalesced", running), callers=plan.crowd),
                    "alone": replace(self._job("alone", "alone", running), callers=plan.crowd),
                }
                names = list(loads)[:: 1 if number % 2 == 0 else -1]
                rates = dict(zip(names, (load.rate for load in call([loads[name] for name in names])), strict=True))
            self._check(url)
        self.notes.note("coalesced_lifecycles_per_s", rates["coalesced"])
        self.notes.note("alone_lifecycles_per_s", rates["alone"])
        self.notes.note("guarded_lifecycle_ms", plan.callers / rates["guarded"] * 1000)
        # Its rate is in calls, of which a lifecycle has three.
        self.notes.note("raw_lifecycle_ms", plan.callers / (rates["raw"] / 3) * 1000)

    def _levels(self, number: int) -> None:
        """Batches on a budget without a parent, and on one at the end of a chain."""
        root = self._plan.spread
        with self._databases.copy(TEMPLATE) as url:
            with self._serving(url, 1) as running:
                jobs = {
                    "one_level_lifecycles_per_s": replace(self._job("batch", "flat", running), first=root),
                    "four_levels_lifecycles_per_s": replace(
                        self._job("batch", "deep", running), first=root + LEVELS - 1
                    ),
                }
                names = list(jobs)[:: 1 if number % 2 == 0 else -1]
                loads = call([jobs[name] for name in names])
            self._check(url)
        for name, load in zip(names, loads, strict=True):
            self.notes.note(name, load.rate)

    def _past(self) -> None:
        """Batches, and reads of a budget, before and after many holds have come and gone in the same database."""
        plan = self._plan
        with self._databases.copy(TEMPLATE) as url:
            for when in ("young", "grown"):
                with self._serving(url, 1) as running:
                    read, batch = call(
                        [
                            self._job("read", when, running, budgets=plan.spread),
                            self._job("batch", when, running, budgets=plan.spread),
                        ]
                    )
                self.notes.note(f"{when}_lifecycles_per_s", batch.rate)
                self.notes.note(f"{when}_read_median_ms", read.median_ms)
                if when == "young":
                    grow(url, GATEWAY, plan.past, plan.spread)
            self._check(url)

    def _evidence(self, number: int) -> None:
        names = {"resolve": "resolves_in_buckets_per_s", "resolve as sent": "resolves_as_sent_per_s"}
        kinds = list(names)[:: 1 if number % 2 == 0 else -1]
        # A few batches of each in turn, so that whatever else the machine does slows both.
        rounds = [(kind, turn) for turn in range(min(ROUNDS, self._plan.count)) for kind in kinds]
        with self._databases.copy(TEMPLATE) as url:
            with self._serving(url, 1) as running:
                jobs = [
                    replace(
                        self._job(kind, f"{kind.replace(' ', '-')}-{turn}", running),
                        count=max(1, self._plan.count // ROUNDS),
                        warmup_count=0 if turn else self._plan.warmup_count,
                    )
                    for kind, turn in rounds
                ]
                loads = call(jobs)
            self._check(url)
        for kind, name in names.items():
            mine = [load for (of, _), load in zip(rounds, loads, strict=True) if of == kind]
            self.notes.note(name, sum(load.done for load in mine) / sum(load.seconds for load in mine))

    @contextmanager
    def _serving(self, url: str, count: int) -> Iterator[list[Server]]:
        """Fresh servers on a database; their memory is noted when the loads are over."""
        with servers(url, self._tokens_file, count) as running:
            yield running
            for server in running:
                self.notes.note("server_peak_rss_mb", server.peak_rss_mb())

    def _check(self, url: str) -> None:
        """Notes how many things in the books violate a law: each law is recomputed from the rows."""
        database = Database(url, pool_size=1)
        try:
            self.notes.note("mismatches", sum(result.violations for result in check(database)))
        finally:
            database.close()

    def _job(self, kind: str, prefix: str, running: list[Server], budgets: int = 1) -> Job:
        plan = self._plan
        return Job(
            kind,
            tuple(server.target for server in running),
            self._token,
            prefix,
            callers=len(running) if kind == "batch" else plan.callers,
            warmup=plan.warmup,
            seconds=plan.seconds,
            budgets=budgets,
            size=plan.size,
            count=plan.count,
            warmup_count=plan.warmup_count,
        )
