"""Thresholds: parts of a budget whose crossing is told, once in each period."""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final, NamedTuple

MOST_THRESHOLDS: Final = 10
HIGHEST_PERCENT: Final = 1000


class Basis(StrEnum):
    """What is held against what a period has: what was spent; or what may have been, SPENT + HELD + UNKNOWN."""

    SPENT = "SPENT"
    USED = "USED"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """`percents` of AUTHORITY (of a period that is over, as it was before anything was carried on), ascending, each once."""

    percents: tuple[int, ...] = (50, 80, 100)
    basis: Basis = Basis.USED

    def content(self) -> list[str]:
        """As JSON, for fingerprints."""
        return [self.basis.value, *map(str, self.percents)]


DEFAULT_THRESHOLDS: Final = Thresholds()
NO_THRESHOLDS: Final = Thresholds(())


class Crossing(NamedTuple):
    """A threshold that was crossed, and where the book stood then. `amount` is by the basis, `authority` what it is a part of."""

    tenant: str
    budget_id: str
    book_id: str
    percent: int
    basis: Basis
    amount: Decimal
    authority: Decimal
    currency: str
