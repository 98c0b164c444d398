"""The commands by their names, for the command line."""

import argparse
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ledger.budgets import changes, periods, show, tree


class Command(NamedTuple):
    """A command: what it is for, examples, its arguments, and what it does. It gives the exit status."""

    description: str
    epilog: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


COMMANDS: Mapping[str, Command] = {
    "tree": Command(tree.DESCRIPTION, tree.EPILOG, tree.add_arguments, tree.run),
    "show": Command(show.DESCRIPTION, show.EPILOG, show.add_arguments, show.run),
    "periods": Command(periods.DESCRIPTION, periods.EPILOG, periods.add_arguments, periods.run),
    "create": Command("Make a budget.", changes.CREATE_EPILOG, changes.add_create, changes.create),
    "grant": Command("Add money to a budget.", changes.GRANT_EPILOG, changes.add_grant, changes.grant),
    "limit": Command(
        "Change the limit of a budget, its caps, periods and thresholds.",
        changes.LIMIT_EPILOG,
        changes.add_limit,
        changes.limit,
    ),
    "move": Command("Put a budget under another.", changes.MOVE_EPILOG, changes.add_move, changes.move),
    "close": Command("Close a budget for good.", changes.CLOSE_EPILOG, changes.add_close, changes.close),
}
