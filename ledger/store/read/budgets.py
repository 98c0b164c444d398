"""Budgets with their balances."""

from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, func, select

from ledger.domain.model import Book, Budget
from ledger.domain.opening import book_at
from ledger.store.clocks import clocks_of
from ledger.store.read.page import Key, Page, page
from ledger.store.rows import book_from, budget_from
from ledger.store.tables import book, budget, has_parent, parent_id


class BudgetState(NamedTuple):
    """A budget, its book, and the instant for which the balances hold: every write committed before it is in them.

    The book is that of the period that it is then, as it would stand if it were opened, whether it was or not.
    """

    budget: Budget
    book: Book
    as_of: datetime


class PeriodState(NamedTuple):
    """A book of a budget, and the instant for which its balances hold."""

    book: Book
    as_of: datetime


def get_budget(connection: Connection, tenant: str, budget_id: str) -> BudgetState | None:
    row = connection.execute(_states(tenant).where(budget.c.budget_id == budget_id)).one_or_none()
    return None if row is None else _state(row)


def list_budgets(
    connection: Connection, tenant: str, *, limit: int, after: Key | None = None, parent: str | None = None
) -> Page[BudgetState]:
    """In order of budget_id; with `parent` its children only. The key is (budget_id,)."""
    query = _states(tenant)
    if parent is not None:
        query = query.where(parent_id == parent, has_parent)
    if after is not None:
        query = query.where(budget.c.budget_id > after[0])
    rows = connection.execute(query.order_by(budget.c.budget_id).limit(limit + 1)).all()
    return page(rows, limit, _state, lambda item: (item.budget.budget_id,))


def list_periods(
    connection: Connection, tenant: str, budget_id: str, *, limit: int, after: Key | None = None
) -> Page[PeriodState]:
    """The books of a budget, the newest first. The key is (book_id,)."""
    # By the primary key: they have its name and a '#', which no name has, before a start by which they sort.
    first, beyond = f"{budget_id}#", f"{budget_id}$"
    query = select(*book.c, func.transaction_timestamp()).where(
        book.c.tenant == tenant,
        book.c.book_id >= first,
        book.c.book_id < (beyond if after is None else min(after[0], beyond)),
    )
    rows = connection.execute(query.order_by(book.c.book_id.desc()).limit(limit + 1)).all()
    return page(rows, limit, _period, lambda item: (item.book.book_id,))


def _period(row: Any) -> PeriodState:
    *values, as_of = row
    return PeriodState(book_from(tuple(values)), as_of)


def _states(tenant: str) -> Select[Any]:
    its_book = (book.c.tenant == budget.c.tenant) & (book.c.budget_id == budget.c.budget_id) & ~book.c.closed
    return (
        select(*budget.c, *book.c, func.transaction_timestamp())
        .select_from(budget.join(book, its_book))
        .where(budget.c.tenant == tenant)
    )


def _state(row: Any) -> BudgetState:
    *values, as_of = row
    width = len(budget.c)
    found, newest = budget_from(tuple(values[:width])), book_from(tuple(values[width:]))
    # The clocks are asked for only where a period is over: a zone that this machine lacks is in nobody's way before.
    current = book_at(found, newest, as_of, clocks_of(found.schedule.zone)) if newest.is_over(as_of) else newest
    return BudgetState(found, current, as_of)
