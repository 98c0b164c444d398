"""Waiting at the end of a feed. All readers who stand at the end of one tenant's are served by one poll."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from ledger.service.errors import Refused
from ledger.store.feed import Place

_SHORTEST, _LONGEST = 0.05, 1.0
_FIRST: Final = Place(0, 0, 0, 0)


@dataclass(slots=True)
class _Poll:
    """`end` is what the one who began it took for the end; `readers` is how many wait."""

    end: Place
    task: asyncio.Task[None]
    readers: int = 0


class Ends:
    """`newest` asks for the last batch of a tenant's feed that a reader would get, None if there is none.

    It is asked after pauses of 50 ms to 1 s, as long as somebody waits.
    """

    def __init__(self, newest: Callable[[str], Awaitable[Place | None]]) -> None:
        self._newest = newest
        self._polls: dict[str, _Poll] = {}
        self._closed = False

    async def beyond(self, tenant: str, end: Place | None, seconds: float) -> None:
        """Returns when a tenant's feed may go on beyond `end` (None: nothing was told yet), after so many seconds at the latest."""
        reached = end or _FIRST
        poll = self._polls.get(tenant)
        if self._closed:
            return
        if poll is not None and poll.end > reached:
            # Somebody else has seen more already: it can be asked for.
            await asyncio.sleep(min(_SHORTEST, seconds))
            return
        if poll is None or poll.task.done():
            poll = self._polls[tenant] = _Poll(reached, asyncio.create_task(self._until_beyond(tenant, reached)))
        poll.readers += 1
        try:
            await asyncio.wait({poll.task}, timeout=seconds)
        finally:
            poll.readers -= 1
            if not poll.readers:
                poll.task.cancel()
                if self._polls.get(tenant) is poll:
                    del self._polls[tenant]

    def close(self) -> None:
        """Lets all go who wait, and who come to wait."""
        self._closed = True
        for poll in self._polls.values():
            poll.task.cancel()

    async def _until_beyond(self, tenant: str, end: Place) -> None:
        pause = _SHORTEST
        newest = end
        while newest == end:
            await asyncio.sleep(pause)
            pause = min(_LONGEST, pause * 2)
            try:
                newest = await self._newest(tenant) or _FIRST
            except Refused:
                # Whoever waits asks for a page now, and is told by that.
                return
