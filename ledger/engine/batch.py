"""A batch and what may become of it: done, tried again, taken apart, or in doubt.

Every command gets an outcome. A technical fault is never told as a business refusal, and what may have been written is never told
as failed.
"""

import logging
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ledger.domain.batch import Outcome
from ledger.domain.commands import Command
from ledger.engine import faults
from ledger.engine.apply import CommitInDoubt, apply
from ledger.engine.faults import Fault, classify, sqlstate
from ledger.engine.ids import Ids
from ledger.store.database import Database
from ledger.store.fate import Fate, fate_of

log = logging.getLogger("ledger.engine")

# No COMMIT is begun later (seconds) than this after the batch was: what was not there by then, plus the time of one COMMIT, will
# not come to be there by itself.
LONGEST = 60.0
# Faults of one command: those beside it can be done without it.
_OF_ONE = frozenset({Fault.TAKEN, Fault.POISON, Fault.ZONE})


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long (seconds) a batch is tried before its callers are told to come back."""

    contention_tries: int = 8
    lost_tries: int = 4
    alone_tries: int = 2
    first_pause: float = 0.01
    longest_pause: float = 0.5
    total: float = 20.0
    doubt: float = 5.0

    def tries(self, fault: Fault) -> int:
        """How often a batch with this fault is tried in all. What people must repair is not tried again."""
        return {
            Fault.CONTENTION: self.contention_tries,
            Fault.LOST: self.lost_tries,
            Fault.UNFIT: 1,
            Fault.ZONE: 1,
            # Alone, the command finds the row when it is tried again, unless a third was faster once more.
            Fault.TAKEN: self.contention_tries,
            Fault.POISON: self.alone_tries,
        }[fault]


class Runner:
    """Executes batches, one after the other. Belongs to one lane."""

    def __init__(self, database: Database, patience: Patience | None = None) -> None:
        self._database = database
        self._patience = patience or Patience()
        self._ids = Ids()

    def execute(self, commands: Sequence[Command]) -> list[Outcome]:
        """One outcome for each command, in their order. No hold and no idempotency key is named twice."""
        return self._execute(commands, time.monotonic() + LONGEST) if commands else []

    def _execute(self, commands: Sequence[Command], not_after: float) -> list[Outcome]:
        tries = dict.fromkeys(Fault, 0)
        ends = min(time.monotonic() + self._patience.total, not_after)
        while True:
            error = self._attempt(commands, not_after)
            if isinstance(error, list):
                return error
            fault = classify(error)
            tries[fault] += 1
            if fault in _OF_ONE and len(commands) > 1:
                return self._halves(commands, not_after)
            if fault in (Fault.LOST, Fault.UNFIT):
                # The pool's other connections are as dead as this one, or as read-only: a session keeps the settings, and the
                # server, with which it began.
                self._database.close()
            if tries[fault] >= self._patience.tries(fault) or time.monotonic() > ends:
                _log_given_up(commands, fault, error)
                return [faults.outcome(fault, error)] * len(commands)
            time.sleep(self._pause(sum(tries.values())))

    def _attempt(self, commands: Sequence[Command], not_after: float) -> list[Outcome] | Exception:
        """The outcomes, or what kept the transaction from being written."""
        try:
            return apply(self._database, commands, self._ids, not_after)
        except CommitInDoubt as doubt:
            fate = self._fate(doubt)
            if fate is Fate.COMMITTED:
                return doubt.decision.outcomes
            if fate is Fate.UNKNOWN:
                return [faults.in_doubt()] * len(commands)
            return doubt.error
        except Exception as error:
            return error

    def _halves(self, commands: Sequence[Command], not_after: float) -> list[Outcome]:
        """Something in the batch makes it fail: the half without it goes through, and in the end the culprit stands alone."""
        middle = len(commands) // 2
        return self._execute(commands[:middle], not_after) + self._execute(commands[middle:], not_after)

    def _fate(self, doubt: CommitInDoubt) -> Fate:
        """Asks what became of a transaction, until the database says or patience ends."""
        log.warning("COMMIT did not answer", extra={"sqlstate": sqlstate(doubt.error)})
        ends = time.monotonic() + self._patience.doubt
        asked = 0
        while True:
            try:
                with self._database.read() as connection:
                    fate = fate_of(connection, doubt.transaction_id, doubt.decision)
            except Exception as error:
                if classify(error) is Fault.POISON:
                    log.exception("the fate of a transaction cannot be asked")
                    return Fate.UNKNOWN
                self._database.close()
                fate = Fate.UNKNOWN
            if fate is not Fate.UNKNOWN or time.monotonic() >= ends:
                log.warning("the transaction's fate: %s", fate.value)
                return fate
            asked += 1
            time.sleep(self._pause(asked))

    def _pause(self, tries: int) -> float:
        longest = min(self._patience.longest_pause, self._patience.first_pause * 2.0**tries)
        return random.uniform(0, longest)  # noqa: S311 - jitter


def _log_given_up(commands: Sequence[Command], fault: Fault, error: Exception) -> None:
    """Logs who and what kind of command it was, never its content."""
    first = commands[0]
    facts = {"tenant": first.caller.tenant, "actor": first.caller.actor, "method": first.NAME, "count": len(commands)}
    facts["sqlstate"] = sqlstate(error)
    trace = error if fault in (Fault.TAKEN, Fault.POISON) else None
    log.error("given up: %s", fault.value, exc_info=trace, extra=facts)
