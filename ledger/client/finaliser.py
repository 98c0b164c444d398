"""Detached work that ends what its caller left open: a task of its own, with a bound of its own.

No cancellation of the caller reaches it. It ends with its bound, or when the event loop does: `asyncio.run` cancels every task that
is left, and then the lease of the attempt does what the finaliser could not. `Ledger.close` waits for it before that. Their number
is bounded, too: many callers who go away while the ledger is away must not fill the memory; their leases do the rest.
"""

import asyncio
import logging
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, Final

import grpc

from ledger.client.errors import Fate, Fault, LedgerError, NotDone
from ledger.v1 import error_pb2

MOST: Final = 10_000
_TOO_MANY: Final = Fault(
    Fate.NOT_DONE,
    error_pb2.ERROR_REASON_UNSPECIFIED,
    f"{MOST:,} operations are being ended already; this one is left to its time to live, or its lease.",
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)

log = logging.getLogger("ledger.client")


class Finalisers:
    """The finalisers of one client. `failed` counts those that could not do their work; the log names their operations."""

    def __init__(self, bound: timedelta) -> None:
        self.bound = bound.total_seconds()
        self.failed = 0
        self._running: set[asyncio.Task[LedgerError | None]] = set()

    def start(
        self, operation_id: str, work: Coroutine[Any, Any, LedgerError | None]
    ) -> "asyncio.Future[LedgerError | None]":
        """Begins work that gives None, or the error for which it was not done."""
        if len(self._running) >= MOST:
            work.close()
            refused: asyncio.Future[LedgerError | None] = asyncio.get_running_loop().create_future()
            refused.set_result(NotDone(_TOO_MANY))
            self._say(operation_id, _TOO_MANY.message)
            return refused
        task = asyncio.get_running_loop().create_task(work, name=f"finalise {operation_id}")
        self._running.add(task)
        task.add_done_callback(lambda done: self._ended(operation_id, done))
        return task

    async def done(self) -> None:
        """Waits for all of them. Each has a bound; what is left after it is cancelled."""
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=self.bound)
            for task in late:
                task.cancel()

    def __len__(self) -> int:
        return len(self._running)

    def _ended(self, operation_id: str, task: "asyncio.Task[LedgerError | None]") -> None:
        self._running.discard(task)
        if task.cancelled():
            self._say(operation_id, "it was cancelled with the event loop")
        elif (error := task.exception()) is not None:
            self._say(operation_id, type(error).__name__)
        elif (refusal := task.result()) is not None:
            self._say(operation_id, str(refusal))

    def _say(self, operation_id: str, why: str) -> None:
        self.failed += 1
        log.warning(
            "an operation was left open; its time to live or its lease ends it",
            extra={"operation_id": operation_id, "why": why},
        )
