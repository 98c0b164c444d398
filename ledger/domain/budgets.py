"""The rules of budgets and price cards."""

from dataclasses import replace

from ledger.domain.batch import Outcome
from ledger.domain.commands import CreateBudget, GrantBudget, PutPriceCard
from ledger.domain.journal import authorize
from ledger.domain.model import Budget, EntryKind, Grant
from ledger.domain.money import plain
from ledger.domain.opening import current_book, first_book, newest_book, standing
from ledger.domain.refusals import Reason
from ledger.domain.work import Work, refuse

MAX_DEPTH = 8


def create_budget(work: Work, command: CreateBudget) -> Outcome:
    tenant = command.caller.tenant
    existing = work.budgets.get((tenant, command.budget_id))
    if existing is not None:
        return _existing(work, existing, command)
    path: tuple[str, ...] = ()
    if command.parent_id is not None:
        parent = work.budgets.get((tenant, command.parent_id))
        if parent is None:
            return refuse(Reason.NOT_FOUND, f"There is no budget {command.parent_id!r}.", field="parent_id")
        if parent.currency != command.currency:
            return refuse(
                Reason.CURRENCY_MISMATCH,
                f"The parent's currency is {parent.currency}; a tree has one currency.",
                field="currency",
                budget_currency=parent.currency,
                currency=command.currency,
            )
        if len(parent.path) >= MAX_DEPTH:
            return refuse(Reason.INVALID_FIELD, f"A tree has at most {MAX_DEPTH} levels.", field="parent_id")
        path = parent.path
    if command.limit is None and command.credit_line:
        return no_credit_without_limit()
    # From here it succeeds.
    budget = Budget(
        tenant=tenant,
        budget_id=command.budget_id,
        path=(*path, command.budget_id),
        currency=command.currency,
        display_name=command.display_name,
        limit=command.limit,
        created_at=work.now,
        credit_line=command.credit_line,
        schedule=command.schedule,
        rollover=command.rollover,
    )
    work.put(budget)
    book = work.journal.open(first_book(work, budget))
    work.newest[(tenant, budget.budget_id)] = book.book.book_id
    if budget.limit is not None:
        work.journal.post(
            EntryKind.OPEN,
            authorize(book, budget.limit),
            tenant=tenant,
            currency=budget.currency,
            actor=command.caller.actor,
        )
    return Outcome(budget=budget, book=book.closed(), as_of=work.now)


def no_credit_without_limit() -> Outcome:
    return refuse(
        Reason.INVALID_FIELD, "Only a budget with a limit has a credit line: set it to 0.", field="credit_line"
    )


def shown(work: Work, budget: Budget) -> Outcome:
    """The budget as it is, or would be if the period that it is now were opened."""
    book = standing(budget, newest_book(work, budget).closed(), work.now, work.clocks(budget.schedule))
    return Outcome(budget=budget, book=book, as_of=work.now, replayed=True, applied=False)


def _existing(work: Work, budget: Budget, command: CreateBudget) -> Outcome:
    asked = {
        "parent_id": (budget.parent_id, command.parent_id),
        "currency": (budget.currency, command.currency),
        "display_name": (budget.display_name, command.display_name),
        "limit": (budget.limit, command.limit),
        "credit_line": (budget.credit_line, command.credit_line),
        "period": (budget.schedule, command.schedule),
        "rollover": (budget.rollover, command.rollover),
    }
    different = next((name for name, (before, now) in asked.items() if before != now), None)
    if different is not None:
        return refuse(
            Reason.RESOURCE_EXISTS,
            f"Budget {budget.budget_id!r} exists already, with another {different}.",
            budget_id=budget.budget_id,
            field=different,
        )
    return shown(work, budget)


def grant_budget(work: Work, command: GrantBudget) -> Outcome:
    tenant = command.caller.tenant
    budget = work.budgets.get((tenant, command.budget_id))
    if budget is None:
        return refuse(Reason.NOT_FOUND, f"There is no budget {command.budget_id!r}.", field="budget_id")
    if budget.currency != command.currency:
        return refuse(
            Reason.CURRENCY_MISMATCH,
            f"The budget is in {budget.currency}, the grant in {command.currency}.",
            field="amount.currency",
            budget_currency=budget.currency,
            currency=command.currency,
        )
    key = (tenant, command.budget_id, command.reference)
    before = work.grants.get(key)
    if before is not None:
        if before.amount != command.amount:
            return refuse(
                Reason.RESOURCE_EXISTS,
                f"Grant {command.reference!r} was made already, of {plain(before.amount)}.",
                field="amount",
                reference=command.reference,
            )
        return shown(work, budget)
    book = current_book(work, budget, command.caller.actor)
    if not book.can_hold(command.amount):
        return refuse(Reason.INVALID_FIELD, "The budget would be above what the ledger can hold.", field="amount")
    # From here it succeeds.
    entry_id = work.journal.post(
        EntryKind.GRANT,
        authorize(book, command.amount),
        tenant=tenant,
        currency=budget.currency,
        actor=command.caller.actor,
    )
    assert entry_id is not None, "a grant is above zero"
    grant = Grant(
        tenant, command.budget_id, command.reference, command.amount, entry_id, command.caller.actor, work.now
    )
    work.grants[key] = grant
    work.decision.grants.append(grant)
    return Outcome(budget=budget, book=book.closed(), as_of=work.now)


def put_price_card(work: Work, command: PutPriceCard) -> Outcome:
    key = (command.caller.tenant, command.card.card_id, 0)
    newest = work.cards.get(key)
    if newest is not None and newest.digest == command.card.digest:
        return Outcome(card=newest, applied=False)
    # From here it succeeds.
    card = replace(command.card, version=1 if newest is None else newest.version + 1)
    work.cards[key] = work.cards[(*key[:2], card.version)] = card
    work.decision.cards.append(card)
    return Outcome(card=card)
