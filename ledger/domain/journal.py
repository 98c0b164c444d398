"""The working copy of a batch: books that are posted to, and the rows that will be written.

Debits are positive, credits negative. Every entry moves each of its books by a sum of zero.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import TypeAlias
from uuid import UUID

from ledger.domain.batch import Decision, Loaded, NotLoaded
from ledger.domain.model import DEBIT_NORMAL, Account, Book, Entry, EntryKind, Hold, Posting
from ledger.domain.money import fits

AUTHORITY, AVAILABLE, HELD, UNKNOWN, SPENT, DEFICIT, EXPENSE, PAYABLE = Account


class OpenBook:
    """A book while a batch posts to it: running balances on their normal sides, and how many open holds it has."""

    __slots__ = ("balances", "book", "open_holds", "version")

    def __init__(self, book: Book) -> None:
        self.book = book
        self.version = book.version
        self.open_holds = book.open_holds
        self.balances = {
            AUTHORITY: book.authority,
            AVAILABLE: book.available,
            HELD: book.held,
            UNKNOWN: book.unknown,
            SPENT: book.spent,
            DEFICIT: book.deficit,
            EXPENSE: book.expense,
            PAYABLE: book.payable,
        }

    def room(self) -> Decimal | None:
        """How much AVAILABLE is above its floor; None if it has no floor."""
        return None if self.book.floor is None else self.balances[AVAILABLE] - self.book.floor

    def net(self) -> Decimal:
        """What is left, below zero what is missing."""
        return self.balances[AVAILABLE] - self.balances[DEFICIT]

    def can_hold(self, amount: Decimal) -> bool:
        """Whether every balance stays within what NUMERIC(38,18) holds if so much more is moved.

        What is held may become unknown, and either may become spent: each of them may come to be the sum of the three.
        """
        b = self.balances
        used = b[HELD] + b[UNKNOWN] + b[SPENT]
        most = max(used, abs(b[AUTHORITY]), abs(b[AVAILABLE]), b[DEFICIT])
        return fits(most + amount)

    def can_expense(self, amount: Decimal) -> bool:
        """The same of EXPENSE and PAYABLE, which a correction may also lower."""
        return fits(abs(self.balances[EXPENSE] + amount))

    def closed(self) -> Book:
        """The book as it is to be written."""
        b = self.balances
        return replace(
            self.book,
            version=self.version,
            open_holds=self.open_holds,
            authority=b[AUTHORITY],
            available=b[AVAILABLE],
            held=b[HELD],
            unknown=b[UNKNOWN],
            spent=b[SPENT],
            deficit=b[DEFICIT],
            expense=b[EXPENSE],
            payable=b[PAYABLE],
        )


# One line of an entry before it is posted.
Move: TypeAlias = tuple[OpenBook, Account, Decimal]


def give(book: OpenBook, amount: Decimal) -> list[Move]:
    """Credits that give an amount back: DEFICIT is repaid first, the rest becomes AVAILABLE."""
    deficit = book.balances[DEFICIT]
    if not deficit:
        return [(book, AVAILABLE, -amount)]
    repaid = min(deficit, amount)
    return [(book, DEFICIT, -repaid), (book, AVAILABLE, repaid - amount)]


def take(book: OpenBook, amount: Decimal) -> list[Move]:
    """Debits that take an amount which is owed in any case: AVAILABLE down to its floor, the rest becomes DEFICIT."""
    room = book.room()
    covered = amount if room is None else min(room, amount)
    return [(book, AVAILABLE, covered), (book, DEFICIT, amount - covered)]


def split(net: Decimal, floor: Decimal | None) -> tuple[Decimal, Decimal]:
    """AVAILABLE and DEFICIT of a book in which so much is left; below zero: missing."""
    available = net if floor is None else max(net, floor)
    return available, available - net


def authorize(book: OpenBook, amount: Decimal) -> list[Move]:
    """Adds to AUTHORITY, or takes from it if the amount is below zero: what is left or missing changes with it.

    Also what a new floor makes of the two, for which the amount may be 0.
    """
    available, deficit = split(book.net() + amount, book.book.floor)
    return [
        (book, AUTHORITY, amount),
        (book, AVAILABLE, book.balances[AVAILABLE] - available),
        (book, DEFICIT, deficit - book.balances[DEFICIT]),
    ]


class Journal:
    """Posts entries to the books of a batch."""

    def __init__(self, loaded: Loaded, decision: Decision) -> None:
        self._loaded = loaded
        self._decision = decision
        self._open: dict[tuple[str, str], OpenBook] = {}

    def book(self, tenant: str, book_id: str) -> OpenBook:
        """The working copy of a loaded book. Raises NotLoaded if it is another."""
        opened = self._open.get((tenant, book_id))
        if opened is not None:
            return opened
        loaded = self._loaded.books.get((tenant, book_id))
        if loaded is None:
            raise NotLoaded(book_id)
        return self.open(loaded)

    def peek(self, book: Book) -> OpenBook:
        """The book as `open` would give it, without making it a part of the batch."""
        key = (book.tenant, book.book_id)
        return self._open.get(key) or OpenBook(self._loaded.books.get(key, book))

    def open(self, book: Book) -> OpenBook:
        """The working copy of a book that was loaded, or is new."""
        key = (book.tenant, book.book_id)
        opened = self._open.get(key)
        if opened is None:
            opened = self._open[key] = OpenBook(self._loaded.books.get(key, book))
        return opened

    def post(
        self,
        kind: EntryKind,
        moves: Iterable[Move],
        *,
        tenant: str,
        currency: str,
        actor: str,
        operation_id: str | None = None,
        effective_at: datetime | None = None,
        corrects: UUID | None = None,
    ) -> UUID | None:
        """Posts one entry. Lines of zero are left out; an entry without lines is not written and gives None."""
        lines = [move for move in moves if move[2]]
        if not lines:
            return None
        now = self._loaded.now
        entry_id = self._loaded.new_id()
        postings = self._decision.postings
        for book, account, amount in lines:
            book.version += 1
            if account in DEBIT_NORMAL:
                book.balances[account] += amount
            else:
                book.balances[account] -= amount
            postings.append(Posting(tenant, book.book.book_id, book.version, entry_id, account, amount))
        self._decision.entries.append(
            Entry(tenant, entry_id, kind, currency, now, effective_at or now, now.date(), operation_id, actor, corrects)
        )
        return entry_id

    def count(self, hold: Hold, change: int) -> None:
        """One open hold more (1) or fewer (-1) on every level of the hold's path."""
        for book_id in hold.books:
            self.book(hold.tenant, book_id).open_holds += change

    def close(self) -> None:
        """Hands every book that was changed, or is new, to the decision."""
        for key, opened in self._open.items():
            book = opened.book
            changed = (opened.version, opened.open_holds) != (book.version, book.open_holds)
            # A book that is new, or has other settings, is not the one that was loaded.
            if changed or book is not self._loaded.books.get(key):
                self._decision.books[key] = opened.closed()
