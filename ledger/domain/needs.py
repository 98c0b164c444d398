"""Which rows a command must be decided on. The store locks what these functions name, in one global order."""

from collections.abc import Iterable, Mapping

from ledger.domain.commands import (
    BeginDispatch,
    Command,
    CreateBudget,
    GrantBudget,
    MarkOutcomeUnknown,
    PutPriceCard,
    Reserve,
    Resolve,
    UpdateBudget,
)
from ledger.domain.model import Book, Budget, Hold
from ledger.domain.quotes import QuoteKind

# The financial book has this many rows per provider, model and currency, so that settlements at one provider do not queue
# behind each other for a row that has no floor to guard. A batch takes one stripe; a balance is the sum over all of them.
STRIPES = 8


def financial_book(hold: Hold, stripe: int) -> Book:
    """The stripe of the financial book that a settlement of the hold is posted to, as it is before its first posting."""
    provider, model = hold.quote.provider, hold.quote.model
    return Book(
        tenant=hold.tenant,
        # No identifier has a # in it: names with a / in them cannot meet.
        book_id=f"#financial/{provider}#{model}#{hold.currency}#{stripe}",
        budget_id=None,
        currency=hold.currency,
        floor=None,
        provider=provider,
        model=model,
    )


def budgets_named(command: Command) -> tuple[str, ...]:
    """The budgets whose chains the command needs."""
    if isinstance(command, Reserve):
        return command.budget_ids
    if isinstance(command, (GrantBudget, UpdateBudget)):
        return (command.budget_id,)
    if isinstance(command, CreateBudget):
        return (command.budget_id,) if command.parent_id is None else (command.budget_id, command.parent_id)
    return ()


def card_named(command: Command) -> tuple[str, str, int] | None:
    """The price card that the command needs: (tenant, card_id, version), version 0 for the newest."""
    if isinstance(command, Reserve) and command.quote.kind is QuoteKind.METERED:
        return (command.caller.tenant, command.quote.card_id, command.quote.card_version)
    if isinstance(command, PutPriceCard):
        return (command.caller.tenant, command.card.card_id, 0)
    return None


def card_of(command: Command, hold: Hold | None) -> tuple[str, str, int] | None:
    """The price card that the hold's quote is pinned to, if the command prices usage by it."""
    if isinstance(command, Resolve) and hold is not None and hold.quote.kind is QuoteKind.METERED:
        return (hold.tenant, hold.quote.card_id, hold.quote.card_version)
    return None


def path_of(tenant: str, budget_ids: Iterable[str], budgets: Mapping[tuple[str, str], Budget]) -> tuple[str, ...]:
    """The union of the ancestor chains of the named budgets: each budget once, sorted; unknown names are left out."""
    levels = {level for b in budget_ids if (budget := budgets.get((tenant, b))) is not None for level in budget.path}
    return tuple(sorted(levels))


def zones_named(command: Command) -> tuple[str, ...]:
    """The time zones that the command itself names."""
    if isinstance(command, CreateBudget):
        return (command.schedule.zone,)
    return (command.schedule.zone,) if isinstance(command, UpdateBudget) and command.schedule is not None else ()


def budget_of(book_id: str) -> str:
    """The budget of a budget's book."""
    return book_id.rpartition("#")[0]


def may_carry_on(command: Command) -> bool:
    """Whether the command may change what is left in the period of its hold, which may be over."""
    return not isinstance(
        command, (Reserve, BeginDispatch, MarkOutcomeUnknown, CreateBudget, GrantBudget, UpdateBudget, PutPriceCard)
    )


def books_to_lock(
    command: Command,
    hold: Hold | None,
    budgets: Mapping[tuple[str, str], Budget],
    newest: Mapping[tuple[str, str], str],
) -> set[tuple[str, str]]:
    """The budget books, keyed (tenant, book_id), that the command may post to. `hold` is the one it names, if it exists.

    `newest` names the newest book of each of the budgets, and of those whose closed periods the hold was reserved in.
    """
    tenant = command.caller.tenant
    if isinstance(command, Reserve):
        levels = path_of(tenant, command.budget_ids, budgets) if hold is None else ()
        return {(tenant, newest[(tenant, level)]) for level in levels}
    if isinstance(command, (CreateBudget, GrantBudget, UpdateBudget)):
        book_id = newest.get((tenant, command.budget_id))
        return set() if book_id is None else {(tenant, book_id)}
    if hold is None or isinstance(command, BeginDispatch):
        return set()
    books = set(hold.books)
    if may_carry_on(command):
        books.update(later for book in hold.books if (later := newest.get((tenant, budget_of(book)))) is not None)
    return {(tenant, book) for book in books}
