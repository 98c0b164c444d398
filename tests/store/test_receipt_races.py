"""One receipt of a provider that evidence brings to two operations at the same moment, on real connections."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import uuid4

from sqlalchemy import text

from ledger.domain.commands import CreateBudget, Resolve, Usage
from ledger.domain.decide import decide
from ledger.domain.needs import STRIPES
from ledger.engine.batch import Runner
from ledger.store.database import Database
from ledger.store.load import load
from ledger.store.save import save
from tests.store import samples as s
from tests.store.samples import ADMIN

# None that the engine takes: the two meet nowhere but at the receipt.
STRIPE = STRIPES


def settle(operation_id: str) -> Resolve:
    command = s.settle(operation_id)
    assert isinstance(command.evidence, Usage)
    return replace(command, evidence=replace(command.evidence, provider_receipt="rcpt-1"))


def test_the_second_settles_and_does_not_get_the_receipt(database: Database) -> None:
    for name in ("one", "two"):
        s.apply(database, [CreateBudget(ADMIN, name, name, None, "USD", "", None)])
        s.apply(database, [replace(s.dispatched(name), budget_ids=(name,))])
    with ThreadPoolExecutor(1) as pool, database.transaction() as first:
        commands = [settle("one")]
        loaded, _ = load(first, commands, STRIPE, uuid4)
        save(first, decide(loaded, commands), loaded)
        later = pool.submit(Runner(database).execute, [settle("two")])
        waiting = text(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'transactionid'"
        )
        for _ in range(1000):
            with database.read() as connection:
                if connection.execute(waiting).scalar_one():
                    break
        else:
            raise AssertionError("it does not wait")
        first.commit()
        (outcome,) = later.result(30)
    assert outcome.applied
    assert outcome.incident_id is not None
    assert s.column(database, "SELECT concat_ws(' ', state, provider_receipt) FROM hold ORDER BY operation_id") == [
        "SETTLED rcpt-1",
        "SETTLED",
    ]
    assert s.column(database, "SELECT kind || ' ' || operation_id FROM incident") == ["RECEIPT_CONFLICT two"]
