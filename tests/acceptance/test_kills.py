"""kill -9 of the server, and of PostgreSQL, under load: nothing that was acknowledged is lost, nothing is half there.

LEDGER_TEST_KILLS says how often each process is killed; the default is small.
"""

import asyncio
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger.store.migrate import migrate
from ledger.store.postgres import LocalPostgres
from tests.acceptance.harness import LiveLedger, live_ledger
from tests.acceptance.load import CALLERS, Load, lost, nothing_lost_and_nothing_twice, open_budget
from tests.figures import record

KILLS = int(os.environ.get("LEDGER_TEST_KILLS", "2"))


async def under_load(live: LiveLedger, kill_and_restart: Callable[[], None]) -> Load:
    load = Load(live.servers[0].address, live.token("t0", "gateway"))
    running = asyncio.create_task(load.run())
    for _ in range(KILLS):
        before = len(load.acknowledged)
        await asyncio.sleep(random.uniform(0.2, 0.6))
        while len(load.acknowledged) < before + CALLERS and not load.refused:
            await asyncio.sleep(0.02)
        told = dict(load.acknowledged)
        await asyncio.to_thread(kill_and_restart)
        assert lost(live.database_url, told) == []
    load.stopping = True
    await asyncio.wait_for(running, 60)
    return load


def nothing_lost(live: LiveLedger, load: Load, victim: str) -> None:
    nothing_lost_and_nothing_twice(live, load)
    record(
        f"kill -9 of {victim}",
        kills=KILLS,
        lifecycles=len(load.acknowledged),
        repeated_calls=load.repeated.total(),
        lost=0,
        half_posted=0,
        **load.repeated,
    )


@pytest.mark.timeout(60 + 10 * KILLS)
def test_the_server_is_killed_under_load(database_url: str, tmp_path: Path) -> None:
    with live_ledger(database_url, tmp_path) as live:
        open_budget(live)

        def kill_and_restart() -> None:
            live.servers[0].kill()
            live.servers[0].start()

        load = asyncio.run(under_load(live, kill_and_restart))
        nothing_lost(live, load, "the server")


@pytest.mark.timeout(60 + 15 * KILLS)
def test_postgresql_is_killed_under_load(tmp_path: Path) -> None:
    # Not pytest's folder: a server that drops root could not enter it.
    data = Path(tempfile.mkdtemp(prefix="ledger-kill-"))
    postgres = LocalPostgres(data)
    try:
        url = postgres.start()
        migrate(url)
        with live_ledger(url, tmp_path) as live:
            open_budget(live)

            def kill_and_restart() -> None:
                pid = int((postgres.cluster / "postmaster.pid").read_text().split()[0])
                os.kill(pid, signal.SIGKILL)
                postgres.stop()
                time.sleep(random.uniform(0, 0.3))
                assert postgres.start() == url

            load = asyncio.run(under_load(live, kill_and_restart))
            nothing_lost(live, load, "PostgreSQL")
    finally:
        postgres.stop()
        shutil.rmtree(data, ignore_errors=True)
