"""What people see: the story as it goes, and a table of how it ended. Nothing on it depends on colour."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ledger.audit.check import LawResult
from ledger.demo.recordings import Replayed
from ledger.demo.story import Row

WIDTH = 100
OPENING = (
    "A gateway calls paid providers. Before each call it sets money aside: a hold. After the call the hold settles, and "
    "only on evidence: usage that the provider gave, or a proof that the call cost nothing.",
    "A call that went out and was not answered is neither failed nor done. It is OUTCOME_UNKNOWN, and its money stays held: "
    "freed, it could be promised to someone else while the provider has already charged it.",
)
BALANCES = ("available", "held", "unknown", "spent", "deficit")


@dataclass(frozen=True, slots=True)
class Ending:
    """Everything that is shown at the end. `balances`: budget → name of the balance → amount; `laws`: what became of each."""

    rows: Sequence[Row]
    incidents: Sequence[str]
    balances: Mapping[str, Mapping[str, str]]
    replayed: Replayed
    laws: Sequence[LawResult]
    failures: Sequence[str]
    seconds: float = 0.0
    currency: str = "USD"
    limits: Mapping[str, str] = field(default_factory=dict)
    depths: Mapping[str, int] = field(default_factory=dict)

    @property
    def violations(self) -> int:
        return sum(law.violations for law in self.laws)

    @property
    def good(self) -> bool:
        return not self.failures and not self.violations


class Screen:
    """Tells the story on a console of at most 100 columns."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=False)
        self._console.width = min(self._console.width, WIDTH) if self._console.is_terminal else WIDTH
        self._scenes = 0

    def open(self) -> None:
        self._console.print(Text("The spend ledger in nine calls to a provider", style="bold"))
        for paragraph in (*OPENING, "Starting PostgreSQL, the server and a fake provider …"):
            self._console.print()
            self._console.print(paragraph)
        self._console.print()

    def tell(self, title: str, text: str) -> None:
        """One scene, before it is played."""
        self._scenes += 1
        line = Table.grid(padding=(0, 1))
        line.add_column(width=2, justify="right")
        line.add_column()
        line.add_row(str(self._scenes), Text.assemble((f"{title}: ", "bold"), text))
        self._console.print(line)

    def close(self, ending: Ending) -> None:
        self._console.print()
        self._console.print(_operations(ending.rows, ending.currency))
        self._console.print()
        self._console.print(_budgets(ending))
        self._console.print()
        for line in _remarks(ending):
            self._console.print(line)
        for failure in ending.failures:
            self._console.print(Text(f"NOT AS IT MUST BE: {failure}", style="bold red"))


def _table(title: str) -> Table:
    return Table(
        box=box.SIMPLE_HEAD,
        # The operations' table is 80 columns wide with this, where the second column gives way.
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
        title=title,
        title_justify="left",
        title_style="bold",
    )


def _operations(rows: Iterable[Row], currency: str) -> Table:
    table = _table(f"What became of each operation ({currency})")
    table.add_column("operation", no_wrap=True)
    table.add_column("the caller saw")
    table.add_column("the provider", no_wrap=True)
    table.add_column("the hold", no_wrap=True)
    table.add_column("set aside", justify="right", no_wrap=True)
    table.add_column("posted", justify="right", no_wrap=True)
    for row in rows:
        open_hold = row.posted is None
        table.add_row(
            row.name,
            row.caller_saw,
            row.provider_did,
            Text(row.state, style="bold yellow" if open_hold else ""),
            row.set_aside,
            "none yet" if open_hold else row.posted,
        )
    return table


def _budgets(ending: Ending) -> Table:
    table = _table(f"The budgets ({ending.currency}); an indented one is part of that above it")
    table.add_column("budget", no_wrap=True)
    table.add_column("limit", justify="right", no_wrap=True)
    for name in BALANCES:
        table.add_column(name, justify="right", no_wrap=True)
    for budget, balances in ending.balances.items():
        name = "  " * ending.depths.get(budget, 0) + budget
        table.add_row(name, ending.limits.get(budget, ""), *(balances[name] for name in BALANCES))
    return table


def _remarks(ending: Ending) -> Iterable[str]:
    replayed = ending.replayed
    if replayed.rows:
        yield (
            f"Recorded usages of real providers: {replayed.rows}; settled {replayed.settled}, of which {replayed.agreeing} "
            f"at the price that their recorders expect, to the digit."
        )
        for reason in replayed.refused:
            yield f"Not settled, and so still held as unknown: {reason}"
    for incident in ending.incidents:
        yield f"Open incident: {incident}"
    checked = sum(law.checked for law in ending.laws)
    yield f"check: {len(ending.laws)} laws recomputed from the rows, {checked:,} checks; {ending.violations} violations."
    yield from (f"  {law.law}: {example}" for law in ending.laws for example in law.examples)
    if ending.good:
        yield f"Everything is as it must be ({ending.seconds:.1f} s), and nothing of it is left on this machine."
        yield "README.md goes on with a ledger of your own."
