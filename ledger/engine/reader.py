"""Reads: each in a thread of a small pool, on a snapshot of its own, never in the way of the lanes."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import Connection

from ledger.domain.refusals import Reason, Refusal
from ledger.engine import faults
from ledger.engine.faults import Fault, classify, sqlstate
from ledger.store.database import Database

log = logging.getLogger("ledger.engine")

Answer = TypeVar("Answer")


class Reader:
    """Asks the database on behalf of coroutines. `threads` is at most the size of the database's pool of readers."""

    def __init__(self, database: Database, threads: int = 4) -> None:
        self._database = database
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="read")

    async def ask(self, question: Callable[[Connection], Answer]) -> Answer | Refusal:
        """The answer of a function over a read-only connection, or the refusal STORE_UNAVAILABLE.

        A lost connection is tried once more; what the question itself raises is passed on.
        """
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._ask, question)

    def close(self) -> None:
        """Lets the reads in progress end."""
        self._pool.shutdown(wait=True)

    def _ask(self, question: Callable[[Connection], Answer]) -> Answer | Refusal:
        for last in (False, True):
            try:
                with self._database.read() as connection:
                    return question(connection)
            except Exception as error:
                fault = classify(error)
                if fault is Fault.POISON:
                    raise
                if fault in (Fault.LOST, Fault.UNFIT):
                    # The pool's other connections were opened before the loss, or the repair, too.
                    self._database.close()
                if fault is Fault.LOST and not last:
                    continue
                log.error("a read failed: %s", fault.value, extra={"sqlstate": sqlstate(error)})
                return _refusal(error, fault)
        raise AssertionError("unreachable: the last try returns or raises")


def _refusal(error: Exception, fault: Fault) -> Refusal:
    match fault:
        case Fault.CONTENTION:
            message = "The read took too long and was ended: ask for a smaller page."
        case Fault.UNFIT | Fault.ZONE:
            message = faults.remedy(error)
        case _:
            message = "The database cannot be reached: ask again."
    return Refusal(Reason.STORE_UNAVAILABLE, message)
