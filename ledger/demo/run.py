"""The demo, from nothing to an ending that is held against what is right."""

import argparse
import asyncio
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import aiohttp
import psycopg
from rich.console import Console

from ledger.client import Client, Ledger, connect
from ledger.demo import recordings, story
from ledger.demo.books import BUDGETS, CURRENCY, open_books
from ledger.demo.gateway import Gateway
from ledger.demo.ports import closed_port
from ledger.demo.provider import FakeProvider
from ledger.demo.screen import BALANCES, Ending, Screen
from ledger.demo.stage import Stage, StageError, stage
from ledger.settings import SettingsError, load
from ledger.store.postgres import PostgresUnavailable
from ledger.v1 import budget_pb2, hold_pb2, journal_pb2

# Four calls of OPENAI_COST and one of ANTHROPIC_COST; one OPENAI_HOLD is unknown; the limit is 1.
STORY_BALANCES = {"available": "0.9055", "held": "0", "unknown": "0.03", "spent": "0.0645", "deficit": "0"}
INTERRUPTED = 130
ABOUT = """Nine calls to a provider, as they go right and wrong, and what the ledger says
of each. Runs the real server on a database of its own, with a fake provider;
no money is spent, and everything is gone afterwards."""
EPILOG = """
The database is a PostgreSQL of its own, or a new database on the server of
DATABASE_URL. Exit status 1 if anything ends otherwise than it must.

examples:
  spend-ledger demo
  spend-ledger demo --json | tail -n 1 | jq .balances
  DATABASE_URL=postgresql://ledger@db/ledger spend-ledger demo
"""


def main(argv: Sequence[str]) -> int:
    """Runs the demo. 0: everything was as it must be; 1: something was not; 2: it could not begin; 130: interrupted."""
    parser = argparse.ArgumentParser(
        prog="spend-ledger demo", description=ABOUT, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="say it to a program: one JSON object, on the last line")
    arguments = parser.parse_args(argv)
    # The same clean end for both ways of being asked to stop.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    screen = Screen(Console(file=sys.stderr, quiet=True) if arguments.json else None)
    began = time.monotonic()
    screen.open()
    try:
        given = load().database_url
        with stage(None if given is None else given.get_secret_value()) as set_up, closed_port() as closed_url:
            ending = asyncio.run(_play(set_up, closed_url, screen.tell, began))
    except (SettingsError, StageError, PostgresUnavailable, psycopg.Error) as error:
        print(f"The demo could not begin: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted; everything that was started is gone.", file=sys.stderr)
        return INTERRUPTED
    screen.close(ending)
    if arguments.json:
        print(json.dumps(_to_json(ending)))
    return 0 if ending.good else 1


async def _play(set_up: Stage, closed_url: str, tell: Callable[[str, str], None], began: float) -> Ending:
    async with (
        Ledger.connect(set_up.address, set_up.tokens["gateway"]) as gateway,
        connect(set_up.address, set_up.tokens["finance"]) as finance,
        connect(set_up.address, set_up.tokens["admin"]) as admin,
        FakeProvider().serving() as provider,
        aiohttp.ClientSession() as session,
    ):
        await open_books(admin)
        told = story.Story(Gateway(gateway, session), finance, provider, closed_url, tell)
        await told.play()
        replayed = await recordings.play(gateway.stubs, admin)
        incidents = (await finance.holds.ListIncidents(hold_pb2.ListIncidentsRequest())).incidents
        used = [budget for budget, _, _ in BUDGETS if budget != recordings.BUDGET or replayed.rows]
        balances = {budget: await _balances(finance, budget) for budget in used}
        expense = await finance.journal.GetBalance(
            journal_pb2.GetBalanceRequest(account=journal_pb2.ACCOUNT_EXPENSE, currency=CURRENCY)
        )
    laws = await asyncio.to_thread(set_up.laws)
    return Ending(
        rows=told.rows,
        incidents=[_incident(incident) for incident in incidents],
        balances=balances,
        replayed=replayed,
        laws=laws,
        failures=[*told.failures, *_faults(told, replayed, balances, expense.balance.amount, len(incidents))],
        seconds=time.monotonic() - began,
        currency=CURRENCY,
        limits={budget: limit or "none" for budget, _, limit in BUDGETS},
        depths={budget: 1 if parent else 0 for budget, parent, _ in BUDGETS},
    )


async def _balances(client: Client, budget_id: str) -> dict[str, str]:
    answer = await client.budgets.GetBudget(budget_pb2.GetBudgetRequest(budget_id=budget_id))
    return {name: getattr(answer.budget.balances, name) for name in BALANCES}


def _incident(incident: hold_pb2.Incident) -> str:
    return f"{hold_pb2.IncidentKind.Name(incident.kind).removeprefix('INCIDENT_KIND_')} of {incident.operation_id}"


def _faults(
    told: story.Story, replayed: recordings.Replayed, balances: dict[str, dict[str, str]], expense: str, incidents: int
) -> Iterator[str]:
    """What is not as it must be at the end, beyond the single scenes."""
    found = balances[story.BUDGET]
    if found != STORY_BALANCES:
        yield f"the balances of {story.BUDGET} are {found}, and should be {STORY_BALANCES}"
    spent = story.total(told.rows) + replayed.posted
    for what, amount in (("spent of the root budget", balances[BUDGETS[0][0]]["spent"]), ("expense", expense)):
        if Decimal(amount) != spent:
            yield f"{what} is {amount}, and should be the {spent} that the operations posted"
    if replayed.agreeing + len(replayed.refused) != replayed.rows:
        yield f"of {replayed.rows} recorded usages {replayed.agreeing} settled at the expected price"
    if incidents != 1:
        yield f"{incidents} incidents are open, and should be 1"


def _to_json(ending: Ending) -> dict[str, Any]:
    return {
        "operations": [
            {
                "name": row.name,
                "caller_saw": row.caller_saw,
                "provider_acceptances": row.provider_acceptances,
                "state": row.state,
                "posted": row.posted,
            }
            for row in ending.rows
        ],
        "incidents": list(ending.incidents),
        "balances": dict(ending.balances),
        "recorded_usages": ending.replayed.to_json(),
        "check": {"violations": ending.violations, "laws": [law._asdict() for law in ending.laws]},
        "failures": list(ending.failures),
    }
