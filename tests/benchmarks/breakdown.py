"""Where the time of a lifecycle goes: the engine in this process, with a stopwatch at each of its steps.

The lane's thread either computes or waits for PostgreSQL, so the thread's own CPU time tells the two apart: what is spent in
load, save and commit is the driver and the store where the thread was busy, PostgreSQL where it was not.
"""

import gc
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from sqlalchemy import Connection

from ledger.domain.model import Caller
from ledger.domain.refusals import Refusal
from ledger.engine import apply as engine
from ledger.engine.batch import Runner
from ledger.service.translate import answers, commands
from ledger.store.database import Database
from ledger.v1 import hold_pb2
from tests.benchmarks import workload

STEPS = ("PostgreSQL", "driver and store", "rules", "messages")


class Stopwatch:
    """Seconds by name: of the thread's CPU, and of waiting."""

    def __init__(self) -> None:
        self.busy: dict[str, float] = defaultdict(float)
        self.waited: dict[str, float] = defaultdict(float)

    @contextmanager
    def runs(self, name: str) -> Iterator[None]:
        cpu, wall = time.thread_time(), time.perf_counter()
        yield
        busy = time.thread_time() - cpu
        self.busy[name] += busy
        self.waited[name] += max(0.0, time.perf_counter() - wall - busy)

    def around(self, name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.runs(name):
                return step(*args, **kwargs)

        return timed


def measure(url: str, caller: Caller, size: int, batches: int, warmup: int) -> dict[str, float]:
    """Microseconds of one lifecycle in each of STEPS, when `size` lifecycles share a transaction."""
    database = Database(url, pool_size=1)
    runner = Runner(database)
    try:
        _run(runner, caller, f"warm{size}", size, warmup, Stopwatch())
        watch = Stopwatch()
        # What the benchmark itself has loaded is not the engine's to collect.
        gc.collect()
        gc.freeze()
        with ExitStack() as patched:
            for name in ("load", "decide", "save"):
                step = watch.around(name, getattr(engine, name))
                patched.enter_context(patch.object(engine, name, step))
            patched.enter_context(patch.object(Connection, "commit", watch.around("commit", Connection.commit)))
            _run(runner, caller, f"timed{size}", size, batches, watch)
    finally:
        gc.unfreeze()
        database.close()
    inside = ("load", "save", "commit")
    seconds = (
        sum(watch.waited[name] for name in inside),
        sum(watch.busy[name] for name in inside),
        watch.busy["decide"],
        watch.busy["messages"],
    )
    return {name: 1e6 * spent / (size * batches) for name, spent in zip(STEPS, seconds, strict=True)}


def _run(runner: Runner, caller: Caller, prefix: str, size: int, batches: int, watch: Stopwatch) -> None:
    for number in range(batches):
        for request in workload.batches(workload.operations(prefix, number, size)):
            sent = request.SerializeToString()
            with watch.runs("messages"):
                names, asked = commands.batch(hold_pb2.BatchExecuteRequest.FromString(sent), caller)
            outcomes = runner.execute([command for command in asked if not isinstance(command, Refusal)])
            with watch.runs("messages"):
                answers.batch(names, outcomes).SerializeToString()
