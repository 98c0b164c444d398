"""Extends the lease of an attempt while its caller is at work. One that fails is no error: the lease does what it is there for."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from ledger.client.errors import LedgerError
from ledger.client.messages import span
from ledger.v1 import hold_pb2 as pb

DEFAULT_LEASE: Final = timedelta(minutes=15)
# Two may be lost before the lease runs out.
_BEATS: Final = 3


class Heartbeat:
    """`may_continue` is false once the ledger says that this attempt is over: its outcome is unknown, or it is resolved."""

    def __init__(
        self,
        execute: Callable[[pb.Command, timedelta | None], Awaitable[pb.CommandResult]],
        operation_id: str,
        nonce: str,
        lease: timedelta | None,
    ) -> None:
        lease = DEFAULT_LEASE if lease is None else lease
        self.may_continue = True
        self._execute = execute
        self._operation_id = operation_id
        self._nonce = nonce
        self._lease = lease
        self._pause = lease / _BEATS
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(self._pause.total_seconds(), self._beat)

    def stop(self) -> None:
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _beat(self) -> None:
        self._task = self._loop.create_task(self._ask())

    async def _ask(self) -> None:
        self._timer = self._loop.call_later(self._pause.total_seconds(), self._beat)
        # Made here: most calls are over before the first one is due.
        request = pb.HeartbeatRequest(operation_id=self._operation_id, nonce=self._nonce, lease=span(self._lease))
        with contextlib.suppress(LedgerError):
            answer = (await self._execute(pb.Command(heartbeat=request), self._pause)).heartbeat
            self.may_continue = answer.may_continue
        if not self.may_continue:
            self._timer.cancel()
