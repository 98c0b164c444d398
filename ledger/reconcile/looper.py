"""The page that every worker is written on: start, stop, tick."""

import asyncio
import contextlib
import logging
import random
from abc import ABC, abstractmethod

log = logging.getLogger("ledger.reconcile")


class Looper(ABC):
    """Ticks every `seconds` (a little earlier or later, so that replicas do not march in step) until it is stopped.

    A tick that fails is logged, and the next one comes at its time.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def tick(self) -> bool:
        """Does one round. True if there is more to do at once."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=type(self).__name__)

    async def stop(self) -> None:
        """Lets the round in progress end, and begins no other."""
        self._stopping.set()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        while not self._stopping.is_set():
            more = False
            try:
                more = await self.tick()
            except Exception:
                log.exception("a round of %s failed", type(self).__name__)
            pause = 0.0 if more else self._seconds * random.uniform(0.9, 1.1)  # noqa: S311 - jitter
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
