"""The screen: which signs it takes, how wide it is, and lines of text with colours that only a terminal shows."""

import io
import sys
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ledger.budgets.figures import PARTS, Signs, bar, signs
from ledger.v1 import budget_pb2

STYLES = {"spent": "blue", "unknown": "yellow", "held": "cyan", "available": "green"}
ALARM = "bold red"
NARROW, WIDE = 16, 40


class Screen:
    """stdout. Lines are as long as they are: a pipe gets them whole."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self.signs: Signs = signs(sys.stdout.encoding or "")
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A name that the stream cannot say must not keep the numbers back.
            sys.stdout.reconfigure(errors="replace")

    def bar_width(self, others: int) -> int:
        """The cells that a bar may have beside so many others."""
        if not self._console.is_terminal:
            return 24
        return max(NARROW, min(WIDE, self._console.width - others))

    def tell(self, lines: Iterable[Text | str]) -> None:
        for line in lines:
            self._console.print(line if isinstance(line, Text) else Text(line))

    def bar(self, balances: budget_pb2.Balances, width: int) -> Text:
        """A bar of exactly so many cells."""
        drawn = Text()
        for part, cells in bar(balances, width):
            drawn.append(self.signs.parts[part] * cells, STYLES[part])
        return padded(drawn, width)

    def legend(self) -> Text:
        legend = Text()
        for part in PARTS:
            legend.append(self.signs.parts[part] * 2, STYLES[part])
            legend.append(f" {part}   ")
        return legend


def padded(text: Text, width: int, *, right: bool = False) -> Text:
    """The text with blanks up to a width in cells: a sign of Chinese has two."""
    blanks = " " * (width - cell_len(text.plain))
    return Text.assemble(blanks, text) if right else Text.assemble(text, blanks)


def table(rows: Sequence[Sequence[Text]], numbers: frozenset[int]) -> list[Text]:
    """Lines of aligned columns; those of numbers stand at the right."""
    widths = [max(cell_len(row[i].plain) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [padded(cell, widths[i], right=i in numbers) for i, cell in enumerate(row)]
        line = Text("  ").join(cells)
        line.rstrip()
        lines.append(line)
    return lines
