"""A lane: a thread that takes the next batch, has it done, and delivers. The engine: its lanes and the door to them.

A batch that has begun is not stopped by anything a caller does: it runs on a thread that no caller can cancel.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ledger.domain.batch import Outcome
from ledger.domain.commands import Command
from ledger.engine import faults
from ledger.engine.batch import Runner
from ledger.engine.gathering import Call, Gathering, Step, monotonic_deadline
from ledger.store.database import Database

log = logging.getLogger("ledger.engine")


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """`lanes` threads take batches of at most `batch_limit` commands; at most `queue_limit` commands wait."""

    lanes: int = 1
    batch_limit: int = 500
    queue_limit: int = 10_000


class Engine:
    """Takes commands from coroutines of one event loop and answers with their outcomes."""

    def __init__(self, database: Database, options: EngineOptions | None = None) -> None:
        self._options = options = options or EngineOptions()
        self._gathering = Gathering(options.queue_limit, options.batch_limit)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lanes = [
            threading.Thread(target=self._run, args=(Runner(database),), name=f"lane-{i}", daemon=True)
            for i in range(options.lanes)
        ]

    def start(self) -> None:
        """Starts the lanes. Called in the event loop that will submit."""
        self._loop = asyncio.get_running_loop()
        for lane in self._lanes:
            lane.start()

    async def stop(self, timeout: float | None = None) -> bool:
        """Takes nothing more in, and waits until what was taken in is done. False if that took longer than `timeout` seconds."""
        self._gathering.close()
        if self._loop is None:
            return True
        ends = monotonic_deadline(timeout)
        for lane in self._lanes:
            left = None if ends is None else max(0.0, ends - time.monotonic())
            await asyncio.to_thread(lane.join, left)
        return not any(lane.is_alive() for lane in self._lanes)

    async def submit(self, commands: Sequence[Command], seconds: float | None = None) -> list[Outcome]:
        """The outcomes of the commands, in their order; commands on one hold are done one after the other.

        What has not begun after `seconds` is dropped (DEADLINE_PASSED), and so is what has not begun when the caller is
        cancelled. Without room for all of them nothing is done (THROTTLED).
        """
        assert self._loop is not None, "the engine is not started"
        future: asyncio.Future[None] = self._loop.create_future()
        call = _Waited(commands, monotonic_deadline(seconds), future)
        if not self._gathering.put(call):
            return [faults.stopping() if self._gathering.closed else faults.throttled()] * len(commands)
        try:
            await future
        except asyncio.CancelledError:
            call.abandoned = True
            raise
        return call.answers()

    async def submit_one(self, command: Command, seconds: float | None = None) -> Outcome:
        """The outcome of one command: `submit` with a batch of one."""
        return (await self.submit((command,), seconds))[0]

    @property
    def room(self) -> int:
        """How many commands one call may have at most: as many as may wait."""
        return self._options.queue_limit

    @property
    def waiting(self) -> int:
        """How many commands wait to be begun."""
        return self._gathering.waiting

    def _run(self, runner: Runner) -> None:
        while (steps := self._gathering.take()) is not None:
            try:
                outcomes = _outcomes(runner, steps)
            except Exception:
                # A lane outlives every fault: what went wrong here is known to nobody, so nobody is told that it failed.
                log.exception("a batch of %d commands was given up", len(steps))
                outcomes = [faults.in_doubt()] * len(steps)
            complete = self._gathering.done(steps, outcomes)
            if complete:
                self._deliver(complete)

    def _deliver(self, calls: list[Call]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(_wake, calls)
        except RuntimeError:
            # The loop was closed before the batch was done: nobody is left to be told.
            log.warning("%d answers had no one to go to", len(calls))


class _Waited(Call):
    __slots__ = ("future",)

    def __init__(self, commands: Sequence[Command], deadline: float | None, future: asyncio.Future[None]) -> None:
        super().__init__(commands, deadline)
        self.future = future


def _wake(calls: list[Call]) -> None:
    for call in calls:
        if isinstance(call, _Waited) and not call.future.done():
            call.future.set_result(None)


def _outcomes(runner: Runner, steps: list[Step]) -> list[Outcome]:
    now = time.monotonic()
    late = [step.call.too_late(now) for step in steps]
    done = iter(runner.execute([step.command for step, dropped in zip(steps, late, strict=True) if not dropped]))
    return [faults.too_late() if dropped else next(done) for dropped in late]
