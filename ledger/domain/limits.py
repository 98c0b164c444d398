"""The rule by which the settings of a budget change."""

from dataclasses import replace
from decimal import Decimal

from ledger.domain.batch import Outcome
from ledger.domain.budget_commands import UpdateBudget
from ledger.domain.journal import OpenBook, authorize
from ledger.domain.model import Budget, EntryKind
from ledger.domain.money import ZERO
from ledger.domain.opening import current_book
from ledger.domain.periods import span_at
from ledger.domain.refusals import Reason
from ledger.domain.trees import answer, is_closed, no_budget, standing
from ledger.domain.work import Work, refuse


def update_budget(work: Work, command: UpdateBudget) -> Outcome:
    """All of it holds at once, in the period that is running, but for another schedule: that begins where the period ends."""
    before = work.budgets.get(command.budget_key)
    if before is None:
        return no_budget(command.budget_id)
    if before.closed_at is not None:
        return is_closed(command.budget_id)
    changes = {name: getattr(command, name) for name in command.mask}
    if all(getattr(before, name) == value for name, value in changes.items()):
        return standing(work, before)
    after = replace(before, **changes)
    refusal = no_credit_line(after.limit, after.credit_line)
    if refusal is not None:
        return refusal
    # What a period begins with is worked out by the settings that were in force then.
    book = current_book(work, before, command.caller.actor)
    difference = (after.limit or ZERO) - (before.limit or ZERO)
    if difference > 0 and not book.can_hold(difference):
        return refuse(Reason.INVALID_FIELD, "The budget would be above what the ledger can hold.", field="limit")
    # From here it succeeds.
    after = work.change_budget(before, **changes)
    _bring_to(work, after, book, difference, command.caller.actor)
    return answer(work, after)


def no_credit_line(limit: Decimal | None, credit_line: Decimal) -> Outcome | None:
    """Why there cannot be such a credit line; None if there can."""
    if limit is not None or not credit_line:
        return None
    return refuse(
        Reason.INVALID_FIELD, "Only a budget with a limit has a credit line: set it to 0.", field="credit_line"
    )


def _bring_to(work: Work, budget: Budget, book: OpenBook, difference: Decimal, actor: str) -> None:
    """Brings the book of the running period to the settings. What a lower limit cannot take from AVAILABLE is DEFICIT."""
    end = book.book.period_end
    if end is None:
        # Only a period that would never end is given an end: the first boundary to come.
        end = span_at(budget.schedule, work.clocks(budget.schedule), work.now).end
    settled = replace(
        book.book, floor=budget.floor, rollover=budget.rollover, period_end=end, thresholds=budget.thresholds
    )
    if settled != book.book:
        book.book = settled
    work.journal.post(
        EntryKind.LIMIT, authorize(book, difference), tenant=budget.tenant, currency=budget.currency, actor=actor
    )
