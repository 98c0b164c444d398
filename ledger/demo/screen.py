"""What people see: the story as it goes, and a table of how it ended. Nothing on it depends on colour."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

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
    """Everything that is shown at the end. `balances`: budget → name of the balance → amount; `violations`: one line each."""

    rows: Sequence[Row]
    incidents: Sequence[str]
    balances: Mapping[str, Mapping[str, str]]
    replayed: Replayed
    violations: Sequence[str]
    failures: Sequence[str]
    seconds: float = 0.0
    currency: str = "USD"
    limits: Mapping[str, str] = field(default_factory=dict)


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
        line.add_row(str(self._scenes), Text.assemble((f"{title}. ", "bold"), text))
        self._console.print(line)

    def close(self, ending: Ending) -> None:
        self._console.print()
        self._console.print(_operations(ending.rows, ending.currency))
        self._console.print(_budgets(ending))
        for line in _remarks(ending):
            self._console.print(Padding(line, (0, 0, 0, 1)))
        for failure in ending.failures:
            self._console.print(Text(f" NOT AS IT MUST BE: {failure}", style="bold red"))


def _operations(rows: Iterable[Row], currency: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, title="What became of each operation", title_justify="left")
    table.add_column("operation", no_wrap=True)
    table.add_column("the caller saw")
    table.add_column("the provider")
    table.add_column("hold", no_wrap=True)
    table.add_column(f"posted {currency}", justify="right", no_wrap=True)
    for row in rows:
        open_hold = row.posted is None
        table.add_row(
            row.name,
            row.caller_saw,
            row.provider_did,
            Text(row.state, style="bold yellow" if open_hold else ""),
            "nothing yet" if open_hold else row.posted,
        )
    return table


def _budgets(ending: Ending) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, title=f"The budgets, in {ending.currency}", title_justify="left")
    table.add_column("budget", no_wrap=True)
    table.add_column("limit", justify="right", no_wrap=True)
    for name in BALANCES:
        table.add_column(name, justify="right", no_wrap=True)
    for budget, balances in ending.balances.items():
        table.add_row(budget, ending.limits.get(budget, ""), *(balances[name] for name in BALANCES))
    return table


def _remarks(ending: Ending) -> Iterable[str]:
    replayed = ending.replayed
    if replayed.rows:
        yield (
            f"Recorded usages of real providers: {replayed.rows}; settled {replayed.settled}, of which {replayed.agreeing} "
            f"at the price that their recorders expect, to the digit."
        )
        for reason in replayed.refused:
            yield f"Not settled, and still held: {reason}"
    for incident in ending.incidents:
        yield f"Open incident: {incident}"
    if ending.violations:
        yield f"check: {len(ending.violations)} violations of the laws of the books:"
        yield from (f"  {violation}" for violation in ending.violations)
    else:
        yield "check: every law of the books was recomputed from the rows; 0 violations."
    if not ending.failures:
        yield f"Everything is as it must be ({ending.seconds:.1f} s)."
