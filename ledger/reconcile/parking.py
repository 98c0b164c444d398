"""Parking: evidence that came before its hold is filed once the hold is there, and becomes a case if it does not come.

What a reserve sees of it is not relied on: a hold may be made at the very moment at which its evidence is parked, and neither sees
the other. This worker compares what waits with what is there. Only the rules decide, under the locks; servers that do so at once
do no harm: who comes second finds nothing to do.
"""

import logging
from datetime import timedelta

from ledger.domain.commands import FileParked
from ledger.domain.filing import filing
from ledger.domain.refusals import Reason, Refusal
from ledger.domain.waiting import Parked
from ledger.engine.lane import Engine
from ledger.engine.reader import Reader
from ledger.reconcile.looper import Looper
from ledger.store.read import Place, waited

log = logging.getLogger("ledger.reconcile")

BATCH = 500
# The evidence is kept, with the reasons: this, too, is an end of the waiting.
_DECIDED = frozenset({Reason.EVIDENCE_REJECTED, Reason.RESOLUTION_CONFLICT})


class Parking(Looper):
    """Looks at BATCH of what waits in a round, and goes on where the round before ended. `patience` is in seconds."""

    def __init__(self, engine: Engine, reader: Reader, seconds: float, patience: float) -> None:
        super().__init__(seconds)
        self._engine = engine
        self._reader = reader
        self._patience = timedelta(seconds=patience)
        self._most = min(BATCH, engine.room)
        self._after: Place | None = None

    async def tick(self) -> bool:
        after = self._after
        found = await self._reader.ask(lambda connection: waited(connection, self._patience, self._most, after))
        if isinstance(found, Refusal):
            return False
        self._after = found.next
        read = [_read(parked, self._patience) for parked in found.ready]
        filings = [command for command in read if command is not None]
        outcomes = await self._engine.submit(filings) if filings else []
        counts = {"filed": 0, "refused": 0, "orphaned": 0, "unreadable": len(read) - len(filings)}
        for outcome in outcomes:
            counts["filed"] += outcome.hold is not None and (outcome.applied or outcome.replayed)
            counts["refused"] += outcome.refusal is not None and outcome.refusal.reason in _DECIDED
            counts["orphaned"] += outcome.parked
        for what, count in counts.items():
            if count:
                log.info("parked evidence was %s", what, extra={"count": count})
        return self._after is not None


def _read(parked: Parked, patience: timedelta) -> FileParked | None:
    """The command that files a report; None if it cannot be read: a newer version of the service may have parked it."""
    try:
        return filing(parked, patience)
    except (LookupError, TypeError, ValueError, ArithmeticError):
        return None
