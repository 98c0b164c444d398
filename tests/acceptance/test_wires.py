"""A wire that fails, between caller and server and between server and PostgreSQL: every call is repeated with its key to an end.

LEDGER_TEST_FAULTS says how many operations each kind of fault must have disturbed, on either wire; the default is small.
"""

import asyncio
import os
from pathlib import Path

import pytest
from sqlalchemy import URL, make_url

from tests.acceptance.harness import LiveLedger, live_ledger
from tests.acceptance.load import Load, nothing_lost_and_nothing_twice, open_budget
from tests.acceptance.wire import Wire, WireFault, wired
from tests.figures import record

FAULTS = int(os.environ.get("LEDGER_TEST_FAULTS", "16"))
# Of a piece that is sent. What ends a connection disturbs every call on it; what only slows it, one piece.
PROBABILITY = dict.fromkeys(WireFault, 0.02) | {WireFault.DELAY: 0.3, WireFault.THROTTLE: 0.3}
LONGEST = 30 + FAULTS * 0.4
SLOW = (WireFault.DELAY, WireFault.THROTTLE)
# From so many faults on every rare state is reached.
ENOUGH = 1000
TO_SERVER, TO_POSTGRESQL = "caller to server", "server to PostgreSQL"


def disturb(live: LiveLedger, where: str, address: str, wire: Wire, fault: WireFault) -> None:
    """Runs a load while the fault strikes, until enough operations were disturbed and all that was begun is done."""
    load = Load(address, live.token("t0", "gateway"), timeout=2, disturbances=lambda: wire.struck)

    async def until_enough() -> None:
        running = asyncio.create_task(load.run())
        while load.disturbed < FAULTS and not load.stopping:
            await asyncio.sleep(0.02)
        load.stopping = True
        await running

    wire.spoil(fault, PROBABILITY[fault])
    asyncio.run(until_enough())
    wire.mend()
    nothing_lost_and_nothing_twice(live, load)
    assert wire.struck, "the fault never came"
    assert load.disturbed >= FAULTS
    commits = live.logged("COMMIT did not answer")
    if FAULTS >= ENOUGH and fault not in SLOW:
        assert load.repeated if where == TO_SERVER else commits, "the connection was never lost at the wrong moment"
    record(
        f"wire, {where}, {fault.name}",
        faults=wire.struck,
        operations=len(load.acknowledged),
        disturbed=load.disturbed,
        repeated_calls=load.repeated.total(),
        duplicates=0,
        lost=0,
        wrong_refusals=0,
        unresolved=0,
        commits_without_an_answer=commits,
        **load.repeated,
    )


@pytest.mark.timeout(LONGEST)
@pytest.mark.parametrize("fault", WireFault)
def test_between_caller_and_server(fault: WireFault, database_url: str, tmp_path: Path) -> None:
    with live_ledger(database_url, tmp_path) as live:
        open_budget(live)
        host, _, port = live.servers[0].address.rpartition(":")
        with wired(lambda: asyncio.open_connection(host, int(port))) as wire:
            disturb(live, TO_SERVER, f"127.0.0.1:{wire.port}", wire, fault)


@pytest.mark.timeout(LONGEST)
@pytest.mark.parametrize("fault", WireFault)
def test_between_server_and_postgresql(fault: WireFault, database_url: str, tmp_path: Path) -> None:
    url = make_url(database_url)
    folder = url.query["host"]
    assert isinstance(folder, str)
    path = Path(folder) / f".s.PGSQL.{url.query.get('port', url.port or 5432)}"
    with wired(lambda: asyncio.open_unix_connection(path)) as wire:
        through = URL.create("postgresql", url.username, host="127.0.0.1", port=wire.port, database=url.database)
        with live_ledger(through.render_as_string(hide_password=False), tmp_path) as live:
            open_budget(live)
            disturb(live, TO_POSTGRESQL, live.servers[0].address, wire, fault)
