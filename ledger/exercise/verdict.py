"""The verdict on a case: pure, over what was seen at every layer."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from ledger.exercise.boundaries import Style
from ledger.exercise.cases import COST, Case, Outcome

DOUBLE: Final = "DOUBLE_ACCEPTANCE"


@dataclass(frozen=True, slots=True)
class SeenHold:
    """One hold at the end. `settled` None: it has not settled; `age` is in seconds, since its dispatch or else its reserve."""

    operation_id: str
    state: str
    amount: Decimal
    dispatched: bool
    age: float
    settled: Decimal | None = None

    def __str__(self) -> str:
        return self.state if self.settled is None else f"{self.state} {format(self.settled, 'f')}"


@dataclass(frozen=True, slots=True)
class Seen:
    """What each layer saw of a case: the caller, the provider, and the ledger with its journal.

    `entries` are the kinds of the journal's entries, in order; `spent` is what they posted to SPENT of the one budget.
    """

    reached: bool
    caller: tuple[str, ...]
    accepted: int
    looked_up: int
    webhooks: int
    holds: tuple[SeenHold, ...]
    entries: tuple[str, ...]
    spent: Decimal
    incidents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the case, and everything about it that is not as it must be."""

    case: Case
    seen: Seen
    outcome: Outcome
    faults: tuple[str, ...]


def judge(case: Case, seen: Seen) -> Verdict:
    """Holds what was seen against what was worked out by hand, and against what must be true of any case."""
    outcome = outcome_of(seen)
    if not seen.reached:
        return Verdict(case, seen, outcome, (f"it was not played to its end: {_told(seen.caller)}",))
    expected = case.expected
    compared = (
        ("the outcome", outcome, expected.outcome),
        ("acceptances", seen.accepted, expected.accepted),
        ("holds", tuple(map(str, seen.holds)), expected.holds),
        ("incidents", seen.incidents, expected.incidents),
    )
    differing = [f"{what}: {_told(found)}; must be {_told(right)}" for what, found, right in compared if found != right]
    return Verdict(case, seen, outcome, (*differing, *broken_laws(seen, guarded=case.style is Style.GUARDED)))


def outcome_of(seen: Seen) -> Outcome:
    """In words: what the provider charged, and whether the books say so."""
    charged = sum(hold.settled == COST for hold in seen.holds)
    if seen.accepted > charged + seen.incidents.count(DOUBLE) + _unknown(seen):
        return Outcome.UNSEEN
    if seen.accepted > 1:
        return Outcome.TWICE_AND_A_CASE if DOUBLE in seen.incidents else Outcome.TWICE_AND_BOOKED
    if _unknown(seen):
        return Outcome.UNKNOWN
    return Outcome.ONCE if seen.accepted else Outcome.NOT_CHARGED


def broken_laws(seen: Seen, *, guarded: bool) -> Iterator[str]:
    """What may be true of no case, whatever was expected of it."""
    if guarded and seen.accepted > 1:
        yield f"a guarded call was accepted {seen.accepted} times"
    for hold in seen.holds:
        if hold.state == "RELEASED" and hold.dispatched:
            yield f"{hold.operation_id} was released after its dispatch"
        if hold.state in ("RESERVED", "DISPATCHING"):
            yield f"{hold.operation_id} is {hold.state} still"
    settled = sum((hold.settled for hold in seen.holds if hold.settled is not None), Decimal(0))
    if seen.spent != settled:
        yield f"the journal posted {seen.spent}, and the holds settled at {settled}"
    if seen.entries.count("RESERVE") != len(seen.holds):
        yield f"{len(seen.holds)} holds, and {seen.entries.count('RESERVE')} entries that set money aside"


def _unknown(seen: Seen) -> int:
    return sum(hold.state == "OUTCOME_UNKNOWN" for hold in seen.holds)


def _told(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
