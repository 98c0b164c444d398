"""Budgets as a forest: every budget after its parent, with the branches that lead to it."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ledger.budgets.figures import Signs
from ledger.client import Ledger
from ledger.v1 import budget_pb2

PAGE = 1000


class Node(NamedTuple):
    """A budget, how deep it stands below the top of what is shown, and the branches in front of it."""

    budget: budget_pb2.Budget
    depth: int
    branches: str


async def everything(ledger: Ledger) -> list[budget_pb2.Budget]:
    """Every budget of the tenant."""
    found: list[budget_pb2.Budget] = []
    token = ""
    while True:
        request = budget_pb2.ListBudgetsRequest(page_size=PAGE, page_token=token)
        page = await ledger.ask(ledger.stubs.budgets.ListBudgets, request)
        found += page.budgets
        token = page.next_page_token
        if not token:
            return found


def grown(budgets: Sequence[budget_pb2.Budget], signs: Signs, top: str = "") -> list[Node]:
    """The trees of the budgets, or the one below `top`, each level in order of budget_id.

    The pages of a list are of different moments: one whose parent is not among them stands as a root.
    """
    names = {budget.budget_id for budget in budgets}
    below: dict[str, list[budget_pb2.Budget]] = defaultdict(list)
    for budget in budgets:
        below[budget.parent_id if budget.parent_id in names else ""].append(budget)
    roots = [budget for budget in budgets if budget.budget_id == top] if top else below[""]
    return [node for root in roots for node in _walk(root, below, signs, 0, "", "")]


def _walk(
    budget: budget_pb2.Budget,
    below: dict[str, list[budget_pb2.Budget]],
    signs: Signs,
    depth: int,
    here: str,
    under: str,
) -> Iterator[Node]:
    yield Node(budget, depth, here)
    children = below[budget.budget_id]
    for child in children:
        last = child is children[-1]
        yield from _walk(
            child,
            below,
            signs,
            depth + 1,
            under + (signs.last if last else signs.fork),
            under + ("   " if last else signs.through),
        )
