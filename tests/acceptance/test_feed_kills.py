"""A reader of the feed that is killed again and again, under load of two servers, has every event once, in order."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ledger.client.calling import TOKEN_VARIABLE
from tests.acceptance.harness import ROOT, LiveLedger, live_ledger
from tests.acceptance.load import Load, open_budget
from tests.figures import record

KILLS = int(os.environ.get("LEDGER_TEST_FEED_KILLS", "3"))
SECONDS = 60


class Follower:
    """What readers have made of the feed: its events as they came, those that came again among them, and the last token."""

    def __init__(self, live: LiveLedger, folder: Path) -> None:
        self.events: list[dict[str, Any]] = []
        self.token = ""
        self._live = live
        self._output = folder / "events.jsonl"

    def read(self, server: int, until: str | None = None) -> None:
        """A reader of its own process: killed at a random moment, or, with `until`, when it has that event."""
        command = [sys.executable, "-m", "ledger", "watch", "--json", "--server", self._live.servers[server].address]
        if self.token:
            command += ["--resume", self.token]
        environment = {**os.environ, TOKEN_VARIABLE: self._live.token("t0", "auditor")}
        with self._output.open("wb") as output:
            reader = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output)
            deadline = time.monotonic() + SECONDS
            wanted = until or '"resume_token"'
            while wanted not in self._output.read_text():
                assert reader.poll() is None
                assert time.monotonic() < deadline, "the reader gets nothing"
                time.sleep(0.02)
            time.sleep(0 if until else random.uniform(0, 0.5))
            reader.send_signal(signal.SIGKILL)
            reader.wait()
        # A line that was being written when the reader died has no end.
        for line in self._output.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                self._take(json.loads(line))

    def _take(self, line: dict[str, Any]) -> None:
        if "resume_token" in line:
            self.token = line["resume_token"]
        else:
            self.events.append(line)


def in_the_rows(live: LiveLedger) -> list[str]:
    with psycopg.connect(live.database_url) as connection:
        rows = connection.execute(
            "SELECT epoch, xid, json_array_length(events) FROM outbox WHERE tenant = 't0' ORDER BY epoch, position, turn, xid"
        ).fetchall()
    return [f"{epoch}-{xid}-{index}" for epoch, xid, length in rows for index in range(length)]


@pytest.mark.timeout(120 + 10 * KILLS)
def test_a_reader_that_is_killed_has_every_event_once_in_order(database_url: str, tmp_path: Path) -> None:
    with live_ledger(database_url, tmp_path, servers=2) as live:
        open_budget(live)
        follower = Follower(live, tmp_path)
        gateway = live.token("t0", "gateway")
        loads = [Load(server.address, gateway, _numbers=count(n, 2)) for n, server in enumerate(live.servers)]

        async def under_load() -> None:
            # On one budget, so that each waits for the other's rows.
            running = [asyncio.create_task(load.run()) for load in loads]
            for number in range(KILLS):
                await asyncio.to_thread(follower.read, number % 2)
            for load in loads:
                load.stopping = True
            await asyncio.wait_for(asyncio.gather(*running), SECONDS)

        asyncio.run(under_load())
        assert [load.refused for load in loads] == [[], []]
        rows = in_the_rows(live)
        follower.read(0, until=rows[-1])
        once = list(dict.fromkeys(event["event_id"] for event in follower.events))
        assert once == rows
        assert live.violations() == []
        versions: dict[str, list[int]] = {}
        for event in {event["event_id"]: event for event in follower.events}.values():
            if "hold" in event:
                versions.setdefault(event["hold"]["operation_id"], []).append(int(event["hold"]["version"]))
        assert all(told == list(range(1, len(told) + 1)) for told in versions.values())
        again = len(follower.events) - len(once)
        record(
            "kill -9 of a reader of the feed", kills=KILLS, events=len(once), told_again=again, missed=0, out_of_order=0
        )
