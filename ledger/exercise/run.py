"""The exercise, from nothing to a verdict on every case."""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from decimal import Decimal
from typing import Final

import psycopg
from rich.console import Console

from ledger.client import Ledger
from ledger.demo.books import CURRENCY, PROVIDERS, RATES
from ledger.demo.ports import closed_port
from ledger.demo.replies import OPENAI_MODEL
from ledger.demo.stage import Stage, StageError, stage
from ledger.exercise.cases import Case, cases
from ledger.exercise.kills import Killed, kill_at_random
from ledger.exercise.looking import holds_at_rest
from ledger.exercise.play import BUDGET, Scene, not_played, play
from ledger.exercise.process import CallerFailed
from ledger.exercise.screen import Ending, Screen
from ledger.exercise.verdict import Verdict, judge
from ledger.exercise.webhooks import Receiver
from ledger.settings import SettingsError, load
from ledger.store.postgres import PostgresUnavailable
from ledger.v1 import price_pb2

INTERRUPTED: Final = 130
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
        with (
            stage(None if given is None else given.get_secret_value(), SWEEP_SECONDS) as set_up,
            closed_port() as closed,
        ):
            ending = asyncio.run(exercise(set_up, closed, cases(), arguments.kills, arguments.seed))
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


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError("must be a number, 0 or more")
    return int(text)


async def exercise(
    set_up: Stage, closed_url: str, played: Sequence[Case], kills: int = 0, seed: int | None = None
) -> Ending:
    """Plays the cases, some at a time, and then kills; looks at the books when all is over."""
    async with AsyncExitStack() as stack:
        gateway, finance, admin = [
            await stack.enter_async_context(Ledger.connect(set_up.address, set_up.tokens[role]))
            for role in ("gateway", "finance", "admin")
        ]
        receiver = await stack.enter_async_context(Receiver(gateway).serving())
        await _open_books(admin)
        scene = Scene(
            address=set_up.address,
            gateway_token=set_up.tokens["gateway"],
            finance=finance,
            webhooks_url=receiver.url,
            closed_url=closed_url,
            environment=os.environ,
        )
        room = asyncio.Semaphore(AT_A_TIME)

        async def verdict_on(number: int, case: Case) -> Verdict:
            async with room:
                try:
                    async with asyncio.timeout(CASE_SECONDS):
                        seen = await play(case, f"case-{number:02d}", scene)
                except (CallerFailed, TimeoutError) as error:
                    seen = not_played(str(error) or "the case took too long")
            return judge(case, seen)

        verdicts = await asyncio.gather(*(verdict_on(number, case) for number, case in enumerate(played, 1)))
        killed = await kill_at_random(set_up, scene, kills, seed) if kills else Killed()
        holds = await holds_at_rest(finance)
        balances = (await finance.get_budget(BUDGET)).balances
    return Ending(
        verdicts=verdicts,
        holds=holds,
        killed=killed,
        held=Decimal(balances.held),
        spent=Decimal(balances.spent),
        unknown_balance=Decimal(balances.unknown),
        laws=await asyncio.to_thread(set_up.laws),
    )


async def _open_books(admin: Ledger) -> None:
    await admin.create_budget(BUDGET, currency=CURRENCY)
    card = price_pb2.PriceCard(
        card_id=OPENAI_MODEL,
        provider=PROVIDERS[OPENAI_MODEL],
        model=OPENAI_MODEL,
        currency=CURRENCY,
        rates=[price_pb2.Rate(bucket=bucket, price=price) for bucket, price in RATES[OPENAI_MODEL].items()],
    )
    request = price_pb2.PutPriceCardRequest(idempotency_key=f"card/{OPENAI_MODEL}", card=card)
    await admin.ask(admin.stubs.prices.PutPriceCard, request)
