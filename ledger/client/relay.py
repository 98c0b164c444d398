"""Which events of a stream are passed on, and which are held back until the ledger knows how the call ended."""

from collections.abc import Callable
from typing import Generic, TypeVar

Event = TypeVar("Event")
Found = TypeVar("Found")


def never(_event: object) -> bool:
    """Says of no event that it is the last."""
    return False


class Relay(Generic[Event, Found]):
    """`held` are the events from the end on, in their order; `found` is the last final usage that one of them brought."""

    def __init__(self, usage: Callable[[Event], Found | None], terminal: Callable[[Event], bool]) -> None:
        self._usage = usage
        self._terminal = terminal
        self.held: list[Event] = []
        self.found: Found | None = None

    def passes(self, event: Event) -> bool:
        """Whether the event is passed on now; else it is held."""
        found = self._usage(event)
        if found is not None:
            self.found = found
        if found is None and not self.held and not self._terminal(event):
            return True
        self.held.append(event)
        return False
