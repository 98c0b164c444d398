"""Processes of the project: what they are started with, and what they leave behind, or do not."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]


def environment(**given: str) -> dict[str, str]:
    """That of a newcomer, in which nothing of the ledger is set, and what is given."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SPEND_LEDGER_")}
    inherited.pop("DATABASE_URL", None)
    return inherited | {"PYTHONPATH": str(ROOT)} | given


def descendants(pid: int) -> list[int]:
    """Every process that came from this one."""
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return children + [each for child in children for each in descendants(child)]


def is_running(pid: int) -> bool:
    """Not if it ended, and nobody has asked for its status yet: in a container, perhaps nobody ever does."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
