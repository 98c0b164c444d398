"""Commands that wait to be sent: one line for each operation, so that two commands on one hold keep their order.

Only the first of a line may be under way, from when it is first sent until it is answered or given up, the pauses between its
tries included. What nobody waits for any more is dropped, unless it is on the wire.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ledger.client.errors import LedgerError
from ledger.v1 import hold_pb2 as pb


class Stage(Enum):
    WAITING = auto()
    """In its line, behind another command on the same hold."""
    READY = auto()
    ON_THE_WIRE = auto()
    PAUSING = auto()
    """Between two tries."""
    GONE = auto()
    """Given up before it was sent, and no longer in its line."""


class Item:
    """A command, and who waits for its answer. `ends` is on the loop's clock."""

    __slots__ = (
        "alone",
        "answer",
        "command",
        "ends",
        "in_doubt",
        "key",
        "operation_id",
        "size",
        "stage",
        "timer",
        "tries",
    )

    def __init__(self, command: pb.Command, operation_id: str, key: str, ends: float, answer: "Answer") -> None:
        self.command = command
        self.operation_id = operation_id
        self.key = key
        self.ends = ends
        self.answer = answer
        self.size = command.ByteSize()
        self.stage = Stage.WAITING
        self.tries = 0
        self.in_doubt = False
        self.alone = False
        self.timer: asyncio.TimerHandle | None = None

    @property
    def given_up(self) -> bool:
        return self.answer.done()


Answer = asyncio.Future[pb.CommandResult | LedgerError]


@dataclass(frozen=True, slots=True)
class Batching:
    """How commands are put together: at most so many and so many bytes in a batch, and so many batches on the wire.

    Of three, one is being committed, one waits at the server for its turn, and one is on its way: with two the server had nothing
    to do while a batch was on its way. A command that is longer than `most_bytes` goes alone. The bounds are below those of a
    server with its default settings.
    """

    most_commands: int = 256
    most_bytes: int = 1024 * 1024
    on_the_wire: int = 3

    def __post_init__(self) -> None:
        if min(self.most_commands, self.most_bytes, self.on_the_wire) < 1:
            raise ValueError(f"each bound of {self} must be 1 or more: nothing would ever be sent")


# What protobuf writes around a command of a batch, at most.
_FRAME_BYTES: Final = 8


class Lines:
    """The lines, and what of them is ready to be sent."""

    def __init__(self) -> None:
        self._ready: deque[Item] = deque()
        # An operation that has a command under way, and those that wait behind it.
        self._lines: dict[str, deque[Item] | None] = {}

    @property
    def any_ready(self) -> bool:
        return bool(self._ready)

    def join(self, item: Item) -> None:
        """Puts a command at the end of its line; it is ready if it is the only one."""
        name = item.operation_id
        if name not in self._lines:
            self._lines[name] = None
            self.ready(item)
            return
        line = self._lines[name]
        if line is None:
            line = self._lines[name] = deque()
        line.append(item)

    def ready(self, item: Item) -> None:
        """The first of its line may be sent, for the first time or again."""
        item.stage = Stage.READY
        item.timer = None
        self._ready.append(item)

    def leave(self, item: Item) -> None:
        """The first of a line is done with; the next one that somebody waits for is ready."""
        line = self._lines[item.operation_id]
        while line:
            following = line.popleft()
            if not following.given_up:
                self.ready(following)
                return
        del self._lines[item.operation_id]

    def drop(self, item: Item) -> None:
        """Nobody waits for this command any more: unless it is on the wire, it leaves its line."""
        if item.stage in (Stage.READY, Stage.PAUSING):
            if item.timer is not None:
                item.timer.cancel()
                item.timer = None
            item.stage = Stage.GONE
            self.leave(item)

    def take(self, batching: Batching) -> list[Item]:
        """The next batch; empty if there is nothing to send."""
        batch: list[Item] = []
        room = batching.most_bytes
        while self._ready and len(batch) < batching.most_commands:
            item = self._ready[0]
            if item.given_up:
                self._ready.popleft()
                self.drop(item)
                continue
            room -= item.size + _FRAME_BYTES
            if batch and (room < 0 or item.alone):
                break
            batch.append(self._ready.popleft())
            if item.alone:
                break
        return batch

    def wanted_until(self) -> float | None:
        """When the last of those who wait for what is ready gives up; None if nobody waits."""
        # During an outage nothing is taken: what was given up must not pile up.
        self._ready = deque(item for item in self._ready if not item.given_up)
        return max((item.ends for item in self._ready), default=None)
