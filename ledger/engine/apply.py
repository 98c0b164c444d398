"""One transaction: lock and load, decide, save, commit."""

import random
import time
from collections.abc import Sequence

from ledger.domain.batch import Decision, Outcome
from ledger.domain.commands import Command
from ledger.domain.decide import decide
from ledger.domain.needs import STRIPES
from ledger.engine.ids import Ids
from ledger.store.database import Database
from ledger.store.fitness import trust
from ledger.store.load import load
from ledger.store.save import save


class TookTooLong(Exception):
    """The transaction was undone, because its time was over before it could be committed."""


class CommitInDoubt(Exception):
    """COMMIT did not answer. `transaction_id` finds out what became of it, `decision` is what it was to write."""

    def __init__(self, transaction_id: str, decision: Decision, error: Exception) -> None:
        super().__init__(transaction_id)
        self.transaction_id = transaction_id
        self.decision = decision
        self.error = error


def apply(
    database: Database, commands: Sequence[Command], ids: Ids | None = None, not_after: float | None = None
) -> list[Outcome]:
    """Decides and commits the commands; one outcome each, in their order. A constant number of statements.

    The caller guarantees that no hold and no idempotency key is named twice. `not_after`, on the clock of `time.monotonic`: no
    COMMIT is begun later. Raises CommitInDoubt if COMMIT fails; any other exception means that nothing was written.
    """
    ids = ids or Ids()
    doubt: CommitInDoubt | None = None
    decision: Decision | None = None
    committed = False
    try:
        with database.transaction() as connection:
            trust(connection)
            loaded, transaction_id = load(connection, commands, random.randrange(STRIPES), ids)  # noqa: S311 - only spreads load
            ids.at(loaded.now)
            decision = decide(loaded, commands)
            save(connection, decision, loaded)
            if not_after is not None and time.monotonic() >= not_after:
                raise TookTooLong
            try:
                connection.commit()
                committed = True
            except Exception as error:
                doubt = CommitInDoubt(transaction_id, decision, error)
    except Exception:
        # After COMMIT has answered or failed, giving the connection back is of no consequence.
        if not committed and doubt is None:
            raise
    if doubt is not None:
        raise doubt from doubt.error
    assert decision is not None, "without an exception there is a decision"
    return decision.outcomes
