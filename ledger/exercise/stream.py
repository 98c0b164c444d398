"""A stream of guarded operations, while processes around it are killed, or its own."""

import asyncio
import itertools
import sys
from datetime import timedelta
from typing import Final

from ledger.client import Ledger, LedgerError
from ledger.exercise.barrier import say
from ledger.exercise.gateway import PROVIDER, QUOTE
from ledger.exercise.plan import Plan
from ledger.exercise.sending import LOST, send

# Short, so that what a killed caller leaves runs out while somebody watches.
LEFT_OPEN: Final = timedelta(seconds=2)


class Stream:
    """Says `settled` of each operation whose settlement was acknowledged, and `left` of each that it gave up."""

    def __init__(self, ledger: Ledger, plan: Plan) -> None:
        self._ledger = ledger
        self._plan = plan
        self._numbers = itertools.count(1)
        self._stopping = False

    async def run(self) -> None:
        """Until a line comes on the standard input, or its end."""
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._stop)
        await asyncio.gather(*(self._work() for _ in range(self._plan.workers)))

    def _stop(self) -> None:
        self._stopping = True
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())

    async def _work(self) -> None:
        while not self._stopping:
            number = next(self._numbers)
            operation_id = f"{self._plan.operation_id}/{number}"
            try:
                await self._one(operation_id, at_once=number % 2 == 0)
            except (LedgerError, *LOST) as error:
                say(left=operation_id, why=type(error).__name__)
            else:
                say(settled=operation_id)

    async def _one(self, operation_id: str, *, at_once: bool) -> None:
        guard = self._ledger.guard(
            operation_id,
            budgets=[self._plan.budget_id],
            quote=QUOTE,
            dispatch=at_once,
            provider=PROVIDER,
            ttl=LEFT_OPEN,
            lease=LEFT_OPEN,
        )
        async with guard as operation:
            if not at_once:
                await operation.begin_dispatch()
            receipt, document = await asyncio.to_thread(lambda: send(self._plan.provider_url, operation_id).all())
            await operation.settle(document, receipt=receipt)
