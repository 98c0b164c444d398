"""The rules of budgets and price cards."""

from dataclasses import replace

from ledger.domain.batch import Outcome
from ledger.domain.commands import CreateBudget, GrantBudget
from ledger.domain.document_commands import PutEvidencePolicy, PutPriceCard
from ledger.domain.journal import authorize
from ledger.domain.limits import no_credit_line
from ledger.domain.model import Budget, EntryKind, Grant
from ledger.domain.money import plain
from ledger.domain.opening import current_book, first_book
from ledger.domain.refusals import Reason
from ledger.domain.trees import answer, is_closed, no_budget, path_below, standing, too_deep
from ledger.domain.work import Work, refuse


def create_budget(work: Work, command: CreateBudget) -> Outcome:
    tenant = command.caller.tenant
    existing = work.budgets.get(command.budget_key)
    if existing is not None:
        return _existing(work, existing, command)
    above = path_below(work, tenant, command.parent_id, command.currency)
    if isinstance(above, Outcome):
        return above
    refusal = too_deep(len(above) + 1)
    if refusal is not None:
        return refusal
    refusal = no_credit_line(command.limit, command.credit_line)
    if refusal is not None:
        return refusal
    # From here it succeeds.
    budget = work.put(
        Budget(
            tenant,
            command.budget_id,
            (*above, command.budget_id),
            command.currency,
            command.display_name,
            command.limit,
            work.now,
            max_hold=command.max_hold,
            max_open_holds=command.max_open_holds,
            credit_line=command.credit_line,
            schedule=command.schedule,
            rollover=command.rollover,
            thresholds=command.thresholds,
        )
    )
    book = work.journal.open(first_book(work, budget))
    work.newest[command.budget_key] = book.book.book_id
    if budget.limit is not None:
        work.journal.post(
            EntryKind.OPEN,
            authorize(book, budget.limit),
            tenant=tenant,
            currency=budget.currency,
            actor=command.caller.actor,
        )
    return answer(work, budget)


def _existing(work: Work, budget: Budget, command: CreateBudget) -> Outcome:
    asked = {
        "parent_id": (budget.parent_id, command.parent_id),
        "currency": (budget.currency, command.currency),
        "display_name": (budget.display_name, command.display_name),
        "limit": (budget.limit, command.limit),
        "max_hold": (budget.max_hold, command.max_hold),
        "max_open_holds": (budget.max_open_holds, command.max_open_holds),
        "credit_line": (budget.credit_line, command.credit_line),
        "period": (budget.schedule, command.schedule),
        "rollover": (budget.rollover, command.rollover),
        "thresholds": (budget.thresholds, command.thresholds),
    }
    different = next((name for name, (before, now) in asked.items() if before != now), None)
    if different is not None:
        return refuse(
            Reason.RESOURCE_EXISTS,
            f"Budget {budget.budget_id!r} exists already, with another {different}.",
            budget_id=budget.budget_id,
            field=different,
        )
    return standing(work, budget)


def grant_budget(work: Work, command: GrantBudget) -> Outcome:
    tenant = command.caller.tenant
    budget = work.budgets.get(command.budget_key)
    if budget is None:
        return no_budget(command.budget_id)
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
        return standing(work, budget)
    if budget.closed_at is not None:
        return is_closed(command.budget_id)
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
    return answer(work, budget)


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
