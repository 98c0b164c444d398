"""Which rows a command must be decided on. The store locks what these functions name, in one global order."""

from collections.abc import Iterable, Mapping

from ledger.domain.attempt_commands import Cancel, Heartbeat, RecordDelivery, RecordFailedBeforeDispatch, RecordReceipt
from ledger.domain.budget_commands import MoveBudget, UpdateBudget
from ledger.domain.commands import (
    BeginDispatch,
    Command,
    Correct,
    CreateBudget,
    Lapse,
    MarkOutcomeUnknown,
    Reserve,
    Resolve,
    Usage,
    VerifyWrite,
)
from ledger.domain.document_commands import PutEvidencePolicy, PutPriceCard
from ledger.domain.evidence import fact_of
from ledger.domain.keyed import OnBudget
from ledger.domain.model import Book, Budget, Hold
from ledger.domain.quotes import QuoteKind
from ledger.domain.states import TERMINAL

# The financial book has this many rows per provider, model and currency, so that settlements at one provider do not queue
# behind each other for a row that has no floor to guard. A batch takes one stripe; a balance is the sum over all of them.
STRIPES = 8

_POSTING_NOTHING = (
    BeginDispatch,
    Heartbeat,
    RecordFailedBeforeDispatch,
    RecordReceipt,
    RecordDelivery,
    VerifyWrite,
)


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
    if isinstance(command, (CreateBudget, MoveBudget)):
        return (command.budget_id,) if command.parent_id is None else (command.budget_id, command.parent_id)
    return (command.budget_id,) if isinstance(command, OnBudget) else ()


def tree_changed(command: Command) -> str | None:
    """The tenant whose tree gets a new path by the command: such commands of one tenant are decided one after the other."""
    return command.caller.tenant if isinstance(command, (CreateBudget, MoveBudget)) else None


def subtree_moved(command: Command) -> tuple[str, str] | None:
    """The budget, keyed (tenant, budget_id), whose descendants the command moves with it."""
    return command.budget_key if isinstance(command, MoveBudget) else None


def budget_of(book_id: str) -> str:
    """The budget that a book is of, by its name: no budget_id has a # in it."""
    return book_id.rpartition("#")[0]


def card_named(command: Command) -> tuple[str, str, int] | None:
    """The price card that the command needs: (tenant, card_id, version), version 0 for the newest."""
    if isinstance(command, Reserve) and command.quote.kind is QuoteKind.METERED:
        return (command.caller.tenant, command.quote.card_id, command.quote.card_version)
    if isinstance(command, PutPriceCard):
        return (command.caller.tenant, command.card.card_id, 0)
    return None


def card_of(command: Command, hold: Hold | None) -> tuple[str, str, int] | None:
    """The price card that the hold's quote is pinned to, if the command prices usage by it."""
    if isinstance(command, (Resolve, Correct)) and hold is not None and hold.quote.kind is QuoteKind.METERED:
        return (hold.tenant, hold.quote.card_id, hold.quote.card_version)
    return None


def may_post_expense(command: Command, hold: Hold) -> bool:
    """Whether a stripe of the financial book is needed: usage settles an open hold, a correction moves one that has ended."""
    if isinstance(command, Correct):
        return hold.state in TERMINAL
    return isinstance(command, Resolve) and isinstance(command.evidence, Usage) and hold.state not in TERMINAL


def needs_resolutions(command: Command, hold: Hold) -> bool:
    """Whether all revisions are needed: to link a correction, and to know a fact that was in force once."""
    return isinstance(command, Correct) or (isinstance(command, Resolve) and hold.revision > 1)


def fact_brought(command: Command, hold: Hold | None) -> tuple[str, str, bytes] | None:
    """The fact, keyed (tenant, operation_id, fact), that the command may bring to the hold for the second time."""
    if (
        not isinstance(command, (Resolve, Correct))
        or hold is None
        or not (hold.execution_seen or hold.state in TERMINAL)
    ):
        return None
    return (*command.hold_key, fact_of(command.evidence.body()))


def receipt_brought(command: Command, hold: Hold | None) -> tuple[str, str, str] | None:
    """(tenant, provider, receipt): what at most one operation may have, if the command brings one that the hold has not."""
    if isinstance(command, RecordReceipt):
        return command.receipt_bound
    if not isinstance(command, (Resolve, Correct)) or hold is None or not isinstance(command.evidence, Usage):
        return None
    receipt = command.evidence.provider_receipt
    if receipt is None or receipt == hold.provider_receipt:
        return None
    return (hold.tenant, hold.quote.provider, receipt)


def needs_ended(command: Command, hold: Hold | None) -> bool:
    """Whether the nonces of all attempts are needed, and not that of the latest alone, which stands on the hold."""
    return isinstance(command, BeginDispatch) and hold is not None and hold.failure is not None and hold.attempt > 1


def policy_needed(command: Command, hold: Hold | None) -> tuple[str, str] | None:
    """The policy, keyed (tenant, provider), of which the command needs the newest version."""
    if isinstance(command, PutEvidencePolicy):
        return (command.caller.tenant, command.policy.provider)
    # The record of a failure is evidence, too, when the hold comes to be settled on it.
    settles = isinstance(command, (Lapse, Cancel)) and hold is not None and hold.failure is not None
    if hold is not None and (settles or isinstance(command, (Resolve, Correct))):
        return (hold.tenant, hold.quote.provider)
    return None


def path_of(tenant: str, budget_ids: Iterable[str], budgets: Mapping[tuple[str, str], Budget]) -> tuple[str, ...]:
    """The union of the ancestor chains of the named budgets: each budget once, sorted; unknown names are left out."""
    levels = {level for b in budget_ids if (budget := budgets.get((tenant, b))) is not None for level in budget.path}
    return tuple(sorted(levels))


def zones_named(command: Command) -> tuple[str, ...]:
    """The time zones that the command itself names."""
    if not isinstance(command, (CreateBudget, UpdateBudget)) or not command.schedule.zone:
        return ()
    return (command.schedule.zone,)


def may_carry_on(command: Command) -> bool:
    """Whether the command may change what is left in the periods of its hold, which may be over."""
    return not isinstance(
        command, (*_POSTING_NOTHING, Reserve, MarkOutcomeUnknown, OnBudget, PutPriceCard, PutEvidencePolicy)
    )


def books_to_lock(
    command: Command,
    hold: Hold | None,
    budgets: Mapping[tuple[str, str], Budget],
    newest: Mapping[tuple[str, str], str],
) -> Iterable[tuple[str, str]]:
    """The budget books, keyed (tenant, book_id), that the command may post to. `hold` is the one it names, if it exists.

    `newest` names the newest book of each of the budgets, and of those whose closed periods the hold was reserved in.
    """
    tenant = command.caller.tenant
    if isinstance(command, Reserve):
        levels = path_of(tenant, command.budget_ids, budgets) if hold is None else ()
        return [(tenant, newest[(tenant, level)]) for level in levels]
    if isinstance(command, OnBudget):
        book_id = newest.get(command.budget_key)
        return () if book_id is None else ((tenant, book_id),)
    if hold is None or isinstance(command, _POSTING_NOTHING):
        return ()
    books = [(tenant, book_id) for book_id in hold.books]
    if may_carry_on(command):
        later = (newest.get((tenant, budget_of(book_id))) for book_id in hold.books)
        books += [(tenant, book_id) for book_id in later if book_id is not None]
    return books
