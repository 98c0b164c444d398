"""Processes that a program leaves behind, or does not."""

from pathlib import Path


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
