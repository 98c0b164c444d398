"""Budgets, balances, price cards and journal rows, to the contract's messages."""

from collections.abc import Mapping
from datetime import datetime

from ledger.domain.model import Account, Book, Budget, Entry, EntryKind, Posting
from ledger.domain.money import plain
from ledger.service.translate.answers import write_money, write_time
from ledger.service.translate.periods import write_settings
from ledger.service.translate.thresholds import write_thresholds
from ledger.v1 import budget_pb2, journal_pb2

_ACCOUNTS = {account: journal_pb2.Account.Value(f"ACCOUNT_{account}") for account in Account}
_ENTRIES = {kind: journal_pb2.EntryKind.Value(f"ENTRY_KIND_{kind}") for kind in EntryKind}
ACCOUNT_OF = {int(number): account for account, number in _ACCOUNTS.items()}


def write_budget(message: budget_pb2.Budget, budget: Budget, book: Book, as_of: datetime | None) -> None:
    message.budget_id = budget.budget_id
    message.parent_id = budget.parent_id or ""
    message.currency = budget.currency
    message.display_name = budget.display_name
    if budget.limit is not None:
        message.limit = plain(budget.limit)
    write_time(message.create_time, budget.created_at)
    if budget.max_hold is not None:
        message.max_hold = plain(budget.max_hold)
    if budget.max_open_holds is not None:
        message.max_open_holds = budget.max_open_holds
    if budget.closed_at is not None:
        write_time(message.close_time, budget.closed_at)
    message.version = budget.version
    message.credit_line = plain(budget.credit_line)
    write_settings(message, budget)
    write_thresholds(message.thresholds, budget.thresholds)
    if book.period_start is not None:
        write_time(message.period_start_time, book.period_start)
    if book.period_end is not None:
        write_time(message.period_end_time, book.period_end)
    write_balances(message.balances, book, as_of)


def write_balances(balances: budget_pb2.Balances, book: Book, as_of: datetime | None) -> None:
    balances.authority = plain(book.authority)
    balances.available = plain(book.available)
    balances.held = plain(book.held)
    balances.unknown = plain(book.unknown)
    balances.spent = plain(book.spent)
    balances.deficit = plain(book.deficit)
    balances.open_holds = book.open_holds
    balances.carried = plain(book.carried)
    balances.book_id = book.book_id
    if as_of is not None:
        write_time(balances.as_of, as_of)


def write_entry(message: journal_pb2.Entry, entry: Entry, labels: Mapping[str, str]) -> None:
    message.entry_id = str(entry.entry_id)
    message.kind = _ENTRIES[entry.kind]
    message.currency = entry.currency
    write_time(message.record_time, entry.recorded_at)
    write_time(message.effective_time, entry.effective_at)
    message.accounting_date = entry.accounting_date.isoformat()
    message.operation_id = entry.operation_id or ""
    message.actor = entry.actor
    message.corrects = str(entry.corrects or "")
    message.labels.update(labels)


def write_posting(message: journal_pb2.Posting, posting: Posting, currency: str) -> None:
    message.book_id = posting.book_id
    message.version = posting.version
    message.entry_id = str(posting.entry_id)
    message.account = _ACCOUNTS[posting.account]
    write_money(message.amount, posting.amount, currency)
