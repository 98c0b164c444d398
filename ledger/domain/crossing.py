"""The rule by which thresholds are crossed.

The marks of what was crossed stand on the period's book and only grow. A book is looked at when its batch is decided, under its
lock and with what the batch leaves in it; so a crossing is told by exactly one batch, however many move the book. A balance that
rises and falls within one batch was never to be seen above the threshold, and crosses nothing.
"""

from dataclasses import replace
from decimal import Decimal

from ledger.domain.batch import Decision
from ledger.domain.model import Book
from ledger.domain.thresholds import Basis, Crossing


def cross(decision: Decision) -> None:
    """Marks what the books of a decision have crossed, and adds the crossings to it."""
    for key, book in decision.books.items():
        crossed = _crossed(book)
        if crossed:
            decision.books[key] = replace(book, crossed=(*book.crossed, *crossed))
            basis, amount = book.thresholds.basis, _measure(book)
            tenant, budget_id, book_id = book.tenant, book.budget_id or "", book.book_id
            decision.crossings += [
                Crossing(tenant, budget_id, book_id, percent, basis, amount, book.allowance, book.currency)
                for percent in crossed
            ]


def _measure(book: Book) -> Decimal:
    """What is held against what the period has."""
    return book.spent if book.thresholds.basis is Basis.SPENT else book.spent + book.held + book.unknown


def _crossed(book: Book) -> list[int]:
    """The thresholds that the book stands at or above and that bear no mark yet.

    They are parts of what the period had: what is carried on when it ends was not used. Without a limit there is nothing to be a
    part of. Of 0, or of less, the first use is more than any part, and no use is none.
    """
    if book.floor is None or book.crossed == book.thresholds.percents:
        return []
    amount = _measure(book)
    if not amount:
        return []
    reached = 100 * amount
    return [p for p in book.thresholds.percents if reached >= p * book.allowance and p not in book.crossed]
