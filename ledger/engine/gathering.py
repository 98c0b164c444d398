"""Who is next: concurrent calls become batches in which no hold and no idempotency key appears twice.

Every step (one command) stands in line for its hold, then for its receipt key, in the order in which it came; only the first in
both lines is ready. A key stays taken until the batch of its step is done, so that with several lanes, too, a command is begun
only after the one before it on the same hold has been committed.
"""

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from ledger.domain.batch import Outcome
from ledger.domain.commands import Command

Key: TypeAlias = tuple[str, ...]


class Call:
    """The commands of one request, and their outcomes as they come in.

    `deadline` is on the clock of `time.monotonic`. A call that is `abandoned` has nobody waiting for it: what was not begun is
    dropped.
    """

    __slots__ = ("abandoned", "commands", "deadline", "missing", "outcomes")

    def __init__(self, commands: Sequence[Command], deadline: float | None = None) -> None:
        self.commands = commands
        self.deadline = deadline
        self.abandoned = False
        self.missing = len(commands)
        self.outcomes: list[Outcome | None] = [None] * len(commands)

    def too_late(self, now: float) -> bool:
        return self.abandoned or (self.deadline is not None and self.deadline <= now)

    def answers(self) -> list[Outcome]:
        """The outcomes in the order of the commands, once none is missing."""
        assert self.missing == 0
        return [outcome for outcome in self.outcomes if outcome is not None]


class Step(NamedTuple):
    call: Call
    position: int
    command: Command
    keys: tuple[Key, ...]


class Gathering:
    """A bounded queue of steps that gives out batches. Safe for any number of threads."""

    def __init__(self, capacity: int, limit: int) -> None:
        self._capacity = capacity
        self._limit = limit
        self._ready: deque[Step] = deque()
        # A key that is taken, and the steps that wait for it, each with how many of its keys it has already.
        self._lines: dict[Key, deque[tuple[Step, int]] | None] = {}
        self._waiting = 0
        self._closed = False
        self._changed = threading.Condition(threading.Lock())

    def put(self, call: Call) -> bool:
        """Lines up the commands of a call, all or none. False if there is no room or the gathering is closed."""
        steps = [Step(call, i, command, _keys(command)) for i, command in enumerate(call.commands)]
        with self._changed:
            if self._closed or self._waiting + len(steps) > self._capacity:
                return False
            self._waiting += len(steps)
            for step in steps:
                self._line_up(step, 0)
            if self._ready:
                self._changed.notify()
        return True

    def take(self) -> list[Step] | None:
        """Waits for steps and takes as many as a batch may have. None when closed and empty."""
        with self._changed:
            while not self._ready:
                if self._closed and not self._waiting:
                    return None
                # Steps that wait for a key of another lane's batch become ready through `done`, which notifies.
                self._changed.wait()
            ready = self._ready
            batch = [ready.popleft() for _ in range(min(len(ready), self._limit))]
            self._waiting -= len(batch)
            return batch

    def done(self, steps: Sequence[Step], outcomes: Sequence[Outcome]) -> list[Call]:
        """Records the outcomes of a batch and lets the next in line go on. Returns the calls that are complete now."""
        complete = []
        with self._changed:
            for step, outcome in zip(steps, outcomes, strict=True):
                call = step.call
                call.outcomes[step.position] = outcome
                call.missing -= 1
                if not call.missing:
                    complete.append(call)
                for key in step.keys:
                    self._free(key)
            if self._ready or (self._closed and not self._waiting):
                self._changed.notify_all()
        return complete

    def close(self) -> None:
        """Takes nothing more in. What is lined up is still given out."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def waiting(self) -> int:
        """How many steps are lined up and not begun."""
        return self._waiting

    def _line_up(self, step: Step, held: int) -> None:
        lines = self._lines
        keys = step.keys
        while held < len(keys):
            key = keys[held]
            if key in lines:
                line = lines[key]
                if line is None:
                    line = lines[key] = deque()
                line.append((step, held))
                return
            lines[key] = None
            held += 1
        self._ready.append(step)

    def _free(self, key: Key) -> None:
        line = self._lines[key]
        if not line:
            del self._lines[key]
            return
        # The key passes to the next in line without being free in between.
        step, held = line.popleft()
        self._line_up(step, held + 1)


def monotonic_deadline(seconds: float | None) -> float | None:
    """The deadline of a call that has so many seconds left."""
    return None if seconds is None else time.monotonic() + seconds


def _keys(command: Command) -> tuple[Key, ...]:
    """Hold before receipt key, for every command: no two steps can wait for each other."""
    hold_key: Key | None = getattr(command, "hold_key", None)
    return (command.receipt_key,) if hold_key is None else (hold_key, command.receipt_key)
