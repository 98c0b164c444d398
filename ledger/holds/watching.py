"""spend-ledger watch: what happens to the books, as it happens."""

import argparse
import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from ledger.client import watch
from ledger.client.calling import add_server, calling
from ledger.holds.words import document, instant, money, name
from ledger.v1 import feed_pb2 as pb
from ledger.v1 import hold_pb2, journal_pb2

DESCRIPTION = "Follow the change feed: every change of the books, in order."
EPILOG = """
With --json each event is a line, and after some of them there is a line with
the token after them: what was read up to there need not be read again. Begin
again with the last one; events that come twice have the same event_id.

The token of the caller is in SPEND_LEDGER_TOKEN, and must be of finance, an
auditor or an admin.

examples:
  spend-ledger watch --server 127.0.0.1:7443
  spend-ledger watch --server 127.0.0.1:7443 --type incident --from-now
  spend-ledger watch --server 127.0.0.1:7443 --json | jq 'select(.hold)'
"""
TYPES = {n.removeprefix("EVENT_TYPE_").lower(): value for n, value in pb.EventType.items() if value}
_PATIENCE = timedelta(seconds=60)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server(parser)
    begin = parser.add_mutually_exclusive_group()
    begin.add_argument("--resume", default="", metavar="TOKEN", help="go on after this resume_token")
    begin.add_argument("--from-now", action="store_true", help="only what comes from now on")
    parser.add_argument("--type", action="append", default=[], choices=TYPES, help="only events of this type")
    parser.add_argument("--operation", default="", metavar="OPERATION", help="only events of this operation")


def run(arguments: argparse.Namespace) -> int:
    request = pb.WatchRequest(
        resume_token=arguments.resume,
        from_now=arguments.from_now,
        types=[TYPES[chosen] for chosen in arguments.type],
        operation_id=arguments.operation,
    )
    asyncio.run(_follow(arguments, request))
    return 0


async def _follow(arguments: argparse.Namespace, request: pb.WatchRequest) -> None:
    written = _as_json if arguments.json else _as_text
    async with calling(arguments) as ledger:
        async for response in watch(ledger.stubs, request, patience=_PATIENCE):
            for line in written(response):
                print(line)
            print(end="", flush=True)


def _as_json(response: pb.WatchResponse) -> Iterator[str]:
    for event in response.events:
        yield json.dumps(document(event))
    yield json.dumps({"resume_token": response.resume_token})


def _as_text(response: pb.WatchResponse) -> Iterator[str]:
    for event in response.events:
        kind = event.WhichOneof("change") or ""
        yield f"{instant(event.record_time)}  {kind:<11}  {_WORDS[kind](getattr(event, kind))}"


def _hold(hold: pb.HoldChanged) -> str:
    before = name(hold_pb2.HoldState.Name, getattr(hold, "from"), "HOLD_STATE_")
    state = name(hold_pb2.HoldState.Name, hold.to, "HOLD_STATE_")
    told = f"{hold.operation_id}  {before} → {state}  {money(hold.amount)}"
    return told + (f", settled at {hold.resolution.settled}" if hold.HasField("resolution") else "")


def _budget(budget: pb.BudgetChanged) -> str:
    limit = f"limit {budget.limit} {budget.currency}" if budget.HasField("limit") else "no limit"
    return f"{budget.budget_id}  version {budget.version}, {limit}{', closed' if budget.closed else ''}"


def _observation(made: pb.ObservationMade) -> str:
    if made.WhichOneof("said") == "delivery":
        return f"{made.operation_id}  delivery {name(hold_pb2.Delivery.Name, made.delivery, 'DELIVERY_')}"
    return f"{made.operation_id}  execution {name(hold_pb2.Execution.Name, made.execution, 'EXECUTION_')}"


_WORDS: dict[str, Callable[[Any], str]] = {
    "": lambda _: "of a newer version of the service",
    "hold": _hold,
    "budget": _budget,
    "grant": lambda grant: f"{grant.budget_id}  {money(grant.amount)}, {grant.reference}",
    "price_card": lambda card: f"{card.card_id}  version {card.version}",
    "policy": lambda policy: f"{policy.provider}  version {policy.version}",
    "entry": lambda e: f"{name(journal_pb2.EntryKind.Name, e.kind, 'ENTRY_KIND_')}  {', '.join(e.book_ids)}",
    "observation": _observation,
    "threshold": lambda t: f"{t.budget_id}  {t.percent} % of {t.authority}: {money(t.amount)}",
    "incident": lambda i: f"{i.operation_id}  {name(hold_pb2.IncidentKind.Name, i.kind, 'INCIDENT_KIND_')}",
}
