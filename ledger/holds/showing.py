"""spend-ledger hold show: a hold, its three axes, and its history."""

import argparse
import asyncio
import json
from collections.abc import Iterator, Sequence

from ledger.client.calling import add_server, calling
from ledger.holds.words import ADVICE, aligned, document, instant, money, name
from ledger.v1 import hold_pb2 as pb

DESCRIPTION = "Show a hold: what is known of it, and all that happened to it."
EPILOG = """
Three things are known apart, and none says another: what the client received
(delivery), what is established of the call at the provider (execution), and
what became of the money (settlement).

The token in SPEND_LEDGER_TOKEN must be of finance, an auditor or an admin: the
history shows entries, evidence and incidents.

examples:
  spend-ledger hold show --server 127.0.0.1:7443 chat-4711
  spend-ledger hold show --server 127.0.0.1:7443 chat-4711 --json |
      jq '.events[] | select(.kind == "HOLD_EVENT_KIND_EVIDENCE")'
"""
PAGE = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("operation", metavar="OPERATION", help="the hold, by its operation")
    add_server(parser)


def run(arguments: argparse.Namespace) -> int:
    hold, events = asyncio.run(_ask(arguments))
    if arguments.json:
        print(json.dumps({"hold": document(hold), "events": [document(event) for event in events]}))
    else:
        print("\n".join((*_hold(hold), "", *aligned(_axes(hold)), "", *aligned([_event(event) for event in events]))))
    return 0


async def _ask(arguments: argparse.Namespace) -> tuple[pb.Hold, list[pb.HoldEvent]]:
    async with calling(arguments) as ledger:
        hold = await ledger.get_hold(arguments.operation)
        request = pb.ListHoldEventsRequest(operation_id=arguments.operation, page_size=PAGE)
        events: list[pb.HoldEvent] = []
        while True:
            page = await ledger.ask(ledger.stubs.holds.ListHoldEvents, request)
            events += page.events
            if not page.next_page_token:
                return hold, events
            request.page_token = page.next_page_token


def _hold(hold: pb.Hold) -> Iterator[str]:
    state = name(pb.HoldState.Name, hold.state, "HOLD_STATE_")
    yield f"{hold.operation_id}: {money(hold.amount)} of {', '.join(hold.budget_ids)}, {state}"
    if hold.HasField("resolution"):
        kind = name(pb.ResolutionKind.Name, hold.resolution.kind, "RESOLUTION_KIND_")
        yield f"resolved at {money(hold.resolution.amount)} by {kind}, revision {hold.resolution.revision}"
    if hold.HasField("attempt"):
        yield from _attempt(hold.attempt)
    if hold.recovery_action:
        yield ADVICE[hold.recovery_action]


def _attempt(attempt: pb.Attempt) -> Iterator[str]:
    by = f" by {attempt.actor}" if attempt.actor else ""
    executor = f", executor {attempt.executor}" if attempt.executor else ""
    receipt = f", receipt {attempt.provider_receipt}" if attempt.provider_receipt else ""
    inferred = ", inferred from evidence" if attempt.inferred else ""
    yield f"attempt {attempt.number} of generation {attempt.generation}{by}{executor}{receipt}{inferred}"
    if attempt.HasField("lease_expire_time"):
        yield f"its lease ends at {instant(attempt.lease_expire_time)}"
    if attempt.failed_before_dispatch:
        cause = name(pb.NeverSentCause.Name, attempt.failed_before_dispatch, "NEVER_SENT_CAUSE_")
        until = instant(attempt.retry_until_time)
        yield f"it failed before anything was sent ({cause}); another may be begun, until about {until}"


def _axes(hold: pb.Hold) -> list[tuple[str, ...]]:
    return [
        ("delivery", name(pb.Delivery.Name, hold.delivery.value, "DELIVERY_"), _by(hold.delivery.provenance)),
        ("execution", name(pb.Execution.Name, hold.execution.value, "EXECUTION_"), _by(hold.execution.provenance)),
        ("settlement", name(pb.HoldState.Name, hold.settlement.value, "HOLD_STATE_"), _by(hold.settlement.provenance)),
    ]


def _by(provenance: pb.Provenance) -> str:
    if not provenance.HasField("since"):
        return "nothing is known of it"
    who = f" by {provenance.actor}" if provenance.actor else ""
    return f"since {instant(provenance.since)}{who}, {provenance.source}"


def _event(event: pb.HoldEvent) -> tuple[str, ...]:
    kind = name(pb.HoldEventKind.Name, event.kind, "HOLD_EVENT_KIND_").lower()
    said = [f"{key} {value}" for key, value in sorted(event.detail.items())]
    if event.HasField("amount"):
        said.insert(0, money(event.amount))
    if event.attempt:
        said.insert(0, f"attempt {event.attempt}")
    return (instant(event.record_time), event.actor or "-", kind, event.what, ", ".join(_short(said)))


def _short(said: Sequence[str]) -> Iterator[str]:
    """Digests are for programs: people tell them apart by their beginning."""
    for one in said:
        yield f"{one[:19]}…" if one.startswith("digest ") else one
