"""The exercise as a person or a program runs it, and what it says of a guard that is none.

LEDGER_TEST_KILLS says how often each process is killed; the default is small.
"""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ledger.demo.stage import stage
from ledger.exercise.boundaries import Boundary, Modes, Style
from ledger.exercise.cases import Case, Outcome, cases
from ledger.exercise.kills import Killed, stream_of
from ledger.exercise.play import play
from ledger.exercise.process import Caller
from ledger.exercise.provider import Provider
from ledger.exercise.run import SWEEP_SECONDS
from ledger.exercise.scene import scene_on
from ledger.exercise.screen import Ending, Screen
from ledger.exercise.verdict import Verdict, judge
from tests.figures import record
from tests.processes import descendants, environment, is_running

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "ledger", "exercise"]
KILLS = int(os.environ.get("LEDGER_TEST_KILLS", "1"))


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """What a whole run says. It must leave nothing behind."""
    with tempfile.TemporaryDirectory(prefix="ledger-test-") as folder:
        Path(folder).chmod(0o711)
        ended = subprocess.run(
            [*COMMAND, "--json", "--kills", str(KILLS)],
            cwd=ROOT,
            env=environment(TMPDIR=folder),
            capture_output=True,
            text=True,
            timeout=110 + 20 * KILLS,
            check=False,
        )
        assert list(Path(folder).iterdir()) == []
    assert ended.stdout, ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    assert (ended.returncode, document["faults"]) == (0, []), ended.stderr
    return document


pytestmark = pytest.mark.timeout(120 + 20 * KILLS)


def test_every_fault_was_reached(told: dict[str, Any]) -> None:
    reached = Counter((c["boundary"], c["style"], c["killed"]) for c in told["cases"] if c["reached"])
    for boundary in Boundary:
        for style in ("guarded", "blind resend"):
            for killed in (False, True):
                assert reached[boundary, style, killed] >= 1, (boundary, style, killed)
    assert len(told["cases"]) == reached.total() == len(cases())


# boundary | accepted of a guarded caller, and of one that sends again, at a provider without idempotency
ACCEPTED = {
    "before dispatch": (1, 1),
    "after dispatch": (0, 1),
    "after acceptance": (1, 2),
    "after the receipt": (1, 2),
    "during finalisation": (1, 2),
    "control: nothing was sent": (1, 1),
}


def test_only_blind_callers_are_charged_twice(told: dict[str, Any]) -> None:
    plain = [
        c
        for c in told["cases"]
        if not c["provider"]["idempotent"] and c["provider"]["look_up"] and not c["provider"]["usage_seconds"]
    ]
    assert len(plain) == 4 * len(ACCEPTED)
    for case in plain:
        assert case["accepted"] == ACCEPTED[case["boundary"]][case["style"] != "guarded"], case
    twice = [case for case in told["cases"] if case["accepted"] > 1]
    assert twice
    for case in twice:
        # Either the books have both, or a case says what they do not have.
        assert case["style"] != "guarded"
        assert len(case["holds"]) == 2 or case["incidents"] == ["DOUBLE_ACCEPTANCE"]


def test_what_is_not_known_is_listed_with_its_age_and_amount(told: dict[str, Any]) -> None:
    unknown = {
        hold["operation_id"] for case in told["cases"] for hold in case["holds"] if hold["state"] == "OUTCOME_UNKNOWN"
    }
    listed = told["unknown"]
    # After the dispatch, raised and killed; at a silent provider, raised and killed.
    assert len(unknown) == 4
    assert unknown <= {hold["operation_id"] for hold in listed}
    assert len(listed) == len(unknown) + told["kills"]["unknown"]
    assert all(hold["age_seconds"] > 0 and Decimal(hold["amount"]) == Decimal("0.03") for hold in listed)
    assert [h["age_seconds"] for h in listed] == sorted((h["age_seconds"] for h in listed), reverse=True)


def test_a_webhook_that_comes_twice_or_early_settles_once(told: dict[str, Any]) -> None:
    seen = [c for c in told["cases"] if c["provider"]["webhooks"] == 2 and c["accepted"] == 1]
    assert {c["provider"]["early"] for c in seen} == {True, False}
    for case in seen:
        assert (case["webhooks"], case["entries"].count("SETTLE"), case["spent"]) == (2, 1, "0.012")


def test_kills_at_random_lose_and_double_nothing(told: dict[str, Any]) -> None:
    kills = told["kills"]
    assert kills["kills"] == {"caller": KILLS, "server": KILLS, "PostgreSQL": KILLS}
    assert kills["faults"] == []
    assert 0 < kills["acknowledged"] <= kills["settled"]
    assert kills["accepted"] <= kills["settled"]
    assert kills["settled"] + kills["released"] + kills["unknown"] == kills["operations"]
    assert told["check"]["violations"] == 0
    counted = {name: kills[name] for name in ("operations", "accepted", "settled", "released", "unknown", "seed")}
    record("exercise", kills_of_each=KILLS, **counted)


def test_a_webhook_that_comes_before_its_hold_stops_the_second_send(told: dict[str, Any]) -> None:
    seen = [case for case in told["cases"] if case["style"] == "sends, then asks"]
    assert [case["killed"] for case in seen] == [False, True]
    for case in seen:
        assert (case["accepted"], case["webhooks"], case["spent"]) == (1, 2, "0.012")
        assert case["caller"][0].startswith("may not send")


def a_case(boundary: Boundary, style: Style, killed: bool) -> Case:
    (found,) = [c for c in cases() if (c.boundary, c.style, c.killed, c.elsewhere) == (boundary, style, killed, False)]
    return found


@pytest.mark.parametrize("killed", [False, True])
async def test_a_guard_that_sends_again_where_the_outcome_is_unknown_is_found_out(
    server_url: str, killed: bool
) -> None:
    case = a_case(Boundary.AFTER_ACCEPTANCE, Style.GUARDED, killed)
    with stage(server_url, SWEEP_SECONDS) as set_up:
        async with scene_on(set_up) as scene:
            # What it is given out for is not what it does.
            seen = await play(replace(case, style=Style.RESENDS), "op", scene)
        laws = set_up.laws()
    verdict = judge(case, seen)
    assert verdict.outcome is Outcome.TWICE_AND_A_CASE
    assert "a guarded call was accepted 2 times" in verdict.faults
    ending = ending_of(verdict, laws)
    assert not ending.good
    shown = on_screen(ending)
    assert "NOT AS IT MUST" in shown
    assert "a guarded call was accepted 2 times" in shown
    assert "Everything is as it must be" not in shown


async def test_a_stream_that_is_stopped_before_it_began_ends(server_url: str) -> None:
    with stage(server_url, SWEEP_SECONDS) as set_up:
        async with (
            scene_on(set_up) as scene,
            Provider(Modes(), scene.webhooks_url).serving() as provider,
            Caller.started(stream_of(scene, provider), scene.environment) as caller,
        ):
            # In the pipe before the process is there to read the line before it.
            caller.tell("stop")
            async with asyncio.timeout(30):
                while await caller.said() is not None:
                    pass


def ending_of(verdict: Verdict, laws: Any) -> Ending:
    return Ending([verdict], verdict.seen.holds, Killed(), Decimal(0), verdict.seen.spent, Decimal(0), laws)


def on_screen(ending: Ending) -> str:
    shown = io.StringIO()
    Screen(Console(file=shown, no_color=True, highlight=False)).close(ending, 1.0)
    assert max(len(line) for line in shown.getvalue().splitlines()) <= 120
    return shown.getvalue()


def test_balances_that_are_not_those_of_the_holds_are_said() -> None:
    ending = Ending([], [], Killed(), Decimal("0.03"), Decimal("0.012"), Decimal("0.06"), [])
    assert ending.faults == [
        "HELD of the budget is 0.03, and its holds come to 0",
        "UNKNOWN of the budget is 0.06, and its holds come to 0",
        "SPENT of the budget is 0.012, and its holds come to 0",
    ]


def test_an_interrupted_exercise_leaves_nothing_behind(temporary: Path) -> None:
    own = environment(TMPDIR=str(temporary))
    running = subprocess.Popen(COMMAND, cwd=ROOT, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    # PostgreSQL with its keeper, the server, and callers in the middle of their calls.
    while not any(b"ledger.exercise.caller" in command_of(pid) for pid in descendants(running.pid)):
        assert time.monotonic() < deadline
        assert running.poll() is None
        time.sleep(0.02)
    started = descendants(running.pid)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert (running.returncode, b"Traceback" in errors) == (130, False), errors
    assert not any(is_running(pid) for pid in started)
    assert list(temporary.iterdir()) == []


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""


def test_a_postgresql_that_is_not_ours_is_not_killed() -> None:
    ended = subprocess.run(
        [*COMMAND, "--kills", "1"],
        cwd=ROOT,
        env=environment(DATABASE_URL="postgresql://nobody@127.0.0.1:1/none"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "leave out one of them" in ended.stderr
