"""A threshold is crossed once, however many batches of however many processes reach for it at the same time."""

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

from ledger.audit.check import check
from ledger.domain.commands import Command, CreateBudget
from ledger.domain.thresholds import Thresholds
from ledger.engine.batch import Runner
from ledger.store import feed
from ledger.store.database import Database
from tests.store import samples as s
from tests.store.samples import ADMIN, T

PERCENTS = tuple(range(10, 101, 10))
LANES = 4


def test_many_lanes_cross_each_threshold_once(database: Database, database_url: str) -> None:
    made = CreateBudget(ADMIN, "k", "team", None, "USD", "", Decimal(200), thresholds=Thresholds(PERCENTS))
    s.apply(database, [made])
    lanes = [Database(database_url, pool_size=1) for _ in range(LANES)]

    def drive(number: int) -> None:
        runner = Runner(lanes[number])
        for turn in range(10):
            names = [f"op-{number}-{turn}-{k}" for k in range(5)]
            held: list[Command] = [s.dispatched(name) for name in names]
            settled: list[Command] = [s.settle(name) for name in names]
            for batch in (held, settled):
                assert all(outcome.refusal is None for outcome in runner.execute(batch))

    with ThreadPoolExecutor(LANES) as pool:
        for driving in [pool.submit(drive, number) for number in range(LANES)]:
            driving.result(60)
    for lane in lanes:
        lane.close()
    with database.read() as connection:
        batches = feed.batches(connection, T, None, 1000)
    crossed = [event for batch in batches for event in batch.events if event["type"] == "THRESHOLD"]
    # 200 holds of 1 on a budget of 200: the last of them reaches 100 %, whatever the order.
    assert [event["percent"] for event in crossed] == list(PERCENTS)
    assert s.column(database, "SELECT crossed FROM book WHERE budget_id = 'team'") == [list(PERCENTS)]
    assert [law.law for law in check(database) if law.violations] == []
