"""A TCP wire between a client and a server that counts what goes over it, and can be cut, stopped or made one-way."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Wire:
    """Listens on loopback and hands everything to `target`.

    `deaf`: new connections are closed at once. `swallow`: what the server answers reaches nobody. `held`: nothing goes on, in
    either direction, until `let_go`.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._writers: set[asyncio.StreamWriter] = set()
        self._open = asyncio.Event()
        self._open.set()
        self.address = ""
        self.bytes_up = self.bytes_down = self.connections = 0
        self.deaf = self.swallow = False

    def cut(self) -> None:
        """Every connection is gone, as when a cable is pulled and a reset comes back."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    def hold(self) -> None:
        self._open.clear()

    def let_go(self) -> None:
        self._open.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.deaf:
            writer.transport.abort()
            return
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self.connections += 1
        self._writers |= {writer, up_writer}
        try:
            await asyncio.gather(self._pump(reader, up_writer, True), self._pump(up_reader, writer, False))
        finally:
            for end in (writer, up_writer):
                self._writers.discard(end)
                end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, up: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._open.wait()
                if up:
                    self.bytes_up += len(data)
                else:
                    self.bytes_down += len(data)
                    if self.swallow:
                        continue
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def wire_to(target: str) -> AsyncIterator[Wire]:
    wire = Wire(target)
    server = await asyncio.start_server(wire._accept, "127.0.0.1", 0)
    wire.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield wire
    finally:
        server.close()
        wire.let_go()
        wire.cut()
