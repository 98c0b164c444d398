"""The FeedService: each reader asks for what comes after its place, page by page, on threads and connections of the feed alone.

A reader that does not take what it is sent waits in the flow control of its own stream, with one page in memory and nothing open in
the database; the others do not wait for it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Connection

from ledger.domain.refusals import Reason, Refusal
from ledger.engine.reader import Reader
from ledger.service.ends import Ends
from ledger.service.errors import Refused
from ledger.service.interceptor import Context, caller
from ledger.service.questions import ask
from ledger.service.translate.feed import Position, Watching, not_there, read_watch, responses, token
from ledger.store import feed as store
from ledger.store.database import Database
from ledger.store.feed import Place
from ledger.v1 import feed_pb2 as pb
from ledger.v1.feed_pb2_grpc import FeedServiceServicer

_THREADS: Final = 2
# Batches that are read at a time: each can have as many events as two responses hold.
_BATCHES: Final = 4
# How long a stop waits for the watches to end by themselves; what is stuck in its stream's flow control is cut.
_ENDING: Final = 1.0


@dataclass(slots=True)
class Cursor:
    """How far a reader is, and when it was last sent something (time.monotonic)."""

    position: Position | None
    sent: float


class Feed(FeedServiceServicer):
    def __init__(self, database_url: str, most_watchers: int) -> None:
        self._database = Database(database_url, _THREADS)
        self._reader = Reader(self._database, _THREADS)
        self._ends = Ends(self._newest)
        self._most = most_watchers
        self._watchers = 0
        self._stopping = asyncio.Event()
        self._none_left = asyncio.Event()
        self._none_left.set()

    async def Watch(self, request: pb.WatchRequest, _context: Context) -> AsyncIterator[pb.WatchResponse]:
        watching = read_watch(request, caller())
        with self._watcher():
            cursor = await self._begin(watching)
            while not self._stopping.is_set():
                before = cursor.position
                for position, response in await self._page(watching, before):
                    cursor.position = position
                    if response.events:
                        yield self._response(watching, cursor, response)
                left = cursor.sent + watching.heartbeat.total_seconds() - time.monotonic()
                if left <= 0:
                    yield self._response(watching, cursor, pb.WatchResponse())
                elif cursor.position == before:
                    await self._ends.beyond(watching.tenant, None if before is None else before.place, left)

    async def stop(self) -> None:
        """Ends the watches."""
        self._stopping.set()
        self._ends.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._none_left.wait(), _ENDING)

    async def close(self) -> None:
        """Ends the reads and their connections."""
        await asyncio.to_thread(self._reader.close)
        self._database.close()

    @contextmanager
    def _watcher(self) -> Iterator[None]:
        if self._stopping.is_set():
            raise Refused(_STOPPING)
        if self._watchers >= self._most:
            raise Refused(_FULL)
        self._watchers += 1
        self._none_left.clear()
        try:
            yield
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._none_left.set()

    async def _begin(self, watching: Watching) -> Cursor:
        """Where the reader begins. Raises InvalidField if its token's batch is not in this ledger."""
        tenant, after = watching.tenant, watching.after
        if watching.from_now:
            newest = await self._last(tenant)
            return Cursor(None if newest is None else Position(*newest), time.monotonic())
        if after is not None:
            there = await ask(self._reader, lambda connection: store.recorded_at(connection, tenant, after.place))
            if there != after.recorded_at:
                raise not_there()
        return Cursor(after, time.monotonic())

    async def _last(self, tenant: str) -> tuple[Place, datetime] | None:
        """The last batch that a reader would get, and when it was recorded."""
        return await ask(self._reader, lambda connection: store.newest(connection, tenant))

    async def _newest(self, tenant: str) -> Place | None:
        last = await self._last(tenant)
        return None if last is None else last[0]

    async def _page(self, watching: Watching, after: Position | None) -> list[tuple[Position, pb.WatchResponse]]:
        """What there is now, each response with the position after it."""
        place, told = (None, 0) if after is None else (after.place, after.told)

        def question(connection: Connection) -> list[tuple[Position, pb.WatchResponse]]:
            found = store.batches(connection, watching.tenant, place, _BATCHES, inclusive=told > 0)
            # In the reader's thread, so that a page of many events does not hold up the calls.
            return list(responses(found, watching, told))

        return await ask(self._reader, question)

    def _response(self, watching: Watching, cursor: Cursor, response: pb.WatchResponse) -> pb.WatchResponse:
        response.resume_token = token(cursor.position, watching.tenant)
        cursor.sent = time.monotonic()
        return response


_STOPPING = Refusal(Reason.STORE_UNAVAILABLE, "This server is being stopped: ask again, of another.")
_FULL = Refusal(
    Reason.THROTTLED, "Too many watches at once on this server: ask again after a pause, or ask another server."
)
