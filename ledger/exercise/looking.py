"""What the ledger says of operations, as finance reads it."""

import asyncio
import time
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from ledger.client import Ledger
from ledger.exercise.verdict import SeenHold
from ledger.v1 import hold_pb2 as pb
from ledger.v1 import journal_pb2

BOUND_SECONDS: Final = 20.0
POLL_SECONDS: Final = 0.1
_ON_THE_WAY: Final = frozenset({pb.HOLD_STATE_RESERVED, pb.HOLD_STATE_DISPATCHING})


async def holds_at_rest(finance: Ledger, request_group: str = "") -> tuple[SeenHold, ...]:
    """The holds (of a group), when none of them is on its way any more, or when that has taken too long."""
    ends = time.monotonic() + BOUND_SECONDS
    while True:
        holds = [hold async for hold in finance.list_holds(request_group=request_group)]
        if time.monotonic() > ends or not any(hold.state in _ON_THE_WAY for hold in holds):
            return tuple(map(_seen, holds))
        await asyncio.sleep(POLL_SECONDS)


def _seen(hold: pb.Hold) -> SeenHold:
    dispatched = hold.HasField("attempt")
    began = hold.attempt.dispatch_time if dispatched else hold.create_time
    settled = hold.state == pb.HOLD_STATE_SETTLED
    return SeenHold(
        operation_id=hold.operation_id,
        state=pb.HoldState.Name(hold.state).removeprefix("HOLD_STATE_"),
        amount=Decimal(hold.amount.amount),
        dispatched=dispatched,
        age=round((datetime.now(UTC) - began.ToDatetime(UTC)).total_seconds(), 1),
        settled=Decimal(hold.resolution.amount.amount) if settled else None,
    )


async def journal_of(finance: Ledger, operation_id: str, book_of: str) -> tuple[list[str], Decimal]:
    """The kinds of an operation's entries, in order, and what they posted to SPENT of the budget `book_of`."""
    request = journal_pb2.ListEntriesRequest(operation_id=operation_id)
    entries = (await finance.ask(finance.stubs.journal.ListEntries, request)).entries
    # On a credit account what is added is negative.
    spent = -sum(
        (
            Decimal(posting.amount.amount)
            for entry in entries
            for posting in entry.postings
            if posting.account == journal_pb2.ACCOUNT_SPENT and posting.book_id.startswith(book_of)
        ),
        Decimal(0),
    )
    return [journal_pb2.EntryKind.Name(entry.kind).removeprefix("ENTRY_KIND_") for entry in entries], spent


async def incidents_of(finance: Ledger, operation_id: str = "") -> list[str]:
    """The kinds of the cases that are open about an operation, or about any."""
    request = pb.ListIncidentsRequest(operation_id=operation_id, page_size=1000)
    found = (await finance.ask(finance.stubs.holds.ListIncidents, request)).incidents
    return [pb.IncidentKind.Name(incident.kind).removeprefix("INCIDENT_KIND_") for incident in found]
