"""What one process remembers of the database, and what the locked rows tell it.

What never changes is taken as it is remembered. Which book is open may change, and is held against its locked row before anything
is decided on it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from ledger.domain.cards import PriceCard
from ledger.domain.model import Book

Key: TypeAlias = tuple[str, str]

_MOST_CARDS = 10_000
_MOST_BOOKS = 200_000


class Outlived(Exception):
    """A book turned out to be closed under its lock: another is needed, which must be locked in its turn."""


@dataclass(slots=True)
class Memory:
    """`newest` is, of each budget, the book that was open when it was looked for.

    `cards` are versions of price cards by (tenant, card_id, version); `books` are the keys of books that exist, `closed` of those
    whose periods are over and followed by another.
    """

    cards: dict[tuple[str, str, int], PriceCard] = field(default_factory=dict)
    books: set[tuple[str, str]] = field(default_factory=set)
    closed: set[tuple[str, str]] = field(default_factory=set)
    newest: dict[tuple[str, str], str] = field(default_factory=dict)

    def forget(self) -> None:
        self.cards.clear()
        self.books.clear()
        self.closed.clear()
        self.newest.clear()

    def trim(self) -> None:
        """Forgets everything of a kind that has become too many: it is read again when needed."""
        if len(self.cards) > _MOST_CARDS:
            self.cards.clear()
        for books in (self.books, self.closed, self.newest):
            if len(books) > _MOST_BOOKS:
                books.clear()

    def open_books(self, budgets: Iterable[Key]) -> dict[Key, str]:
        """The books of the budgets that are open, of those of which one is remembered that is not known to be closed."""
        found = ((key, self.newest.get(key)) for key in budgets)
        return {key: book_id for key, book_id in found if book_id is not None and (key[0], book_id) not in self.closed}

    def learn_stripes(self, asked: Iterable[Book], opened: Iterable[Key]) -> None:
        """Books that were there already are committed. Those that were opened now are not, and may never be."""
        self.books.update({(book.tenant, book.book_id) for book in asked}.difference(opened))

    def learn_gone(self, locked: Collection[Key], books: Mapping[Key, Book]) -> int:
        """How many books are remembered and gone all the same, as they may be if the database was restored from a backup."""
        if len(books) == len(locked):
            return 0
        gone = self.books.intersection(locked).difference(books)
        self.books.difference_update(gone)
        return len(gone)

    def learn_periods(
        self,
        newest: Mapping[Key, str],
        locked: Iterable[Key],
        carrying: Iterable[Key],
        books: Mapping[Key, Book],
        now: datetime,
    ) -> None:
        """What the locked books tell of their periods; `carrying` are those of holds that were not known to be closed.

        Raises Outlived if one of those is closed, or one of the newest that were to be locked is, or is gone: then other books
        are needed.
        """
        asked = set(locked)
        closed = {key for key in carrying if (book := books.get(key)) is not None and book.closed}
        is_gone = False
        for (tenant, budget_id), book_id in newest.items():
            key = (tenant, book_id)
            if key not in asked:
                continue
            book = books.get(key)
            # When a period is over the next one is opened, it may be by this very batch: it is looked for then.
            if book is None or book.closed or book.is_over(now):
                self.newest.pop((tenant, budget_id), None)
            is_gone = is_gone or book is None
            if book is not None and book.closed:
                closed.add(key)
        self.closed |= closed
        if closed or is_gone:
            raise Outlived
