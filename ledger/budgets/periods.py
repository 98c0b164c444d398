"""spend-ledger budget periods: what became of the authority of each period of a budget."""

import argparse
import asyncio
from collections.abc import Sequence
from itertools import islice

from google.protobuf.timestamp_pb2 import Timestamp
from rich.text import Text

from ledger.budgets.calls import WHERE, as_json, print_json
from ledger.budgets.figures import PARTS, number
from ledger.budgets.screen import ALARM, Screen, table
from ledger.client.calling import add_server, calling
from ledger.v1 import budget_pb2

DESCRIPTION = "List the periods of a budget, the newest first."
EPILOG = f"""
Only periods that were opened: nothing happened in the others. What comes free
or is missing in an ended period still moves its balances. "carried" is what was
carried into it, and part of its authority.
{WHERE}
examples:
  spend-ledger budget periods team
  spend-ledger budget periods team --last 100 --json | jq '.periods[].balances'
"""
LAST = 12
HEAD = ("from", "to", *PARTS, "deficit", "carried", "authority", "")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("budget", metavar="BUDGET")
    parser.add_argument("--last", type=_count, default=LAST, metavar="N", help=f"so many at most ({LAST})")
    add_server(parser)


def run(arguments: argparse.Namespace) -> int:
    budget, periods = asyncio.run(_found(arguments))
    if arguments.json:
        print_json({"budget_id": budget.budget_id, "periods": [as_json(period) for period in periods]})
        return 0
    screen = Screen()
    head = [Text(title, "dim") for title in HEAD]
    rows = [_row(period, budget, screen.signs.about) for period in periods]
    amounts = frozenset(range(2, len(HEAD) - 1))
    as_of = periods[0].balances.as_of.ToJsonString()
    screen.tell([Text(budget.budget_id, "bold"), *table([head, *rows], amounts), Text(), Text(f"as of {as_of}")])
    return 0


async def _found(arguments: argparse.Namespace) -> tuple[budget_pb2.Budget, list[budget_pb2.BudgetPeriod]]:
    """The budget and its newest periods, of which there is one at least."""
    async with calling(arguments) as ledger:
        budget = await ledger.get_budget(arguments.budget)
        request = budget_pb2.ListPeriodsRequest(budget_id=arguments.budget, page_size=min(arguments.last, 1000))
        periods: list[budget_pb2.BudgetPeriod] = []
        while True:
            page = await ledger.ask(ledger.stubs.budgets.ListPeriods, request)
            periods += islice(page.periods, arguments.last - len(periods))
            if not page.next_page_token or len(periods) == arguments.last:
                return budget, periods
            request.page_token = page.next_page_token


def _row(period: budget_pb2.BudgetPeriod, budget: budget_pb2.Budget, about: str) -> Sequence[Text]:
    balances = period.balances
    amounts = [Text(number(getattr(balances, name), about)) for name in HEAD[2:-1]]
    if balances.deficit != "0":
        amounts[len(PARTS)].stylize(ALARM)
    return [
        Text(_time(period.start_time)),
        Text(_time(period.end_time) if period.HasField("end_time") else "without an end"),
        *amounts,
        Text(f"{budget.currency}{'' if period.closed else ', open'}"),
    ]


def _time(at: Timestamp) -> str:
    return at.ToDatetime().strftime("%Y-%m-%d %H:%M:%SZ")


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError("must be a number, 1 or more")
    return int(text)
