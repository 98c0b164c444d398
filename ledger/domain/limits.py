"""The rule by which the settings of a budget change."""

from dataclasses import replace
from decimal import Decimal

from ledger.domain.batch import Outcome
from ledger.domain.budgets import no_credit_without_limit
from ledger.domain.commands import UpdateBudget
from ledger.domain.journal import OpenBook, authorize
from ledger.domain.model import Budget, EntryKind
from ledger.domain.money import ZERO
from ledger.domain.opening import current_book
from ledger.domain.periods import span_at
from ledger.domain.refusals import Reason
from ledger.domain.work import Work, refuse


def update_budget(work: Work, command: UpdateBudget) -> Outcome:
    """Limit, credit line and rollover hold at once, in the period that is open; another period begins where that ends."""
    key = (command.caller.tenant, command.budget_id)
    before = work.budgets.get(key)
    if before is None:
        return refuse(Reason.NOT_FOUND, f"There is no budget {command.budget_id!r}.", field="budget_id")
    after = _changed(before, command)
    if after.limit is None and after.credit_line:
        return no_credit_without_limit()
    book = current_book(work, before, command.caller.actor)
    difference = (after.limit or ZERO) - (before.limit or ZERO)
    if difference > 0 and not book.can_hold(difference):
        return refuse(Reason.INVALID_FIELD, "The budget would be above what the ledger can hold.", field="limit")
    if after == before:
        return Outcome(budget=before, book=book.closed(), as_of=work.now, applied=False)
    # From here it succeeds.
    stored = work.loaded.budgets.get(key)
    # A batch writes a budget once, whatever it changes.
    after = replace(after, version=before.version if stored is None else stored.version + 1)
    work.put(after)
    _apply(work, after, book, difference, command.caller.actor)
    return Outcome(budget=after, book=book.closed(), as_of=work.now)


def _changed(budget: Budget, command: UpdateBudget) -> Budget:
    return replace(
        budget,
        limit=budget.limit if command.limit is None else command.limit.limit,
        credit_line=budget.credit_line if command.credit_line is None else command.credit_line,
        display_name=budget.display_name if command.display_name is None else command.display_name,
        schedule=budget.schedule if command.schedule is None else command.schedule,
        rollover=budget.rollover if command.rollover is None else command.rollover,
    )


def _apply(work: Work, budget: Budget, book: OpenBook, difference: Decimal, actor: str) -> None:
    """Brings the book of the running period to the settings. What a lower limit cannot take from AVAILABLE is DEFICIT."""
    end = book.book.period_end
    if end is None:
        # Only a period that would never end is given an end: the first boundary to come.
        end = span_at(budget.schedule, work.clocks(budget.schedule), work.now).end
    book.book = replace(
        book.book, floor=budget.floor, rollover=budget.rollover, period_end=end, settings=budget.version
    )
    work.journal.post(
        EntryKind.LIMIT, authorize(book, difference), tenant=budget.tenant, currency=budget.currency, actor=actor
    )
