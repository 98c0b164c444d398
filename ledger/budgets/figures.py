"""Balances as people read them: numbers of a few places, and a bar of what became of the authority."""

from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import NamedTuple

from ledger.v1 import budget_pb2

PLACES = 6
PARTS = ("spent", "unknown", "held", "available")


class Signs(NamedTuple):
    """What a screen can show: one sign for each part of a bar, the branches of a tree, and a sign for what was rounded."""

    parts: Mapping[str, str]
    fork: str
    last: str
    through: str
    about: str


UNICODE = Signs({"spent": "█", "unknown": "▒", "held": "▓", "available": "·"}, "├─ ", "└─ ", "│  ", "≈")
ASCII = Signs({"spent": "#", "unknown": "?", "held": "=", "available": "."}, "|- ", "`- ", "|  ", "~")


def signs(encoding: str) -> Signs:
    """The signs that a stream of this encoding can take."""
    return UNICODE if encoding.lower().replace("-", "").startswith("utf") else ASCII


def number(amount: str, about: str) -> str:
    """An amount with at most six places; one that was rounded says so. All digits are in --json."""
    with localcontext(prec=76):
        exact = Decimal(amount)
        rounded = exact.quantize(Decimal(1).scaleb(-PLACES), ROUND_HALF_EVEN)
    text = f"{rounded:,f}".rstrip("0").rstrip(".")
    return text if rounded == exact else about + text


def lengths(amounts: Sequence[Decimal], width: int) -> list[int]:
    """How many cells each amount has of so many: in proportion, in full, and at least one for what is above zero.

    There are at least as many cells as amounts.
    """
    whole = sum(amounts)
    if whole <= 0:
        return [0] * len(amounts)
    cells = [max(1, int(amount * width / whole)) if amount > 0 else 0 for amount in amounts]
    while (missing := width - sum(cells)) != 0:
        # The one that is furthest from its share gives a cell, or takes one.
        step = 1 if missing > 0 else -1
        apart = [step * (amount * width / whole - cell) for amount, cell in zip(amounts, cells, strict=True)]
        able = [i for i, cell in enumerate(cells) if cell > (1 if step < 0 else 0)]
        cells[max(able, key=lambda i: apart[i])] += step
    return cells


def bar(balances: budget_pb2.Balances, width: int) -> list[tuple[str, int]]:
    """The parts of a bar and their cells: spent, unknown, held and available, which together are authority and deficit.

    Without a limit nothing is available in particular: the bar is what is used of what was used, or empty.
    """
    amounts = [max(Decimal(getattr(balances, part)), Decimal(0)) for part in PARTS]
    return [(part, cells) for part, cells in zip(PARTS, lengths(amounts, width), strict=True) if cells]
