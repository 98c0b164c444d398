"""Where a caller stops: it says so on a pipe, and does nothing until it is told to go on, or is killed."""

import json
import sys
from typing import Any

from ledger.exercise.boundaries import Boundary


class Fault(Exception):
    """The caller's code fails at the boundary; its process lives on."""


class Barrier:
    """The one boundary at which this process stops, once; None: it stops nowhere."""

    def __init__(self, at: Boundary | None) -> None:
        self._at = at

    def pass_by(self, boundary: Boundary) -> None:
        """Stops the whole process here, event loop and all, if this is the boundary; then raises Fault."""
        if boundary is not self._at:
            return
        self._at = None
        say(reached=boundary)
        if not sys.stdin.readline():
            # Whoever started this process is gone.
            sys.exit(1)
        raise Fault(boundary)


def say(**what: Any) -> None:
    """One line to whoever started this process."""
    print(json.dumps(what), flush=True)
