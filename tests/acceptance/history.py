"""Concurrent histories: what callers were told, in the order of the ledger's own log, must be what a plain program says.

The order of two commands is that of the instants at which they were recorded; of two that a batch did at one instant, that of
their postings on the hot book. A refusal may stand anywhere among what its batch did, if the balance that it names is right there.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import groupby

import psycopg

OPEN = {"RESERVED", "DISPATCHING", "OUTCOME_UNKNOWN"}


@dataclass
class Told:
    """A command, when it was asked and answered, and with what. `said` is the state of the hold or the reason of a refusal."""

    command: str
    operation: str
    key: str
    budget: str = ""
    amount: Decimal = Decimal(0)
    nonce: str = ""
    asked: float = field(default_factory=time.monotonic)
    answered: float = 0.0
    said: str = ""
    may_send: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)
    recorded: datetime | None = None
    place: int = 0

    def answer(self) -> None:
        self.answered = time.monotonic()

    @property
    def name(self) -> str:
        return f"{self.command} {self.operation} ({self.key})"


@dataclass
class _Hold:
    budget: str
    amount: Decimal
    state: str
    nonce: str = ""
    settled: Decimal = Decimal(0)


class Ordered:
    """The plain program: one command after the other, on sums."""

    def __init__(self, limits: dict[str, Decimal]) -> None:
        self._limits = limits
        self._holds: dict[str, _Hold] = {}

    def room(self, budget: str) -> Decimal:
        mine = [hold for hold in self._holds.values() if hold.budget == budget]
        return self._limits[budget] - sum((h.amount if h.state in OPEN else h.settled for h in mine), Decimal(0))

    def refuses(self, told: Told) -> bool:
        """Whether the refusal for want of money, with the balance that it names, is right here."""
        room = self.room(told.budget)
        return told.amount > room and Decimal(told.facts["available"]) == room

    def expect(self, told: Told) -> tuple[str, bool]:
        """What the command must be told, and whether it may send; and what it does is done."""
        hold = self._holds.get(told.operation)
        if told.command == "Reserve":
            if told.amount > self.room(told.budget):
                return "INSUFFICIENT_BUDGET", False
            self._holds[told.operation] = _Hold(told.budget, told.amount, "RESERVED")
            return "RESERVED", False
        if hold is None:
            return "NOT_FOUND", False
        match told.command:
            case "BeginDispatch":
                return self._begin(hold, told)
            case "MarkOutcomeUnknown":
                return self._unknown(hold), False
            case "Release":
                return self._release(hold), False
            case _:
                return self._resolve(hold, told.amount), False

    def _begin(self, hold: _Hold, told: Told) -> tuple[str, bool]:
        if hold.state == "RESERVED":
            hold.state, hold.nonce = "DISPATCHING", told.nonce
        return hold.state, hold.state == "DISPATCHING" and hold.nonce == told.nonce

    def _unknown(self, hold: _Hold) -> str:
        if hold.state == "RESERVED":
            return "HOLD_STATE"
        if hold.state == "DISPATCHING":
            hold.state = "OUTCOME_UNKNOWN"
        return hold.state

    def _release(self, hold: _Hold) -> str:
        if hold.state not in {"RESERVED", "RELEASED"}:
            return "HOLD_STATE"
        hold.state = "RELEASED"
        return hold.state

    def _resolve(self, hold: _Hold, amount: Decimal) -> str:
        if hold.state not in OPEN:
            return "SETTLED" if (hold.state, hold.settled) == ("SETTLED", amount) else "RESOLUTION_CONFLICT"
        hold.state, hold.settled = "SETTLED", amount
        return hold.state


def put_in_order(connection: psycopg.Connection, history: Sequence[Told]) -> list[Told]:
    """The commands as the ledger's log orders them. Raises AssertionError if one that was answered is not in it."""
    log: dict[tuple[str, str], datetime] = {
        (command, key): recorded
        for command, key, recorded in connection.execute(
            "SELECT command, key, recorded_at FROM receipt UNION ALL SELECT command, key, recorded_at FROM refused"
        )
    }
    places: dict[tuple[str, datetime], int] = {
        (operation, recorded): version
        for operation, recorded, version in connection.execute(
            "SELECT operation_id, recorded_at, min(version) FROM entry JOIN posting USING (tenant, entry_id)"
            " WHERE book_id = 'hot#0' AND operation_id IS NOT NULL GROUP BY 1, 2"
        )
    }
    for told in history:
        told.recorded = log[(told.command, told.key)]
        told.place = places.get((told.operation, told.recorded), 0)
    return sorted(history, key=lambda told: (told.recorded, told.place))


def anomalies(ordered: Sequence[Told], limits: dict[str, Decimal]) -> list[str]:
    """Every answer that the plain program would not have given in this order, and every order that time contradicts."""
    found = list(_against_time(ordered))
    plain = Ordered(limits)
    for _, group in groupby(ordered, key=lambda told: told.recorded):
        batch = list(group)
        poor = [told for told in batch if told.said == "INSUFFICIENT_BUDGET"]
        done = [told for told in batch if told.said != "INSUFFICIENT_BUDGET"]
        for told in done:
            poor = [other for other in poor if not plain.refuses(other)]
            expected = plain.expect(told)
            if expected != (told.said, told.may_send):
                found.append(f"{told.name} was told {told.said} {told.may_send}, in order it is {expected}")
        found += [f"{told.name} was refused, and had room" for told in poor if not plain.refuses(told)]
    return found


def _against_time(ordered: Sequence[Told]) -> Iterator[str]:
    """What had been answered before another was asked must stand before it."""
    latest = 0.0
    by: Told | None = None
    for told in ordered:
        if by is not None and told.answered < latest and by.recorded != told.recorded:
            yield f"{told.name} was answered before {by.name} was asked, and stands after it"
        if told.asked > latest:
            latest, by = told.asked, told
