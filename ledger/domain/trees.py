"""The rules of the tree: which budgets are closed, and which stands below which."""

from ledger.domain.batch import Outcome
from ledger.domain.budget_commands import CloseBudget, MoveBudget
from ledger.domain.model import Budget
from ledger.domain.opening import book_at, newest_book
from ledger.domain.refusals import Reason
from ledger.domain.work import Work, refuse

MAX_DEPTH = 8


def path_below(work: Work, tenant: str, parent_id: str | None, currency: str) -> tuple[str, ...] | Outcome:
    """The path of a parent for a budget of this currency, () for a root; or why nothing can be put below it."""
    if parent_id is None:
        return ()
    parent = work.budgets.get((tenant, parent_id))
    if parent is None:
        return refuse(Reason.NOT_FOUND, f"There is no budget {parent_id!r}.", field="parent_id", budget_id=parent_id)
    if parent.currency != currency:
        return refuse(
            Reason.CURRENCY_MISMATCH,
            f"The parent's currency is {parent.currency}; a tree has one currency.",
            field="currency",
            budget_currency=parent.currency,
            currency=currency,
        )
    for level in parent.path:
        if work.budgets[(tenant, level)].closed_at is not None:
            return is_closed(level)
    return parent.path


def too_deep(levels: int) -> Outcome | None:
    if levels <= MAX_DEPTH:
        return None
    return refuse(
        Reason.INVALID_FIELD,
        f"A tree has at most {MAX_DEPTH} levels, not {levels}.",
        field="parent_id",
        levels=str(levels),
    )


def is_closed(budget_id: str) -> Outcome:
    """The refusal BUDGET_CLOSED, which names the level."""
    return refuse(Reason.BUDGET_CLOSED, f"Budget {budget_id!r} is closed for good: name another.", budget_id=budget_id)


def no_budget(budget_id: str) -> Outcome:
    return refuse(Reason.NOT_FOUND, f"There is no budget {budget_id!r}.", field="budget_id", budget_id=budget_id)


def standing(work: Work, budget: Budget) -> Outcome:
    """A budget that is already as it was asked to be."""
    return answer(work, budget)._replace(replayed=True, applied=False)


def answer(work: Work, budget: Budget) -> Outcome:
    """A budget as it is now, and its book as it is, or would be if the period that it is now were opened."""
    book = book_at(budget, newest_book(work, budget).closed(), work.now, work.clocks(budget.schedule))
    return Outcome(budget=budget, book=book, as_of=work.now)


def close_budget(work: Work, command: CloseBudget) -> Outcome:
    budget = work.budgets.get(command.budget_key)
    if budget is None:
        return no_budget(command.budget_id)
    if budget.closed_at is not None:
        return standing(work, budget)
    # From here it succeeds.
    work.closed.add(command.budget_key)
    return answer(work, work.change_budget(budget, closed_at=work.now))


def move_budget(work: Work, command: MoveBudget) -> Outcome:
    """Gives the budget and all that is below it their new paths. No hold is touched: each keeps the path of its reserve."""
    tenant, budget_id = command.budget_key
    budget = work.budgets.get(command.budget_key)
    if budget is None:
        return no_budget(budget_id)
    if budget.parent_id == command.parent_id:
        return standing(work, budget)
    above = path_below(work, tenant, command.parent_id, budget.currency)
    if isinstance(above, Outcome):
        return above
    if budget_id in above:
        return refuse(
            Reason.INVALID_FIELD,
            f"Budget {command.parent_id!r} is {budget_id!r} itself or below it; move it away first.",
            field="parent_id",
        )
    below = [b for b in work.budgets.values() if b.tenant == tenant and budget_id in b.path]
    cut = len(budget.path) - 1
    refusal = too_deep(max(len(above) + len(b.path) - cut for b in below))
    if refusal is not None:
        return refusal
    # From here it succeeds.
    moved = [work.change_budget(b, path=(*above, *b.path[cut:])) for b in below]
    return answer(work, next(b for b in moved if b.budget_id == budget_id))
