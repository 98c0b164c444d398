"""Periods and rollovers: from the contract's messages, and to them."""

from datetime import UTC, datetime, timedelta
from typing import Final

from ledger.domain.model import Budget
from ledger.domain.money import plain
from ledger.domain.periods import CALENDAR, NO_PERIODS, PeriodKind, Rollover, RolloverKind, Schedule
from ledger.service.translate.answers import write_time
from ledger.service.translate.fields import InvalidField, amount, duration, instant, named, under
from ledger.store.clocks import NoClocks, clocks_of
from ledger.v1 import budget_pb2 as pb

LEAST_LENGTH = timedelta(seconds=1)
MOST_LENGTH = timedelta(days=3660)
# Far enough from the end of the calendar for every boundary to be a date.
_LATEST_ANCHOR = datetime(2200, 1, 1, tzinfo=UTC)
_LONGEST_ZONE = 64

_PERIODS: Final = {kind: pb.PeriodKind.Value(f"PERIOD_KIND_{kind}") for kind in PeriodKind}
_PERIOD_OF = {int(number): kind for kind, number in _PERIODS.items()}
_ROLLOVERS: Final = {kind: pb.RolloverKind.Value(f"ROLLOVER_KIND_{kind}") for kind in RolloverKind}
_ROLLOVER_OF = {int(number): kind for kind, number in _ROLLOVERS.items()}


def schedule(message: pb.Period, path: str) -> Schedule:
    """A schedule whose zone this server knows; what does not belong to its kind must be left out."""
    with under(path):
        kind = named(message.kind, "kind", _PERIOD_OF)
        anchored = message.HasField("anchor_time")
        if message.zone and kind not in CALENDAR:
            raise InvalidField("zone", f"is not for {kind}: leave it out")
        if message.HasField("length") != (kind is PeriodKind.FIXED):
            raise InvalidField("length", "must be given for FIXED, and only for it")
        if kind is PeriodKind.NONE:
            if anchored:
                raise InvalidField("anchor_time", f"is not for {kind}: leave it out")
            return NO_PERIODS
        if kind is PeriodKind.FIXED:
            if not anchored:
                raise InvalidField("anchor_time", "must be given for FIXED")
            length = duration(message.length, "length", LEAST_LENGTH, MOST_LENGTH)
            if message.length.nanos:
                raise InvalidField("length", "must be in whole seconds")
            return Schedule(kind, anchor=_anchor(message), length=length)
        return Schedule(kind, _zone(message.zone or "UTC"), _anchor(message) if anchored else None)


def _zone(name: str) -> str:
    try:
        if len(name) <= _LONGEST_ZONE:
            clocks_of(name)
            return name
    except NoClocks:
        pass
    raise InvalidField("zone", "must be a time zone of the IANA database that this server has, such as Europe/Berlin")


def _anchor(message: pb.Period) -> datetime:
    at = instant(message.anchor_time, "anchor_time")
    if message.anchor_time.nanos:
        raise InvalidField("anchor_time", "must be in whole seconds")
    if at >= _LATEST_ANCHOR:
        raise InvalidField("anchor_time", f"must be before {_LATEST_ANCHOR.year}")
    return at


def rollover(message: pb.Rollover, path: str) -> Rollover:
    with under(path):
        kind = named(message.kind, "kind", _ROLLOVER_OF)
        if kind is RolloverKind.CAP:
            return Rollover(kind, amount(message.cap, "cap"))
        if message.cap:
            raise InvalidField("cap", f"is not for {kind}: leave it out")
        return Rollover(kind)


def write_settings(message: pb.Budget, budget: Budget) -> None:
    """The period and the rollover of a budget, as they are set."""
    given = budget.schedule
    message.period.kind = _PERIODS[given.kind]
    message.period.zone = given.zone
    if given.anchor is not None:
        write_time(message.period.anchor_time, given.anchor)
    if given.seconds is not None:
        message.period.length.seconds = given.seconds
    message.rollover.kind = _ROLLOVERS[budget.rollover.kind]
    if budget.rollover.cap is not None:
        message.rollover.cap = plain(budget.rollover.cap)
