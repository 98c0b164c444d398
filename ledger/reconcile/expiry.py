"""Expiry: reservations whose time has run out are released, attempts whose lease has run out become unknown.

Only the rules decide what follows, under the hold's lock and by the database's clock; this worker merely says which holds to look
at. Two servers that sweep at once, or a hold that was settled in between, do no harm: the later Lapse changes nothing.
"""

import logging

from ledger.domain.commands import Lapse
from ledger.domain.model import Caller, Role
from ledger.domain.refusals import Refusal
from ledger.engine.lane import Engine
from ledger.engine.reader import Reader
from ledger.reconcile.looper import Looper
from ledger.store.read import due

log = logging.getLogger("ledger.reconcile")

ACTOR = "system:expiry"
BATCH = 500


class Expiry(Looper):
    """Sweeps at most BATCH holds in a round, and no more than the engine ever has room for: it takes all of a call, or none."""

    def __init__(self, engine: Engine, reader: Reader, seconds: float) -> None:
        super().__init__(seconds)
        self._engine = engine
        self._reader = reader
        self._most = min(BATCH, engine.room)

    async def tick(self) -> bool:
        rows = await self._reader.ask(lambda connection: due(connection, self._most))
        if isinstance(rows, Refusal):
            return False
        lapses = [
            # A hold lapses at most once: what follows is terminal or unknown, and neither runs out. So its name is the key.
            Lapse(Caller(tenant, ACTOR, Role.SYSTEM), operation_id, operation_id)
            for tenant, operation_id in rows
        ]
        outcomes = await self._engine.submit(lapses) if lapses else []
        applied = sum(outcome.refusal is None and outcome.applied for outcome in outcomes)
        if applied:
            log.info("lapsed", extra={"count": applied})
        # Where nothing could be applied, asking again at once would ask in vain.
        return len(rows) == self._most and applied > 0
