"""The journal: entries with their postings, the postings of a book, and balances."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, Row, func, select, true
from sqlalchemy.dialects.postgresql import aggregate_order_by

from ledger.domain.model import Account, Entry, EntryKind, Posting
from ledger.domain.money import ZERO
from ledger.store.read.budgets import get_budget
from ledger.store.read.page import Key, Page, page
from ledger.store.tables import book, entry, hold, posting

FINANCIAL = frozenset({Account.EXPENSE, Account.PAYABLE})
# Ids of books: those of the financial book, and no others, are between these two ('0' follows '/').
_FINANCIAL_FROM, _FINANCIAL_TO = "#financial/", "#financial0"


class JournalEntry(NamedTuple):
    """An entry, its hold's labels, and its postings by book and version."""

    entry: Entry
    labels: Mapping[str, str]
    postings: tuple[Posting, ...]


class Balance(NamedTuple):
    """A balance on the account's normal side, and the instant for which it holds."""

    amount: Decimal
    currency: str
    as_of: datetime


def list_entries(
    connection: Connection, tenant: str, *, limit: int, after: Key | None = None, operation_id: str | None = None
) -> Page[JournalEntry]:
    """Oldest first. The key is (entry_id,): ids begin with the time of recording."""
    entries = select(entry).where(entry.c.tenant == tenant)
    if operation_id is not None:
        entries = entries.where(entry.c.operation_id == operation_id)
    if after is not None:
        entries = entries.where(entry.c.entry_id > UUID(after[0]))
    some = entries.order_by(entry.c.entry_id).limit(limit + 1).cte("some")
    order = (posting.c.book_id, posting.c.version)
    lines = (
        select(*(func.array_agg(aggregate_order_by(column, *order)).label(column.name) for column in _LINE))
        .where(posting.c.tenant == some.c.tenant, posting.c.entry_id == some.c.entry_id)
        .lateral("lines")
    )
    its_hold = (hold.c.tenant == some.c.tenant) & (hold.c.operation_id == some.c.operation_id)
    query = (
        select(*some.c, hold.c.labels, *lines.c)
        .select_from(some.join(lines, true()).outerjoin(hold, its_hold))
        .order_by(some.c.entry_id)
    )
    rows = connection.execute(query).all()
    return page(rows, limit, _journal_entry, lambda item: (str(item.entry.entry_id),))


_LINE = (posting.c.book_id, posting.c.version, posting.c.account, posting.c.amount)


def _journal_entry(row: Row[Any]) -> JournalEntry:
    values, (labels, *columns) = row[: len(entry.c)], row[len(entry.c) :]
    made = Entry._make(values)
    made = made._replace(kind=EntryKind(made.kind))
    postings = tuple(
        Posting(made.tenant, book_id, version, made.entry_id, Account(account), amount)
        for book_id, version, account, amount in zip(*(column or () for column in columns), strict=True)
    )
    return JournalEntry(made, labels or {}, postings)


def list_postings(
    connection: Connection, tenant: str, book_id: str, *, limit: int, after: Key | None = None
) -> tuple[str, Page[Posting]] | None:
    """The currency of a book, and its postings by version; None if there is no such book. The key is (version,)."""
    seen = int(after[0]) if after is not None else 0
    later = (posting.c.tenant == book.c.tenant) & (posting.c.book_id == book.c.book_id) & (posting.c.version > seen)
    query = (
        select(*posting.c, book.c.currency)
        .select_from(book.outerjoin(posting, later))
        .where(book.c.tenant == tenant, book.c.book_id == book_id)
        .order_by(posting.c.version)
        .limit(limit + 1)
    )
    rows = connection.execute(query).all()
    if not rows:
        return None
    # A book without a later posting gives one row, of nulls.
    lines = [row for row in rows if row[0] is not None]
    found = page(lines, limit, _posting, lambda item: (str(item.version),))
    return rows[0].currency, found


def _posting(row: Row[Any]) -> Posting:
    posted = Posting._make(row[: len(posting.c)])
    return posted._replace(account=Account(posted.account))


def balance(
    connection: Connection,
    tenant: str,
    account: Account,
    *,
    budget_id: str | None = None,
    provider: str | None = None,
    model: str | None = None,
    currency: str | None = None,
) -> Balance | None:
    """The balance of an account of a budget, in the period that it is now; None if there is no such budget.

    EXPENSE and PAYABLE are the financial book's: give the currency, and perhaps provider and model. Where nothing was ever
    posted, the balance is 0.
    """
    if account not in FINANCIAL:
        state = None if budget_id is None else get_budget(connection, tenant, budget_id)
        if state is None:
            return None
        return Balance(getattr(state.book, account.value.lower()), state.budget.currency, state.as_of)
    amount = book.c[account.value.lower()]
    assert currency is not None, "a balance of the financial book is of one currency"
    stripes = [book.c.tenant == tenant, book.c.book_id >= _FINANCIAL_FROM, book.c.book_id < _FINANCIAL_TO]
    stripes += [book.c.currency == currency]
    if provider is not None:
        stripes.append(book.c.provider == provider)
    if model is not None:
        stripes.append(book.c.model == model)
    total = select(func.coalesce(func.sum(amount), ZERO), func.transaction_timestamp()).where(*stripes)
    found, as_of = connection.execute(total).one()
    return Balance(found, currency, as_of)
