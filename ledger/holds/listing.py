"""spend-ledger hold list: the holds in a state, with their age, amount, and what may be done about them."""

import argparse
import asyncio
import json

from google.protobuf.timestamp_pb2 import Timestamp

from ledger.client.calling import add_server, calling
from ledger.holds.words import ADVICE, aligned, document, money, name, seconds_since, span
from ledger.v1 import hold_pb2 as pb

DESCRIPTION = "List the holds in a state, with their age and amount."
EPILOG = """
The age is that of the exposure: since the call was dispatched. Of a hold that
never was it is the time since the money was set aside, in brackets. The token
is in SPEND_LEDGER_TOKEN.

examples:
  spend-ledger hold list --state unknown
  spend-ledger hold list --server 127.0.0.1:7443 --state unknown --json |
      jq 'sort_by(-.age_seconds) | .[0]'
"""
STATES = {
    "reserved": pb.HOLD_STATE_RESERVED,
    "dispatching": pb.HOLD_STATE_DISPATCHING,
    "unknown": pb.HOLD_STATE_OUTCOME_UNKNOWN,
    "settled": pb.HOLD_STATE_SETTLED,
    "released": pb.HOLD_STATE_RELEASED,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server(parser)
    parser.add_argument("--state", choices=STATES, help="only those in this state")
    parser.add_argument("--group", default="", metavar="GROUP", help="only those of this request group")


def run(arguments: argparse.Namespace) -> int:
    holds = asyncio.run(_ask(arguments))
    if arguments.json:
        print(json.dumps([document(hold) | {"age_seconds": seconds_since(_exposed(hold))} for hold in holds]))
    elif holds:
        heading = ("operation", "state", "since dispatch", "amount", "attempt", "")
        print("\n".join(aligned([heading, *map(_line, holds)])))
    else:
        print("There are none.")
    return 0


async def _ask(arguments: argparse.Namespace) -> list[pb.Hold]:
    state = STATES.get(arguments.state, pb.HOLD_STATE_UNSPECIFIED)
    async with calling(arguments) as ledger:
        return [hold async for hold in ledger.list_holds(state=state, request_group=arguments.group)]


def _exposed(hold: pb.Hold) -> Timestamp:
    return hold.attempt.dispatch_time if hold.attempt.HasField("dispatch_time") else hold.create_time


def _age(hold: pb.Hold) -> str:
    age = span(seconds_since(_exposed(hold)))
    return age if hold.attempt.HasField("dispatch_time") else f"({age})"


def _line(hold: pb.Hold) -> tuple[str, ...]:
    return (
        hold.operation_id,
        name(pb.HoldState.Name, hold.state, "HOLD_STATE_"),
        _age(hold),
        money(hold.amount),
        str(hold.attempt.number or "-"),
        ADVICE.get(hold.recovery_action, ""),
    )
