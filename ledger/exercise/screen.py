"""What people see: a table that says at once what was charged twice, what is held, and what is not as it must be."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from itertools import groupby
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ledger.audit.check import LawResult
from ledger.demo.books import CURRENCY
from ledger.exercise.boundaries import MEANING
from ledger.exercise.cases import Case, Outcome
from ledger.exercise.kills import Killed
from ledger.exercise.verdict import Seen, SeenHold, Verdict

WIDTH: Final = 120
STYLES: Final[Mapping[Outcome, str]] = {
    Outcome.UNKNOWN: "bold yellow",
    Outcome.TWICE_AND_A_CASE: "bold magenta",
    Outcome.TWICE_AND_BOOKED: "bold magenta",
    Outcome.UNSEEN: "bold red",
}
COLUMNS: Final = (
    ("  the caller", 25),
    ("accepted", 8),
    ("asked for", 11),
    ("holds", 15),
    ("what the caller saw", 22),
    ("journal", 17),
    ("verdict", 16),
)
# So many unknown holds are shown to people; programs get all of them.
SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Ending:
    """Everything that is shown. `held`, `spent` and `unknown_balance` are the budget's balances, `holds` all that it has."""

    verdicts: Sequence[Verdict]
    holds: Sequence[SeenHold]
    killed: Killed
    held: Decimal
    spent: Decimal
    unknown_balance: Decimal
    laws: Sequence[LawResult]

    @property
    def unknown(self) -> list[SeenHold]:
        """What nobody knows the outcome of, the oldest first."""
        return sorted((hold for hold in self.holds if hold.state == "OUTCOME_UNKNOWN"), key=lambda hold: -hold.age)

    @property
    def faults(self) -> list[str]:
        """Everything that is not as it must be."""
        return [
            *(f"{verdict.case.name}: {fault}" for verdict in self.verdicts for fault in verdict.faults),
            *(f"after the kills: {fault}" for fault in self.killed.faults),
            *self._of_the_balances(),
            *(f"law {law.law}: {example}" for law in self.laws for example in law.examples),
        ]

    def _of_the_balances(self) -> Iterator[str]:
        unknown = sum((hold.amount for hold in self.unknown), Decimal(0))
        spent = sum((hold.settled for hold in self.holds if hold.settled is not None), Decimal(0))
        for what, balance, right in (
            ("HELD", self.held, Decimal(0)),
            ("UNKNOWN", self.unknown_balance, unknown),
            ("SPENT", self.spent, spent),
        ):
            if balance != right:
                yield f"{what} of the budget is {balance}, and its holds come to {right}"

    @property
    def good(self) -> bool:
        return not self.faults and not any(law.violations for law in self.laws)

    def to_json(self) -> dict[str, Any]:
        return {
            "cases": [_case_to_json(verdict) for verdict in self.verdicts],
            "unknown": [_hold_to_json(hold) for hold in self.unknown],
            "kills": self.killed.to_json(),
            "check": {
                "violations": sum(law.violations for law in self.laws),
                "laws": [law._asdict() for law in self.laws],
            },
            "faults": self.faults,
        }


def _case_to_json(verdict: Verdict) -> dict[str, Any]:
    case, seen = verdict.case, verdict.seen
    return {
        "boundary": case.boundary,
        "style": case.style,
        "killed": case.killed,
        "provider": asdict(case.modes),
        "reached": seen.reached,
        "accepted": seen.accepted,
        "looked_up": seen.looked_up,
        "webhooks": seen.webhooks,
        "caller": list(seen.caller),
        "holds": [_hold_to_json(hold) for hold in seen.holds],
        "entries": list(seen.entries),
        "spent": format(seen.spent, "f"),
        "incidents": list(seen.incidents),
        "outcome": verdict.outcome,
        "as_it_must_be": not verdict.faults,
        "faults": list(verdict.faults),
    }


def _hold_to_json(hold: SeenHold) -> dict[str, Any]:
    return {
        "operation_id": hold.operation_id,
        "state": hold.state,
        "amount": format(hold.amount, "f"),
        "dispatched": hold.dispatched,
        "age_seconds": hold.age,
        "settled": None if hold.settled is None else format(hold.settled, "f"),
    }


class Screen:
    """Writes on a console of at most 120 columns."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=False)
        self._console.width = min(self._console.width, WIDTH) if self._console.is_terminal else WIDTH

    def open(self) -> None:
        self._console.print(Text("A fault at every boundary of a call", style="bold"))
        self._console.print(
            "Each call is broken once: its code raises there, or its process is killed. A guarded caller then asks the "
            "ledger, and settles on evidence; a blind one sends again.\n"
        )

    def close(self, ending: Ending, seconds: float) -> None:
        self._console.print(_table([], header=True))
        for head, group in groupby(ending.verdicts, lambda verdict: _heading(verdict.case)):
            self._console.print(Text(head, style="bold"))
            self._console.print(_table(group, header=False))
        self._console.print()
        for line in _remarks(ending):
            self._console.print(line)
        for fault in ending.faults:
            self._console.print(Text(f"NOT AS IT MUST BE: {fault}", style="bold red"))
        if ending.good:
            self._console.print(
                f"Everything is as it must be ({seconds:.1f} s), and nothing of it is left on this machine."
            )


def _heading(case: Case) -> str:
    if not case.elsewhere:
        return f"{case.boundary}: {MEANING[case.boundary]}"
    return f"{case.boundary}, at a provider with: {case.modes}"


def _table(verdicts: Iterable[Verdict], *, header: bool) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, show_header=header)
    for name, width in COLUMNS:
        table.add_column(name, width=width)
    for verdict in verdicts:
        table.add_row(*_cells(verdict))
    return table


def _cells(verdict: Verdict) -> Iterator[Text]:
    case, seen = verdict.case, verdict.seen
    yield Text(f"  {case.style}{', killed' if case.killed else ''}")
    yield Text(str(seen.accepted), style="bold magenta" if seen.accepted > 1 else "")
    yield Text(_asked(seen))
    yield Text("\n".join(map(str, seen.holds)))
    yield Text("; ".join(seen.caller))
    yield Text(_in_the_journal(seen))
    yield (
        Text(f"NOT AS IT MUST BE: {verdict.outcome}", style="bold red")
        if verdict.faults
        else Text(verdict.outcome, style=STYLES.get(verdict.outcome, "green"))
    )


def _asked(seen: Seen) -> str:
    counted = ((seen.looked_up, "look-up"), (seen.webhooks, "webhook"))
    return ", ".join(f"{number} {word}{'s' if number > 1 else ''}" for number, word in counted if number)


def _in_the_journal(seen: Seen) -> str:
    kinds = [kind.removeprefix("OUTCOME_").lower() for kind in seen.entries]
    if seen.spent:
        kinds[-1] += f" {format(seen.spent, 'f')}"
    cases = [f"case: {kind.lower().replace('_', ' ')}" for kind in seen.incidents]
    return "; ".join([", ".join(kinds), *cases])


def _remarks(ending: Ending) -> Iterator[str]:
    killed = ending.killed
    if killed.kills:
        yield (
            "kill -9 under a stream of guarded calls: "
            + ", ".join(f"{name} {times} times" for name, times in killed.kills.items())
            + f" (seed {killed.seed}). {killed.operations:,} operations, {killed.accepted:,} accepted, none of them twice; "
            f"{killed.settled:,} settled, {killed.found_by_look_up:,} of them by look-up afterwards; {killed.released:,} "
            f"released, none of them dispatched; {killed.unknown:,} unknown."
            if not killed.faults
            else f"kill -9 (seed {killed.seed}): {len(killed.faults)} faults."
        )
    unknown = ending.unknown
    if unknown:
        total = sum((hold.amount for hold in unknown), Decimal(0))
        yield f"Unknown, and held until there is evidence: {len(unknown)} holds, {format(total, 'f')} {CURRENCY}; the oldest first:"
        for hold in unknown[:SHOWN]:
            yield f"  {hold.operation_id:<24} {format(hold.amount, 'f')} {CURRENCY}, dispatched {hold.age:.0f} s ago"
        if len(unknown) > SHOWN:
            yield f"  and {len(unknown) - SHOWN} more, all of them in --json"
    checked = sum(law.checked for law in ending.laws)
    violations = sum(law.violations for law in ending.laws)
    yield f"check: {len(ending.laws)} laws recomputed from the rows, {checked:,} checks; {violations} violations."
