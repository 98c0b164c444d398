"""Periods: where they begin and end, and what is carried from one into the next.

A period is an interval of instants, [start, end). Its boundaries follow the clocks of a time zone, or come at a fixed distance.
What the clocks of a zone show is given as a `tzinfo`: who calls has read it, nothing is read here.

Days that have 23 or 25 hours, months of different length and days that never were need no rules of their own: a boundary is a time
that the clocks show, and it is looked for on the line of instants. Shown twice, it is the first of the two; never shown because the
clocks jump over it, it is the first instant after the jump.
"""

import calendar
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple

from ledger.domain.money import ZERO, plain

_SECOND = timedelta(seconds=1)
_MONDAY = date(1970, 1, 5)


class PeriodKind(StrEnum):
    """NONE is one period without an end; FIXED is a fixed number of seconds, whatever the clocks do."""

    NONE = "NONE"
    DAY = "DAY"
    WEEK = "WEEK"
    MONTH = "MONTH"
    FIXED = "FIXED"


CALENDAR = frozenset({PeriodKind.DAY, PeriodKind.WEEK, PeriodKind.MONTH})


@dataclass(frozen=True, slots=True)
class Schedule:
    """When periods begin.

    DAY, WEEK and MONTH have a `zone`; without an `anchor` they begin at midnight, on Monday, on the first. With one, they begin
    at its time of the day, weekday or day of the month there, and in a month that has no such day, on its last. FIXED has an
    `anchor` and a `length`, both in whole seconds, and no zone.
    """

    kind: PeriodKind = PeriodKind.NONE
    zone: str = ""
    anchor: datetime | None = None
    length: timedelta | None = None

    @property
    def seconds(self) -> int | None:
        """The length, in seconds."""
        return None if self.length is None else self.length // _SECOND

    def content(self) -> list[Any]:
        """As JSON, for fingerprints."""
        anchor = None if self.anchor is None else self.anchor.isoformat()
        return [self.kind.value, self.zone, anchor, None if self.length is None else str(self.seconds)]


NO_PERIODS = Schedule()


class RolloverKind(StrEnum):
    NONE = "NONE"
    ALL = "ALL"
    CAP = "CAP"


@dataclass(frozen=True, slots=True)
class Rollover:
    """What a period leaves to the next: nothing, all, or what is left up to a cap and all that is missing."""

    kind: RolloverKind = RolloverKind.NONE
    cap: Decimal | None = None

    def content(self) -> list[str | None]:
        """As JSON, for fingerprints."""
        return [self.kind.value, None if self.cap is None else plain(self.cap)]


NO_ROLLOVER = Rollover()


class Span(NamedTuple):
    """From `start` on, until before `end`; None is no end."""

    start: datetime
    end: datetime | None


def span_at(schedule: Schedule, zone: tzinfo, now: datetime, since: datetime | None = None) -> Span:
    """The period that contains `now`. It does not begin before `since`, where the one before it ended."""
    if schedule.kind is PeriodKind.NONE:
        return Span(now if since is None else since, None)
    index = _index(schedule, zone, now)
    start = _boundary(schedule, zone, index)
    return Span(start if since is None else max(start, since), _boundary(schedule, zone, index + 1))


def periods_between(schedule: Schedule, zone: tzinfo, start: datetime, end: datetime) -> int:
    """How many periods begin at or after `start`, where one begins, and are over at `end`, where one begins too."""
    if schedule.kind is PeriodKind.NONE:
        return 0
    first, last = _index(schedule, zone, start), _index(schedule, zone, end)
    if schedule.kind is PeriodKind.FIXED:
        return last - first
    # Two boundaries are one where a zone skipped a whole day: no period lies between them.
    return len({_boundary(schedule, zone, index) for index in range(first, last + 1)}) - 1


def carried_over(
    rollover: Rollover, left: Decimal, limit: Decimal, skipped: int, most: Decimal
) -> tuple[Decimal, Decimal]:
    """What leaves a period that ends with so much left (below zero: missing), and what arrives in the one that is opened.

    The two differ if periods were skipped: each of them would have added its limit, and at each boundary the cap applies. `most`
    is a cap on every policy.
    """
    if rollover.kind is RolloverKind.NONE:
        return ZERO, ZERO
    cap = most if rollover.cap is None else min(rollover.cap, most)
    return min(left, cap), min(left + skipped * limit, cap)


def carried_later(rollover: Rollover, change: Decimal, left: Decimal, carried: Decimal) -> Decimal:
    """What of a late `change` in a closed period is carried on: `left` is what is left there with it, below zero what is missing.

    What comes free repays what is missing there first; what is missing takes what was left there first. `carried` is what the one
    has carried on up to now, or the open one got if that is more: no period leaves more than the cap, and none gets more.
    """
    if rollover.kind is RolloverKind.NONE:
        return ZERO
    if change < 0:
        return min(max(change, left), ZERO)
    free = max(min(change, left), ZERO)
    return free if rollover.cap is None else min(free, max(rollover.cap - carried, ZERO))


def _index(schedule: Schedule, zone: tzinfo, at: datetime) -> int:
    """The number of the last boundary that is not after an instant."""
    if schedule.kind is PeriodKind.FIXED:
        assert schedule.anchor is not None, "FIXED has an anchor"
        assert schedule.length is not None, "FIXED has a length"
        return (at - schedule.anchor) // schedule.length
    shown = at.astimezone(zone).date()
    if schedule.kind is PeriodKind.MONTH:
        index = shown.year * 12 + shown.month - 1
    else:
        days = (shown - _first_day(schedule, zone)).days
        index = days // 7 if schedule.kind is PeriodKind.WEEK else days
    while _boundary(schedule, zone, index) > at:
        index -= 1
    while _boundary(schedule, zone, index + 1) <= at:
        index += 1
    return index


def _boundary(schedule: Schedule, zone: tzinfo, index: int) -> datetime:
    if schedule.kind is PeriodKind.FIXED:
        assert schedule.anchor is not None, "FIXED has an anchor"
        assert schedule.length is not None, "FIXED has a length"
        return schedule.anchor + index * schedule.length
    first = _first_day(schedule, zone)
    if schedule.kind is PeriodKind.MONTH:
        year, month = index // 12, index % 12 + 1
        last = calendar.monthrange(year, month)[1]
        day = date(year, month, 1 if schedule.anchor is None else min(first.day, last))
    else:
        day = first + timedelta(days=index * (7 if schedule.kind is PeriodKind.WEEK else 1))
    shown = time() if schedule.anchor is None else schedule.anchor.astimezone(zone).time()
    return _instant(datetime.combine(day, shown), zone)


def _first_day(schedule: Schedule, zone: tzinfo) -> date:
    return _MONDAY if schedule.anchor is None else schedule.anchor.astimezone(zone).date()


def _instant(shown: datetime, zone: tzinfo) -> datetime:
    """The first instant at which the clocks of a zone show a time, or have jumped over it."""
    before, after = (_offset(shown.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    if before >= after:
        return (shown - before).replace(tzinfo=UTC)
    # The jump is between the two instants that the time would be by the clocks before it and by those after it.
    low, high = (shown - after).replace(tzinfo=UTC), (shown - before).replace(tzinfo=UTC)
    while high - low > _SECOND:
        middle = low + (high - low) // 2 // _SECOND * _SECOND
        if _offset(middle.astimezone(zone)) == before:
            low = middle
        else:
            high = middle
    return high


def _offset(at: datetime) -> timedelta:
    offset = at.utcoffset()
    assert offset is not None, "a time in a zone has an offset"
    return offset
