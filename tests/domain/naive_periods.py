"""What a budget with periods ought to be, worked out the long way: every period is opened, money moves in steps of a half."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from ledger.domain.periods import Rollover, RolloverKind, Schedule, span_at

HALF = Decimal("0.5")


@dataclass
class Period:
    """`left` is below zero if something is missing."""

    start: datetime
    end: datetime | None
    left: Decimal
    carried: Decimal = Decimal(0)
    carried_on: Decimal = Decimal(0)
    limited: bool = True


@dataclass
class NaiveBudget:
    limit: Decimal | None
    schedule: Schedule
    rollover: Rollover
    now: datetime
    credit: Decimal = Decimal(0)
    periods: list[Period] = field(default_factory=list)

    def __post_init__(self) -> None:
        start, end = self.span(self.now)
        self.periods.append(Period(start, end, self.limit or Decimal(0), limited=self.limit is not None))

    def span(self, now: datetime, since: datetime | None = None) -> tuple[datetime, datetime | None]:
        return span_at(self.schedule, ZoneInfo(self.schedule.zone or "UTC"), now, since)

    @property
    def newest(self) -> Period:
        return self.periods[-1]

    def floor(self) -> Decimal | None:
        return None if self.limit is None else -self.credit

    def open_up_to(self, now: datetime) -> None:
        while self.newest.end is not None and self.newest.end <= now:
            last = self.newest
            assert last.end is not None
            start, end = self.span(last.end, last.end)
            carried = Decimal(0)
            if self.limit is not None and self.rollover.kind is not RolloverKind.NONE:
                carried = last.left if self.rollover.cap is None else min(last.left, self.rollover.cap)
            last.left -= carried
            last.carried_on = carried
            left = (self.limit or Decimal(0)) + carried
            new = Period(start, end, left, carried, limited=self.limit is not None)
            self.periods.append(new)

    def room(self) -> Decimal | None:
        return None if self.limit is None else max(self.newest.left + self.credit, Decimal(0))

    def change(self, period: Period, amount: Decimal) -> None:
        """Something comes free in a period, or is missing there. What a later one is to see of it goes over by halves."""
        step = HALF if amount > 0 else -HALF
        for _ in range(int(abs(amount) / HALF)):
            period.left += step
            if period is self.newest or not period.limited or self.rollover.kind is RolloverKind.NONE:
                continue
            cap = self.rollover.cap
            if (step < 0 and period.left < 0) or (
                step > 0
                and period.left > 0
                and (cap is None or max(self.newest.carried, period.carried_on) + step <= cap)
            ):
                period.left -= step
                self.newest.left += step
                self.newest.carried += step
                period.carried_on += step

    def set_limit(self, limit: Decimal | None) -> None:
        self.newest.left += (limit or Decimal(0)) - (self.limit or Decimal(0))
        self.newest.limited = limit is not None
        self.limit = limit

    def set_schedule(self, schedule: Schedule, now: datetime) -> None:
        self.schedule = schedule
        if self.newest.end is None:
            self.newest.end = self.span(now)[1]

    def seen_at(self, now: datetime) -> Period:
        """The period of an instant, as it would be; nothing is opened."""
        copy = NaiveBudget(self.limit, self.schedule, self.rollover, self.now, self.credit)
        copy.periods = [Period(p.start, p.end, p.left, p.carried, limited=p.limited) for p in self.periods[-1:]]
        copy.open_up_to(now)
        return copy.newest


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
