"""The rules of budgets and price cards."""

from dataclasses import replace

from ledger.domain.batch import Outcome
from ledger.domain.commands import CreateBudget, GrantBudget, PutEvidencePolicy, PutPriceCard
from ledger.domain.journal import AUTHORITY, AVAILABLE, give
from ledger.domain.model import Book, Budget, EntryKind, Grant
from ledger.domain.money import ZERO, plain
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
    # From here it succeeds.
    limit = command.limit
    budget = Budget(
        tenant, command.budget_id, (*path, command.budget_id), command.currency, command.display_name, limit, work.now
    )
    work.budgets[(tenant, budget.budget_id)] = budget
    work.decision.budgets.append(budget)
    floor = None if limit is None else ZERO
    book = work.journal.open(Book(tenant, budget.book_id, budget.budget_id, budget.currency, floor))
    if limit is not None:
        work.journal.post(
            EntryKind.OPEN,
            [(book, AUTHORITY, limit), (book, AVAILABLE, -limit)],
            tenant=tenant,
            currency=budget.currency,
            actor=command.caller.actor,
        )
    return Outcome(budget=budget, book=book.closed(), as_of=work.now)


def _existing(work: Work, budget: Budget, command: CreateBudget) -> Outcome:
    asked = {
        "parent_id": (budget.parent_id, command.parent_id),
        "currency": (budget.currency, command.currency),
        "display_name": (budget.display_name, command.display_name),
        "limit": (budget.limit, command.limit),
    }
    different = next((name for name, (before, now) in asked.items() if before != now), None)
    if different is not None:
        return refuse(
            Reason.RESOURCE_EXISTS,
            f"Budget {budget.budget_id!r} exists already, with another {different}.",
            budget_id=budget.budget_id,
            field=different,
        )
    return Outcome(
        budget=budget,
        book=work.journal.book(budget.tenant, budget.book_id).closed(),
        as_of=work.now,
        replayed=True,
        applied=False,
    )


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
    book = work.journal.book(tenant, budget.book_id)
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
        return Outcome(budget=budget, book=book.closed(), as_of=work.now, replayed=True, applied=False)
    if book.book.closed:
        return refuse(Reason.BUDGET_CLOSED, f"Budget {command.budget_id!r} is closed.", budget_id=command.budget_id)
    if not book.can_hold(command.amount):
        return refuse(Reason.INVALID_FIELD, "The budget would be above what the ledger can hold.", field="amount")
    # From here it succeeds.
    entry_id = work.journal.post(
        EntryKind.GRANT,
        [(book, AUTHORITY, command.amount), *give(book, command.amount)],
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


def put_evidence_policy(work: Work, command: PutEvidencePolicy) -> Outcome:
    key = (command.caller.tenant, command.policy.provider)
    newest = work.policies.get(key)
    if newest is not None and newest.digest == command.policy.digest:
        return Outcome(policy=newest, applied=False)
    # From here it succeeds.
    policy = replace(command.policy, version=1 if newest is None else newest.version + 1)
    work.policies[key] = policy
    work.decision.policies.append(policy)
    return Outcome(policy=policy)
