"""Whether one level of a path can take a hold. Each refusal names the level, and what it would need."""

from ledger.domain.batch import Outcome
from ledger.domain.journal import AVAILABLE, DEFICIT, HELD, SPENT, UNKNOWN, OpenBook
from ledger.domain.model import Budget
from ledger.domain.money import ZERO, plain
from ledger.domain.quotes import Quote
from ledger.domain.refusals import Reason
from ledger.domain.trees import is_closed
from ledger.domain.work import refuse


def cannot_take(budget: Budget, book: OpenBook, quoted: Quote) -> Outcome | None:
    """Why the budget cannot take a hold of the quote's amount; None if it can."""
    level = budget.budget_id
    if budget.currency != quoted.currency:
        return refuse(
            Reason.CURRENCY_MISMATCH,
            f"The quote is in {quoted.currency}, budget {level!r} in {budget.currency}.",
            budget_id=level,
            currency=quoted.currency,
            budget_currency=budget.currency,
        )
    if budget.closed_at is not None:
        return is_closed(level)
    return _above_caps(budget, book, quoted) or _short(budget, book, quoted)


def _above_caps(budget: Budget, book: OpenBook, quoted: Quote) -> Outcome | None:
    level = budget.budget_id
    if budget.max_hold is not None and quoted.amount > budget.max_hold:
        return refuse(
            Reason.HOLD_TOO_LARGE,
            f"A hold on budget {level!r} may be {plain(budget.max_hold)} {quoted.currency} at most, not"
            f" {plain(quoted.amount)}: ask for less, or have the cap raised.",
            budget_id=level,
            amount=plain(quoted.amount),
            currency=quoted.currency,
            max_hold=plain(budget.max_hold),
        )
    if budget.max_open_holds is not None and book.open_holds >= budget.max_open_holds:
        return refuse(
            Reason.TOO_MANY_HOLDS,
            f"Budget {level!r} has {book.open_holds} open holds, and may have {budget.max_open_holds}: resolve or release some,"
            " then reserve with a new key.",
            budget_id=level,
            open_holds=str(book.open_holds),
            max_open_holds=str(budget.max_open_holds),
        )
    return None


def _short(budget: Budget, book: OpenBook, quoted: Quote) -> Outcome | None:
    level, room = budget.budget_id, book.room()
    if room is None or quoted.amount <= room:
        # A limit that the ledger can hold bounds what is held; with a credit line beside it, it may be twice as much.
        is_bounded = room is not None and not budget.credit_line
        if is_bounded or book.can_hold(quoted.amount):
            return None
        return refuse(Reason.UNQUOTABLE, f"Budget {level!r} would be above what the ledger can hold.", budget_id=level)
    balances = book.balances
    return refuse(
        Reason.INSUFFICIENT_BUDGET,
        f"Budget {level!r} has {plain(room)} {quoted.currency} available, {plain(quoted.amount)} are needed.",
        budget_id=level,
        amount=plain(quoted.amount),
        currency=quoted.currency,
        # A book with a floor is that of a budget with a limit.
        limit=plain(budget.limit or ZERO),
        available=plain(balances[AVAILABLE]),
        held=plain(balances[HELD]),
        unknown=plain(balances[UNKNOWN]),
        spent=plain(balances[SPENT]),
        deficit=plain(balances[DEFICIT]),
    )
