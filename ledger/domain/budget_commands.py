"""What can be asked of a budget that exists: to change its settings, to close it, to put it elsewhere in the tree."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from ledger.domain.keyed import OnBudget
from ledger.domain.money import ZERO, plain
from ledger.domain.periods import NO_PERIODS, NO_ROLLOVER, Rollover, Schedule
from ledger.domain.thresholds import NO_THRESHOLDS, Thresholds


@dataclass(frozen=True, slots=True)
class UpdateBudget(OnBudget):
    """Change the fields that `mask` names; the others stay as they are. They are named, and mean, what those of Budget do."""

    NAME: ClassVar[str] = "UpdateBudget"

    mask: tuple[str, ...]
    max_hold: Decimal | None = None
    max_open_holds: int | None = None
    limit: Decimal | None = None
    credit_line: Decimal = ZERO
    display_name: str = ""
    schedule: Schedule = NO_PERIODS
    rollover: Rollover = NO_ROLLOVER
    thresholds: Thresholds = NO_THRESHOLDS

    def content(self) -> dict[str, Any]:
        return {"budget": self.budget_id, "mask": self.mask, **{name: self._said(name) for name in self.mask}}

    def _said(self, name: str) -> Any:
        value = getattr(self, name)
        if isinstance(value, (Schedule, Rollover, Thresholds)):
            return value.content()
        return plain(value) if isinstance(value, Decimal) else None if value is None else str(value)


@dataclass(frozen=True, slots=True)
class CloseBudget(OnBudget):
    """End a budget for good: nothing new is set aside, dispatched or granted on it. What is open there still resolves."""

    NAME: ClassVar[str] = "CloseBudget"

    def content(self) -> dict[str, Any]:
        return {"budget": self.budget_id}


@dataclass(frozen=True, slots=True)
class MoveBudget(OnBudget):
    """Put a budget, with all that is below it, under another parent; None makes it a root. Holds that exist keep their path."""

    NAME: ClassVar[str] = "MoveBudget"

    parent_id: str | None

    def content(self) -> dict[str, Any]:
        return {"budget": self.budget_id, "parent": self.parent_id}
