"""The book of a budget's period: which one is open, opening the next, and what is carried on into it.

No job opens periods. The first command that asks a budget for money after the end of one opens the next, under the lock of the
book that it closes, in the transaction of that command; whether the command itself is refused does not matter to it.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from functools import partial
from typing import NamedTuple

from ledger.domain.batch import StaleRows
from ledger.domain.journal import OpenBook, authorize, split
from ledger.domain.model import Book, Budget, EntryKind, Hold
from ledger.domain.money import MOST, ZERO
from ledger.domain.periods import Span, carried_later, carried_over, periods_between, span_at
from ledger.domain.work import Work


def book_of_period(budget: Budget, span: Span) -> Book:
    """The book of a period, as it is before its first posting. Ids of a budget's books sort by their start."""
    # A budget that was made without periods begins with a book that bears no time.
    start = (
        "0" if span.end is None and span.start == budget.created_at else f"{span.start.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    )
    return Book(
        tenant=budget.tenant,
        book_id=f"{budget.budget_id}#{start}",
        budget_id=budget.budget_id,
        currency=budget.currency,
        floor=budget.floor,
        period_start=span.start,
        period_end=span.end,
        rollover=budget.rollover,
        thresholds=budget.thresholds,
    )


def first_book(work: Work, budget: Budget) -> Book:
    return book_of_period(budget, span_at(budget.schedule, work.clocks(budget.schedule), work.now))


def newest_book(work: Work, budget: Budget) -> OpenBook:
    """The budget's book that is not closed; its period may have ended. Raises StaleRows if another was opened meanwhile."""
    book = work.journal.book(budget.tenant, work.newest[(budget.tenant, budget.budget_id)])
    if book.book.closed:
        raise StaleRows(book.book.book_id)
    return book


def current_book(work: Work, budget: Budget, actor: str) -> OpenBook:
    """The book of the period that it is now, opened if it was not. Raises StaleRows if another was opened meanwhile."""
    book = newest_book(work, budget)
    return _open_next(work, budget, book, actor) if book.book.is_over(work.now) else book


def book_at(budget: Budget, newest: Book, now: datetime, clocks: tzinfo) -> Book:
    """The book of the period that it is now, as it stands, or would stand if it were opened: then it has no id yet.

    `newest` is the one that is open.
    """
    if not newest.is_over(now):
        return newest
    opening = _next(budget, OpenBook(newest), now, clocks)
    authority = (budget.limit or ZERO) + opening.arriving
    available, deficit = split(authority, budget.floor)
    return replace(opening.book, book_id="", authority=authority, available=available, deficit=deficit)


class _Opening(NamedTuple):
    """A book that is to be opened, what leaves the one before it, and what arrives in it."""

    book: Book
    leaving: Decimal
    arriving: Decimal


def _next(budget: Budget, old: OpenBook, now: datetime, clocks: tzinfo) -> _Opening:
    ended = old.book.period_end
    assert ended is not None, "a period that is over has an end"
    span = span_at(budget.schedule, clocks, now, ended)
    leaving = arriving = ZERO
    if budget.limit is not None:
        skipped = periods_between(budget.schedule, clocks, ended, span.start) if budget.limit else 0
        leaving, arriving = carried_over(budget.rollover, old.net(), budget.limit, skipped, MOST - budget.limit)
    book = book_of_period(budget, span)
    return _Opening(replace(book, carried=arriving), leaving, arriving)


def _open_next(work: Work, budget: Budget, old: OpenBook, actor: str) -> OpenBook:
    opening = _next(budget, old, work.now, work.clocks(budget.schedule))
    new = work.journal.open(opening.book)
    work.newest[(budget.tenant, budget.budget_id)] = new.book.book_id
    old.book = replace(old.book, closed=True, carried_on=opening.leaving)
    post = partial(work.journal.post, tenant=budget.tenant, currency=budget.currency, actor=actor)
    if budget.limit is not None:
        post(EntryKind.OPEN, authorize(new, budget.limit))
    moves = [*authorize(old, -opening.leaving), *authorize(new, opening.arriving)]
    post(EntryKind.ROLLOVER, moves)
    return new


def carry_on(work: Work, hold: Hold, change: Decimal, actor: str) -> None:
    """Carries on what came free (below zero: is missing) in the periods of a hold that are closed, into those that are open."""
    for old, new in _outlived(work, hold):
        # Without a limit nothing is left, and nothing missing.
        if old.book.floor is None:
            continue
        amount = carried_later(new.book.rollover, change, old.net(), max(old.book.carried_on, new.book.carried))
        if amount and new.can_hold(abs(amount)):
            old.book = replace(old.book, carried_on=old.book.carried_on + amount)
            new.book = replace(new.book, carried=new.book.carried + amount)
            work.journal.post(
                EntryKind.ROLLOVER,
                [*authorize(old, -amount), *authorize(new, amount)],
                tenant=hold.tenant,
                currency=hold.currency,
                actor=actor,
                operation_id=hold.operation_id,
            )


def books_beyond(work: Work, hold: Hold) -> Iterable[OpenBook]:
    """The books into which what changes in the periods of a hold may be carried on."""
    return (new for _, new in _outlived(work, hold))


def _outlived(work: Work, hold: Hold) -> Iterable[tuple[OpenBook, OpenBook]]:
    """The books of a hold whose periods are closed, each with its budget's newest."""
    for book_id in hold.books:
        old = work.journal.book(hold.tenant, book_id)
        if old.book.closed:
            newest = work.newest.get((hold.tenant, old.book.budget_id or ""))
            if newest is None or newest == book_id:
                raise StaleRows(book_id)
            new = work.journal.book(hold.tenant, newest)
            if new.book.closed:
                raise StaleRows(newest)
            yield old, new
