"""Carries commands to the ledger: those that come together go together, in one BatchExecute.

A command that finds nothing on the wire is sent at once, with whatever else the same turn of the event loop brought. While as
many batches are on the wire as may be, commands gather, and the next batch takes them. No timer delays anything.
"""

import asyncio
from typing import Final

import grpc
import grpc.aio

from ledger.client.connection import Client
from ledger.client.errors import (
    CLOSED,
    NO_CONNECTION,
    OUT_OF_TIME,
    Fate,
    Fault,
    LedgerError,
    error_of,
    fault_of_call,
    fault_of_command,
)
from ledger.client.lines import Batching, Item, Lines, Stage
from ledger.client.retry import AGAIN, DOUBTFUL, Backoff
from ledger.v1 import error_pb2
from ledger.v1 import hold_pb2 as pb

# Refusals of a batch that are about who sends it, and not about what is in it.
_OF_THE_CALLER: Final = frozenset({error_pb2.ERROR_REASON_UNAUTHENTICATED, error_pb2.ERROR_REASON_ROLE_NOT_ALLOWED})
_LOST: Final = Fault(
    Fate.IN_DOUBT,
    error_pb2.ERROR_REASON_UNSPECIFIED,
    "The ledger did not answer in time.",
    grpc.StatusCode.DEADLINE_EXCEEDED,
)


class Courier:
    """Belongs to one client, that is to one token, and to the event loop in which it is made."""

    def __init__(self, client: Client, batching: Batching, backoff: Backoff) -> None:
        self._client = client
        self._batching = batching
        self._backoff = backoff
        self._loop = asyncio.get_running_loop()
        self._lines = Lines()
        self._trips: set[asyncio.Task[None]] = set()
        self._open: set[Item] = set()
        self._closed = False

    async def carry(self, command: pb.Command, operation_id: str, key: str, ends: float) -> pb.CommandResult:
        """The result of one command, which has its key and an operation. `ends` is on the loop's clock.

        A caller who is cancelled, or whose time runs out, costs the others nothing: what is on the wire stays there, what is not
        is dropped. Raises Refused, NotDone or WriteOutcomeUnknown.
        """
        if self._closed or ends <= self._loop.time():
            raise error_of(CLOSED if self._closed else OUT_OF_TIME, key)
        item = Item(command, operation_id, key, ends, self._loop.create_future())
        expiry = self._loop.call_at(ends, self._out_of_time, item)
        self._open.add(item)
        self._lines.join(item)
        self._depart()
        try:
            answer = await item.answer
        except asyncio.CancelledError:
            self._forget(item)
            raise
        finally:
            expiry.cancel()
            self._open.discard(item)
        if isinstance(answer, LedgerError):
            raise answer
        return answer

    async def close(self) -> None:
        """Ends what is under way; who still waits is told that his command was not done, or that it may have been."""
        self._closed = True
        for item in list(self._open):
            self._give_up(item, CLOSED)
        for trip in tuple(self._trips):
            trip.cancel()
        await asyncio.gather(*self._trips, return_exceptions=True)

    def _depart(self) -> None:
        """Begins a trip if something is ready and one more may be on the wire. It takes what the next turn of the loop finds."""
        if self._lines.any_ready and len(self._trips) < self._batching.on_the_wire and not self._closed:
            trip = self._loop.create_task(self._trip())
            self._trips.add(trip)
            trip.add_done_callback(self._returned)

    def _returned(self, trip: "asyncio.Task[None]") -> None:
        self._trips.discard(trip)
        if not trip.cancelled():
            trip.result()

    async def _trip(self) -> None:
        """Takes batches to the ledger until nothing is ready."""
        while await self._client.connected(self._lines.wanted_until) and (batch := self._lines.take(self._batching)):
            try:
                await self._ask(batch)
            finally:
                # Cancelled or broken: nobody may wait for ever.
                for item in batch:
                    if item.stage is Stage.ON_THE_WIRE:
                        self._failed(item, _LOST)
            # Those who were answered ask again in this turn, and go along.
            await asyncio.sleep(0)
        # Here, and not when the loop gets to it: what becomes ready in between would wait for a trip that is over.
        if (trip := asyncio.current_task()) is not None:
            self._trips.discard(trip)

    async def _ask(self, batch: list[Item]) -> None:
        longest = 0.0
        for item in batch:
            item.stage = Stage.ON_THE_WIRE
            longest = max(longest, item.ends)
        left = min(longest - self._loop.time(), self._backoff.one_try.total_seconds())
        request = pb.BatchExecuteRequest(commands=[item.command for item in batch])
        try:
            response = await self._client.holds.BatchExecute(request, timeout=max(left, 0.001))
        except grpc.aio.AioRpcError as error:
            self._all_failed(batch, fault_of_call(error))
            return
        for item, result in zip(batch, response.results, strict=True):
            if result.HasField("error"):
                self._failed(item, fault_of_command(result.error))
            else:
                self._answered(item, result)

    def _answered(self, item: Item, result: pb.CommandResult) -> None:
        if not item.answer.done():
            # A copy: a part of the response would keep all of it in memory for as long as the caller keeps his answer.
            mine = pb.CommandResult()
            mine.CopyFrom(result)
            item.answer.set_result(mine)
        self._end(item)

    def _end(self, item: Item) -> None:
        item.stage = Stage.GONE
        self._lines.leave(item)

    def _all_failed(self, batch: list[Item], fault: Fault) -> None:
        """A whole batch failed. If that may be the fault of one of them, each goes alone and hears of its own."""
        apart = len(batch) > 1 and fault.fate not in AGAIN and fault.reason not in _OF_THE_CALLER
        for item in batch:
            if apart and not item.given_up:
                item.alone = True
                item.in_doubt = item.in_doubt or fault.fate in DOUBTFUL
                self._lines.ready(item)
            else:
                self._failed(item, fault)

    def _failed(self, item: Item, fault: Fault) -> None:
        """One try of one command failed: a further one after a pause, or the end."""
        item.tries += 1
        item.in_doubt = item.in_doubt or fault.fate in DOUBTFUL
        wait = self._backoff.seconds(item.tries)
        if item.given_up or fault.fate not in AGAIN or self._closed or self._loop.time() + wait >= item.ends:
            if not item.given_up:
                item.answer.set_result(error_of(fault, item.key, in_doubt=item.in_doubt))
            self._end(item)
            return
        item.stage = Stage.PAUSING
        item.timer = self._loop.call_later(wait, self._again, item)

    def _again(self, item: Item) -> None:
        self._lines.ready(item)
        self._depart()

    def _out_of_time(self, item: Item) -> None:
        if item.stage is Stage.ON_THE_WIRE:
            self._give_up(item, _LOST)
        else:
            ready = self._client.channel.get_state() is grpc.ChannelConnectivity.READY
            self._give_up(item, OUT_OF_TIME if ready else NO_CONNECTION)

    def _give_up(self, item: Item, fault: Fault) -> None:
        if not item.given_up:
            in_doubt = item.in_doubt or item.stage is Stage.ON_THE_WIRE
            item.answer.set_result(error_of(fault, item.key, in_doubt=in_doubt))
        self._forget(item)

    def _forget(self, item: Item) -> None:
        self._lines.drop(item)
        self._depart()
