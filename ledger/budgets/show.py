"""spend-ledger budget show: one budget, its balances, and the largest open holds behind them."""

import argparse
import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.text import Text

from ledger.budgets.calls import WHERE, as_json, print_json
from ledger.budgets.figures import PARTS, number
from ledger.budgets.screen import Screen, table
from ledger.budgets.tree import marks
from ledger.client.calling import add_server, calling
from ledger.v1 import budget_pb2, hold_pb2

LARGEST = 10
DESCRIPTION = "Show one budget: its balances, its caps, and the largest open holds behind them."
EPILOG = f"""
HELD is the holds that are reserved or under way, UNKNOWN those whose call was
sent and not answered. Their money is set aside until evidence settles them.
{WHERE}
examples:
  spend-ledger budget show team
  spend-ledger budget show team --json | jq -r '.open_holds[].operation_id'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("budget", metavar="BUDGET")
    add_server(parser)


def run(arguments: argparse.Namespace) -> int:
    budget, holds = asyncio.run(_found(arguments))
    if arguments.json:
        print_json({"budget": as_json(budget), "open_holds": [as_json(hold) for hold in holds]})
        return 0
    screen = Screen()
    screen.tell(_lines(budget, holds, screen))
    return 0


async def _found(arguments: argparse.Namespace) -> tuple[budget_pb2.Budget, Sequence[hold_pb2.Hold]]:
    async with calling(arguments) as ledger:
        budget = await ledger.get_budget(arguments.budget)
        if not budget.balances.book_id:
            return budget, ()
        asked = hold_pb2.ListOpenHoldsRequest(book_id=budget.balances.book_id, page_size=LARGEST)
        return budget, (await ledger.ask(ledger.stubs.holds.ListOpenHolds, asked)).holds


def _lines(budget: budget_pb2.Budget, holds: Sequence[hold_pb2.Hold], screen: Screen) -> list[Text]:
    about, balances = screen.signs.about, budget.balances
    limit = number(budget.limit, about) if budget.HasField("limit") else "unlimited"
    facts = [
        ("name", budget.display_name),
        ("below", budget.parent_id or "nothing: it is a root"),
        ("since", budget.create_time.ToJsonString()),
        ("closed", budget.close_time.ToJsonString() if budget.HasField("close_time") else ""),
        ("limit", limit),
        ("credit line", "" if budget.credit_line in ("", "0") else number(budget.credit_line, about)),
        ("period", _period(budget)),
        ("largest hold", number(budget.max_hold, about) if budget.HasField("max_hold") else "no cap"),
        ("open holds", f"{balances.open_holds} of {_cap(budget)}"),
    ]
    names = ("authority", *PARTS, "deficit", *(() if balances.carried in ("", "0") else ("carried",)))
    amounts = [[Text(name), Text(number(getattr(balances, name), about))] for name in names]
    return [
        Text.assemble((budget.budget_id, "bold"), f"  {budget.currency}  ", marks(budget, about)),
        *table([[Text(name, "dim"), Text(value)] for name, value in facts if value], frozenset()),
        Text(),
        screen.legend(),
        screen.bar(balances, screen.bar_width(60)),
        *table(amounts, frozenset({1})),
        Text(f"as of {balances.as_of.ToJsonString()}, {_book(balances)}"),
        *_behind(holds, balances.open_holds, about),
    ]


def _period(budget: budget_pb2.Budget) -> str:
    """The period that the balances are of."""
    if not budget.HasField("period_end_time"):
        return "one without an end"
    kind = budget_pb2.PeriodKind.Name(budget.period.kind).removeprefix("PERIOD_KIND_").lower()
    zone = f" of {budget.period.zone}" if budget.period.zone else ""
    return f"{budget.period_start_time.ToJsonString()} to {budget.period_end_time.ToJsonString()}, each {kind}{zone}"


def _book(balances: budget_pb2.Balances) -> str:
    return f"book {balances.book_id}" if balances.book_id else "nothing was posted in the period yet"


def _cap(budget: budget_pb2.Budget) -> str:
    return str(budget.max_open_holds) if budget.HasField("max_open_holds") else "any number"


def _behind(holds: Sequence[hold_pb2.Hold], count: int, about: str) -> list[Text]:
    if not holds:
        return [Text(), Text("No hold is open.")]
    title = f"The {len(holds)} largest of {count} open holds" if count > len(holds) else "The open holds"
    head = [Text(title, "dim") for title in ("amount", "state", "since", "operation", "actor")]
    rows = [
        [
            Text(number(hold.amount.amount, about)),
            Text(hold_pb2.HoldState.Name(hold.state).removeprefix("HOLD_STATE_")),
            Text(_time(hold)),
            Text(hold.operation_id),
            Text(hold.actor),
        ]
        for hold in holds
    ]
    return [Text(), Text(f"{title}:"), *table([head, *rows], frozenset({0}))]


def _time(hold: hold_pb2.Hold) -> str:
    return datetime.fromtimestamp(hold.create_time.seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
