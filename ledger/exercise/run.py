"""The exercise, from nothing to a verdict on every case."""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import psycopg
from rich.console import Console

from ledger.demo.stage import Stage, StageError, stage
from ledger.exercise.cases import Case, cases
from ledger.exercise.kills import Killed, kill_at_random
from ledger.exercise.looking import holds_at_rest
from ledger.exercise.play import not_played, play
from ledger.exercise.process import CallerFailed
from ledger.exercise.scene import BUDGET, Scene, scene_on
from ledger.exercise.screen import Ending, Screen
from ledger.exercise.verdict import Seen, Verdict, judge
from ledger.settings import SettingsError, load
from ledger.store.postgres import PostgresUnavailable

INTERRUPTED: Final = 130
FORK_SUPPORT: Final = "GRPC_ENABLE_FORK_SUPPORT"
SWEEP_SECONDS: Final = 0.1
AT_A_TIME: Final = 6
# A case takes seconds; one that takes this long is broken, and says so.
CASE_SECONDS: Final = 90.0
ABOUT = """Breaks calls to a provider at every boundary: the caller's code fails there, or
its process is killed (-9). A guarded caller recovers by asking the ledger, a
blind one sends again. Runs the real server, a PostgreSQL and a fake provider;
no money is spent, and everything is gone afterwards."""
EPILOG = """
"accepted" is how many requests the provider executed for one intent: what it
charges, and what nobody but the provider knows. Exit status 1 if any case ends
otherwise than it must.

examples:
  spend-ledger exercise
  spend-ledger exercise --json | tail -n 1 | jq '.cases[] | select(.accepted > 1)'
  spend-ledger exercise --kills 50
      then kills callers, the server and PostgreSQL at random, 50 times each,
      under a stream of guarded calls; not with DATABASE_URL, whose server is yours
"""


def main(argv: Sequence[str]) -> int:
    """Runs it. 0: everything was as it must be; 1: something was not; 2: it could not begin; 130: interrupted."""
    arguments = _arguments(argv)
    if arguments.kills:
        _without_handlers_at_forks()
    # The same clean end for both ways of being asked to stop.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    screen = Screen(Console(file=sys.stderr, quiet=True) if arguments.json else None)
    began = time.monotonic()
    try:
        given = load().database_url
        if given is not None and arguments.kills:
            raise StageError(
                "--kills kills PostgreSQL, and DATABASE_URL names one that is yours: leave out one of them."
            )
        screen.open()
        with stage(None if given is None else given.get_secret_value(), SWEEP_SECONDS) as set_up:
            ending = asyncio.run(exercise(set_up, cases(), arguments.kills, arguments.seed))
    except (SettingsError, StageError, PostgresUnavailable, psycopg.Error) as error:
        print(f"The exercise could not begin: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted; everything that was started is gone.", file=sys.stderr)
        return INTERRUPTED
    screen.close(ending, time.monotonic() - began)
    if arguments.json:
        print(json.dumps(ending.to_json()))
    return 0 if ending.good else 1


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="spend-ledger exercise",
        description=ABOUT,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="say it to a program: one JSON object, on the last line")
    parser.add_argument("--kills", type=_count, default=0, metavar="N", help="how often each process is killed (0)")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="of what is random about --kills")
    return parser.parse_args(argv)


def _without_handlers_at_forks() -> None:
    """PostgreSQL is started while calls are under way, and gRPC's handlers at a fork can end a child before its exec.

    gRPC reads this when it is imported, which is before any argument is read; so this program begins once more.
    """
    if os.environ.get(FORK_SUPPORT) != "0":
        os.execve(sys.executable, sys.orig_argv, os.environ | {FORK_SUPPORT: "0"})  # noqa: S606 - this program itself


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError("must be a number, 0 or more")
    return int(text)


async def exercise(set_up: Stage, played: Sequence[Case], kills: int = 0, seed: int | None = None) -> Ending:
    """Plays the cases, some at a time, and then kills; looks at the books when all is over."""
    room = asyncio.Semaphore(AT_A_TIME)
    async with scene_on(set_up) as scene:

        async def verdict_on(number: int, case: Case) -> Verdict:
            async with room:
                return judge(case, await _seen(case, f"case-{number:02d}", scene))

        verdicts = await asyncio.gather(*(verdict_on(number, case) for number, case in enumerate(played, 1)))
        killed = await _killed(set_up, scene, kills, seed) if kills else Killed()
        holds = await holds_at_rest(scene.finance)
        balances = (await scene.finance.get_budget(BUDGET)).balances
    return Ending(
        verdicts=verdicts,
        holds=holds,
        killed=killed,
        held=Decimal(balances.held),
        spent=Decimal(balances.spent),
        unknown_balance=Decimal(balances.unknown),
        laws=await asyncio.to_thread(set_up.laws),
    )


async def _seen(case: Case, operation_id: str, scene: Scene) -> Seen:
    try:
        async with asyncio.timeout(CASE_SECONDS):
            return await play(case, operation_id, scene)
    except (CallerFailed, TimeoutError) as error:
        return not_played(str(error) or f"it took longer than {CASE_SECONDS:.0f} s")


async def _killed(set_up: Stage, scene: Scene, kills: int, seed: int | None) -> Killed:
    """What the kills came to; or, if something did not come up again after one, what that was."""
    try:
        return await kill_at_random(set_up, scene, kills, seed)
    except* (CallerFailed, StageError, PostgresUnavailable, TimeoutError) as broken:
        said = tuple(str(error) or type(error).__name__ for error in broken.exceptions)
    return Killed(faults=said)
