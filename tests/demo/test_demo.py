"""The demo as a person or a program runs it: PostgreSQL, the real server and the fake provider, from nothing to an ending."""

import io
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from rich.console import Console

from ledger.demo import recordings, story
from ledger.demo.screen import BALANCES, Ending, Screen
from tests.processes import descendants, environment, is_running

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "ledger", "demo"]


def run(*arguments: str, **given: str) -> "subprocess.CompletedProcess[str]":
    command = [*COMMAND, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment(**given), capture_output=True, text=True, timeout=100, check=False
    )


def databases(server_url: str) -> set[str]:
    with psycopg.connect(server_url) as connection:
        return {name for (name,) in connection.execute("SELECT datname FROM pg_database")}


@pytest.fixture(scope="module")
def told(server_url: str) -> dict[str, Any]:
    """The last line of a run on a given server, which must be left as it was."""
    before = databases(server_url)
    ended = run("--json", DATABASE_URL=server_url)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert databases(server_url) == before
    document: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return document


# operation | what the caller saw | acceptances | state | posted, worked out by hand from the usages and rates
OPERATIONS = """
    chat                answered            1  SETTLED          0.012
    stream              answered            1  SETTLED          0.0165
    lost-reply          time-out              1  SETTLED          0.012
    no-connection       connection refused    0  SETTLED          0
    run-again           answered            1  SETTLED          0.012
    rate-limited        status 429            0  SETTLED          0
    zero-usage          answered            1  SETTLED          0
    blind-resend        connection lost       2  SETTLED          0.012
    no-record-yet       connection lost       1  OUTCOME_UNKNOWN  -
"""


def test_every_operation_ends_as_it_must(told: dict[str, Any]) -> None:
    ends = [
        (o["name"], o["caller_saw"], str(o["provider_acceptances"]), o["state"], o["posted"] or "-")
        for o in told["operations"]
    ]
    lines = [tuple(part.strip() for part in line.split("  ") if part) for line in OPERATIONS.strip().splitlines()]
    assert ends == lines


def test_what_is_not_known_stays_held(told: dict[str, Any]) -> None:
    assert told["balances"]["acme-support"] == {
        "available": "0.9055",
        "held": "0",
        "unknown": "0.03",
        "spent": "0.0645",
        "deficit": "0",
    }


def test_a_call_that_was_sent_twice_leaves_an_incident_open(told: dict[str, Any]) -> None:
    assert told["incidents"] == ["DOUBLE_ACCEPTANCE of blind-resend"]


def test_the_books_keep_every_law(told: dict[str, Any]) -> None:
    assert told["check"]["violations"] == 0
    assert sum(law["checked"] for law in told["check"]["laws"]) > 0
    assert told["failures"] == []


def test_the_recorded_usages_cost_what_their_recorders_expect(told: dict[str, Any]) -> None:
    recorded = told["recorded_usages"]
    assert recorded["rows"] == len(recordings.read())
    assert recorded["settled"] == recorded["agreeing"]
    assert recorded["settled"] + recorded["refused"] == recorded["rows"]


def test_a_person_sees_the_story_within_a_hundred_columns(temporary: Path) -> None:
    ended = run(NO_COLOR="1", COLUMNS="300", TMPDIR=str(temporary))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert max(len(line) for line in ended.stdout.splitlines()) <= 100
    assert "\x1b" not in ended.stdout
    for said in ("OUTCOME_UNKNOWN", "none yet", "DOUBLE_ACCEPTANCE", "; 0 violations.", "Everything is as it must be"):
        assert said in ended.stdout
    if number := len(recordings.read()):
        assert f"Recorded usages of real providers: {number}; settled " in ended.stdout
    assert list(temporary.iterdir()) == []


def test_no_word_of_the_tables_is_cut_on_eighty_columns() -> None:
    shown = io.StringIO()
    rows = [
        story.Row("no-connection", "connection refused", 0, "executed twice", "SETTLED", "0.063", "0.0165"),
        story.Row("no-record-yet", "connection lost", 1, "executed", "OUTCOME_UNKNOWN", "0.03", None),
    ]
    balances = dict.fromkeys(BALANCES, "96.412087")
    ending = Ending(rows, [], {"acme-support": balances}, recordings.Replayed(), [], [], limits={"acme-support": "100"})
    Screen(Console(file=shown, force_terminal=True, width=80, no_color=True, highlight=False)).close(ending)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue()).splitlines()
    assert max(len(line) for line in lines) <= 80
    assert "…" not in "".join(lines)
    for words in (
        "no-connection",
        "connection",
        "refused",
        "executed twice",
        "OUTCOME_UNKNOWN",
        "none yet",
        "96.412087",
    ):
        assert words in "\n".join(lines)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("said", [b"Starting PostgreSQL", b"lost-reply:"])
def test_an_interrupted_demo_leaves_nothing_behind(number: signal.Signals, said: bytes, temporary: Path) -> None:
    own = environment(TMPDIR=str(temporary))
    demo = subprocess.Popen(COMMAND, cwd=ROOT, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert demo.stdout is not None
    while said not in (line := demo.stdout.readline()):
        assert line, "the demo ended"
    # In the middle of what it then does.
    time.sleep(0.2)
    started = descendants(demo.pid)
    assert started
    demo.send_signal(number)
    _, errors = demo.communicate(timeout=60)
    assert (demo.returncode, b"Traceback" in errors) == (130, False), errors
    assert not any(is_running(pid) for pid in started)
    assert list(temporary.iterdir()) == []


def test_a_server_that_cannot_be_reached_is_said_and_not_traced() -> None:
    ended = run(DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")
    assert ended.returncode == 2
    assert "The demo could not begin" in ended.stderr
    assert "Traceback" not in ended.stderr
