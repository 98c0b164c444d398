"""Questions: their page and filters, checked, for the store's reads."""

from typing import NamedTuple

from ledger.domain.model import Account, Caller
from ledger.domain.states import HoldState
from ledger.service.translate.books import ACCOUNT_OF
from ledger.service.translate.fields import (
    STATES,
    InvalidField,
    currency,
    empty_or_identifier,
    identifier,
    named,
    optional_identifier,
    text,
)
from ledger.service.translate.pages import (
    Place,
    amount_key,
    book_key,
    id_key,
    log_key,
    name_key,
    place,
    revision_key,
    time_key,
    version_key,
)
from ledger.v1 import budget_pb2, evidence_pb2, hold_pb2, journal_pb2, price_pb2

_OF_A_BUDGET = frozenset(Account) - {Account.EXPENSE, Account.PAYABLE}
# A book of a budget adds its period to the budget's id; one of the financial book names provider, model, currency and stripe.
_LONGEST_BOOK_ID = 512


def holds(request: hold_pb2.ListHoldsRequest, caller: Caller) -> tuple[Place, HoldState | None, str | None]:
    state = named(request.state, "state", STATES) if request.state else None
    group = optional_identifier(request.request_group, "request_group")
    filters = {"state": state or "", "request_group": group or ""}
    return place("ListHolds", caller, request.page_size, request.page_token, (name_key,), **filters), state, group


def open_holds(request: hold_pb2.ListOpenHoldsRequest, caller: Caller) -> tuple[Place, str]:
    book = _book(request.book_id)
    keys = (amount_key, name_key)
    return place("ListOpenHolds", caller, request.page_size, request.page_token, keys, book_id=book), book


def hold_events(request: hold_pb2.ListHoldEventsRequest, caller: Caller) -> tuple[Place, str]:
    operation = identifier(request.operation_id, "operation_id")
    keys = (time_key, version_key, log_key)
    return place(
        "ListHoldEvents", caller, request.page_size, request.page_token, keys, operation_id=operation
    ), operation


def incidents(request: hold_pb2.ListIncidentsRequest, caller: Caller) -> tuple[Place, str | None]:
    operation = optional_identifier(request.operation_id, "operation_id")
    size, token = request.page_size, request.page_token
    return place("ListIncidents", caller, size, token, (time_key, id_key), operation_id=operation or ""), operation


def parked(request: evidence_pb2.ListParkedEvidenceRequest, caller: Caller) -> tuple[Place, str | None]:
    operation = optional_identifier(request.operation_id, "operation_id")
    size, token, keys = request.page_size, request.page_token, (name_key, id_key)
    return place("ListParkedEvidence", caller, size, token, keys, operation_id=operation or ""), operation


def resolutions(request: hold_pb2.ListResolutionsRequest, caller: Caller) -> tuple[Place, str]:
    operation = identifier(request.operation_id, "operation_id")
    size, token = request.page_size, request.page_token
    return place("ListResolutions", caller, size, token, (revision_key,), operation_id=operation), operation


def budgets(request: budget_pb2.ListBudgetsRequest, caller: Caller) -> tuple[Place, str | None]:
    parent = optional_identifier(request.parent_id, "parent_id")
    size, token = request.page_size, request.page_token
    return place("ListBudgets", caller, size, token, (name_key,), parent_id=parent or ""), parent


def periods(request: budget_pb2.ListPeriodsRequest, caller: Caller) -> tuple[Place, str]:
    budget = identifier(request.budget_id, "budget_id")
    size, token = request.page_size, request.page_token
    return place("ListPeriods", caller, size, token, (book_key,), budget_id=budget), budget


def cards(request: price_pb2.ListPriceCardsRequest, caller: Caller) -> tuple[Place, str | None]:
    provider = optional_identifier(request.provider, "provider")
    size, token = request.page_size, request.page_token
    return place("ListPriceCards", caller, size, token, (name_key,), provider=provider or ""), provider


def entries(request: journal_pb2.ListEntriesRequest, caller: Caller) -> tuple[Place, str | None]:
    operation = optional_identifier(request.operation_id, "operation_id")
    size, token = request.page_size, request.page_token
    return place("ListEntries", caller, size, token, (id_key,), operation_id=operation or ""), operation


def evidence(request: evidence_pb2.ListEvidenceRequest, caller: Caller) -> tuple[Place, str]:
    operation = identifier(request.operation_id, "operation_id")
    size, token = request.page_size, request.page_token
    return place("ListEvidence", caller, size, token, (id_key,), operation_id=operation), operation


def postings(request: journal_pb2.ListPostingsRequest, caller: Caller) -> tuple[Place, str]:
    book = _book(request.book_id)
    return place("ListPostings", caller, request.page_size, request.page_token, (version_key,), book_id=book), book


def _book(value: str) -> str:
    return text(value, "book_id", least=1, most=_LONGEST_BOOK_ID)


class BalanceAsked(NamedTuple):
    account: Account
    budget_id: str | None
    provider: str | None
    model: str | None
    currency: str | None


def balance(request: journal_pb2.GetBalanceRequest) -> BalanceAsked:
    """Of a budget's account, or of the financial book's; what does not belong to the account must be left out."""
    account = named(request.account, "account", ACCOUNT_OF)
    provider = empty_or_identifier(request.provider, "provider")
    model = empty_or_identifier(request.model, "model")
    if account in _OF_A_BUDGET:
        for field, value in (("provider", provider), ("model", model), ("currency", request.currency)):
            if value:
                raise InvalidField(field, f"is not for {account}: leave it out")
        return BalanceAsked(account, identifier(request.budget_id, "budget_id"), None, None, None)
    if request.budget_id:
        raise InvalidField("budget_id", f"is not for {account}: leave it out")
    return BalanceAsked(account, None, provider or None, model or None, currency(request.currency, "currency"))
