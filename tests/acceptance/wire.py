"""A TCP wire between two parties that can be spoiled: on the way from a caller to the server, or from the server to PostgreSQL.

Faults strike at the bytes that the first party sends, each piece with a probability, and so they know nothing of what is in them:
requests, commits and connection set-ups are all hit. `struck` counts them.
"""

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from enum import Enum
from typing import TypeAlias

PIECE = 65_536
TRICKLE = 512
STALL_SECONDS = 1.0
LONGEST_DELAY = 0.03

Opened: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect: TypeAlias = Callable[[], Awaitable[Opened]]


class WireFault(Enum):
    DELAY = "What is sent comes later."
    THROTTLE = "What is sent comes in small pieces, with pauses."
    CUT_BEFORE = "The connection ends before what is sent arrives."
    CUT_AFTER = "What is sent arrives; the connection ends before the answer does."
    STALL = "Nothing comes any more, in either direction; then the connection ends."
    RESET = "The connection is reset in both directions, with what was under way."


class Wire:
    """Listens on loopback at `port` and passes everything on to whom `connect` gives, as long as it is not spoiled."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self.fault: WireFault | None = None
        self.probability = 0.0
        self.struck = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Wire":
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def spoil(self, fault: WireFault, probability: float) -> None:
        """From now on the fault strikes, each piece that is sent with this probability."""
        self.probability = probability
        self.fault = fault

    def mend(self) -> None:
        self.fault = None

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(OSError):
            line = _Line((reader, writer), await self._connect())
            try:
                await asyncio.wait(
                    [asyncio.ensure_future(self._forward(line)), asyncio.ensure_future(line.back())],
                    return_when=asyncio.FIRST_COMPLETED,
                )
            finally:
                line.end()

    async def _forward(self, line: "_Line") -> None:
        with contextlib.suppress(OSError):
            while piece := await line.near[0].read(PIECE):
                if self.fault is None or random.random() >= self.probability:
                    await line.send(piece)
                    continue
                self.struck += 1
                if not await self._strike(self.fault, line, piece):
                    return

    async def _strike(self, fault: WireFault, line: "_Line", piece: bytes) -> bool:
        """Spoils a piece. True if the line goes on."""
        match fault:
            case WireFault.DELAY:
                await asyncio.sleep(random.uniform(0, LONGEST_DELAY))
                await line.send(piece)
                return True
            case WireFault.THROTTLE:
                for start in range(0, len(piece), TRICKLE):
                    await line.send(piece[start : start + TRICKLE])
                    await asyncio.sleep(0.001)
                return True
            case WireFault.CUT_AFTER:
                line.mute = True
                await line.send(piece)
                # Half a message has no answer.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(line.answered.wait(), STALL_SECONDS)
            case WireFault.STALL:
                line.mute = True
                await asyncio.sleep(STALL_SECONDS)
            case WireFault.RESET:
                line.reset()
        return False


@contextlib.contextmanager
def wired(connect: Connect) -> Iterator[Wire]:
    """A wire in a thread of its own, until the block is left."""
    ready, leaving = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()
    wire = Wire(connect)

    async def run() -> None:
        async with wire:
            ready.set()
            await leaving.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    assert ready.wait(5)
    try:
        yield wire
    finally:
        loop.call_soon_threadsafe(leaving.set)
        thread.join(5)
        loop.close()


class _Line:
    """One connection through the wire: the near end is who called, the far end whom it called."""

    def __init__(self, near: Opened, far: Opened) -> None:
        self.near = near
        self.far = far
        self.mute = False
        self.answered = asyncio.Event()

    async def send(self, piece: bytes) -> None:
        self.far[1].write(piece)
        await self.far[1].drain()

    async def back(self) -> None:
        with contextlib.suppress(OSError):
            while piece := await self.far[0].read(PIECE):
                if self.mute:
                    self.answered.set()
                    continue
                self.near[1].write(piece)
                await self.near[1].drain()
        self.answered.set()

    def reset(self) -> None:
        """The next close of both ends is a reset: nothing that is under way is delivered."""
        for _, writer in (self.near, self.far):
            of_the_writer: socket.socket = writer.get_extra_info("socket")
            of_the_writer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def end(self) -> None:
        for _, writer in (self.near, self.far):
            # Not close(): that would first send what is buffered.
            writer.transport.abort()
