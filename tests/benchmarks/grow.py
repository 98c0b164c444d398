"""A ledger with a past: settled holds by the hundred thousand, through the engine itself in this process."""

import sys

from ledger.domain.model import Caller
from ledger.domain.refusals import Refusal
from ledger.engine.batch import Runner
from ledger.service.translate import commands
from ledger.store.database import Database
from tests.benchmarks import workload

SIZE = 500
SAID_EVERY = 50_000


def grow(url: str, caller: Caller, holds: int, budgets: int) -> None:
    """Adds so many settled holds of one level to a database, in turn on so many budgets."""
    database = Database(url, pool_size=1)
    runner = Runner(database)
    try:
        for batch in range(-(-holds // SIZE)):
            size = min(SIZE, holds - batch * SIZE)
            lives = workload.operations("past", batch, SIZE)
            for request in workload.batches(dict(list(lives.items())[:size]), batch % budgets):
                _, asked = commands.batch(request, caller)
                outcomes = runner.execute([command for command in asked if not isinstance(command, Refusal)])
                if len(outcomes) != size or any(outcome.refusal is not None for outcome in outcomes):
                    raise RuntimeError("a command of the past was refused")
            done = batch * SIZE + size
            if done % SAID_EVERY == 0 or done == holds:
                print(f"  {done:,} of {holds:,} settled holds are there …", file=sys.stderr, flush=True)
    finally:
        database.close()
