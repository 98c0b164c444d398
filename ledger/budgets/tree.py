"""spend-ledger budget tree: the budgets, each with a bar of what became of its authority."""

import argparse
import asyncio
from collections.abc import Sequence
from decimal import Decimal

from rich.text import Text

from ledger.budgets.calls import WHERE, as_json, print_json
from ledger.budgets.figures import PARTS, number
from ledger.budgets.forest import Node, everything, grown
from ledger.budgets.screen import ALARM, Screen, table
from ledger.client.calling import CannotReach, add_server, calling
from ledger.v1 import budget_pb2

DESCRIPTION = "Draw the tree of the budgets, with what is spent, unknown, held and available."
EPILOG = f"""
A bar is the authority of a budget: what is spent; what is unknown, since a call
was sent and nobody knows what it cost; what is held for calls under way; and
what is left. A budget that owes more than it had shows its deficit.
Of a budget without a limit the bar is what was used alone.
{WHERE}
examples:
  spend-ledger budget tree
  spend-ledger budget tree team --depth 1
  spend-ledger budget tree --json | jq '.budgets[] | select(.close_time)'
"""
HEAD = ("", "", *PARTS, "authority", "")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("budget", nargs="?", default="", metavar="BUDGET", help="only this one and what is below it")
    parser.add_argument("--depth", type=int, metavar="N", help="only so many levels below the top")
    add_server(parser)


def run(arguments: argparse.Namespace) -> int:
    screen = Screen()
    found = asyncio.run(_found(arguments))
    nodes = grown(found, screen.signs, arguments.budget)
    if arguments.budget and not nodes:
        raise CannotReach(f"There is no budget {arguments.budget!r}: spend-ledger budget tree shows all.")
    if arguments.depth is not None:
        nodes = [node for node in nodes if node.depth <= arguments.depth]
    if arguments.json:
        print_json({"budgets": [as_json(node.budget) | {"depth": node.depth} for node in nodes]})
    elif nodes:
        screen.tell(_lines(nodes, screen))
    else:
        screen.tell(["There are no budgets yet: spend-ledger budget create makes one."])
    return 0


async def _found(arguments: argparse.Namespace) -> list[budget_pb2.Budget]:
    async with calling(arguments) as ledger:
        return await everything(ledger)


def _lines(nodes: Sequence[Node], screen: Screen) -> list[Text]:
    rows = [_row(node, screen) for node in nodes]
    others = max(len(line.plain) for line in table(rows, frozenset(range(2, 7))))
    width = screen.bar_width(others)
    for row, node in zip(rows, nodes, strict=True):
        row[1] = screen.bar(node.budget.balances, width)
    head = [Text(title) for title in HEAD]
    oldest = min(node.budget.balances.as_of.ToJsonString() for node in nodes)
    return [screen.legend(), Text(), *table([head, *rows], frozenset(range(2, 7))), Text(), Text(f"as of {oldest}")]


def _row(node: Node, screen: Screen) -> list[Text]:
    budget, balances = node.budget, node.budget.balances
    name = Text(node.branches + budget.budget_id)
    if budget.display_name not in ("", budget.budget_id):
        name.append(f" {budget.display_name}", "dim")
    amounts = [Text(number(getattr(balances, part), screen.signs.about)) for part in PARTS]
    authority = f"{number(balances.authority, screen.signs.about)} {budget.currency}"
    return [name, Text(), *(_limited(budget, amounts)), Text(authority), marks(budget, screen.signs.about)]


def _limited(budget: budget_pb2.Budget, amounts: list[Text]) -> list[Text]:
    return amounts if budget.HasField("limit") else [*amounts[:-1], Text("unlimited")]


def marks(budget: budget_pb2.Budget, about: str) -> Text:
    """What a reader must not miss: a deficit, the end of a budget."""
    marked = Text()
    if Decimal(budget.balances.deficit):
        marked.append(f"! DEFICIT {number(budget.balances.deficit, about)} ", ALARM)
    if budget.HasField("close_time"):
        marked.append("closed", "dim")
    return marked
