"""Requests about budgets and price cards, to commands."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from ledger.domain.budget_commands import CloseBudget, MoveBudget, UpdateBudget
from ledger.domain.commands import CreateBudget, GrantBudget, PutPriceCard
from ledger.domain.model import Caller
from ledger.service.translate.cards import read_card
from ledger.service.translate.fields import (
    MAX_INT32,
    InvalidField,
    amount,
    currency,
    identifier,
    money,
    number,
    optional_identifier,
    text,
    under,
)
from ledger.v1 import budget_pb2, price_pb2


def create_budget(request: budget_pb2.CreateBudgetRequest, caller: Caller) -> CreateBudget:
    return CreateBudget(
        caller,
        identifier(request.idempotency_key, "idempotency_key"),
        identifier(request.budget_id, "budget_id"),
        optional_identifier(request.parent_id, "parent_id"),
        currency(request.currency, "currency"),
        text(request.display_name, "display_name"),
        amount(request.limit, "limit") if request.HasField("limit") else None,
        **{field: _given(request, field) for field in CHANGEABLE},
    )


def update_budget(request: budget_pb2.UpdateBudgetRequest, caller: Caller) -> UpdateBudget:
    mask = tuple(sorted(set(request.update_mask.paths)))
    if not mask or not CHANGEABLE.keys() >= set(mask):
        raise InvalidField("update_mask", f"must name at least one of {', '.join(CHANGEABLE)}, and nothing else")
    for field in CHANGEABLE:
        if field not in mask and request.HasField(field):
            raise InvalidField(field, "is given, but update_mask does not name it")
    return UpdateBudget(
        caller,
        identifier(request.idempotency_key, "idempotency_key"),
        identifier(request.budget_id, "budget_id"),
        mask,
        **{field: _given(request, field) for field in mask},
    )


# What UpdateBudget can change, and how each is read.
CHANGEABLE: Final[Mapping[Any, Callable[[Any, str], Any]]] = {
    "max_hold": amount,
    "max_open_holds": lambda value, path: number(value, path, 0, MAX_INT32),
}


def _given(request: budget_pb2.CreateBudgetRequest | budget_pb2.UpdateBudgetRequest, field: Any) -> Any:
    """A changeable field in the domain's type; None if it is absent."""
    return CHANGEABLE[field](getattr(request, field), field) if request.HasField(field) else None


def close_budget(request: budget_pb2.CloseBudgetRequest, caller: Caller) -> CloseBudget:
    return CloseBudget(
        caller,
        identifier(request.idempotency_key, "idempotency_key"),
        identifier(request.budget_id, "budget_id"),
    )


def move_budget(request: budget_pb2.MoveBudgetRequest, caller: Caller) -> MoveBudget:
    return MoveBudget(
        caller,
        identifier(request.idempotency_key, "idempotency_key"),
        identifier(request.budget_id, "budget_id"),
        optional_identifier(request.parent_id, "parent_id"),
    )


def grant_budget(request: budget_pb2.GrantBudgetRequest, caller: Caller) -> GrantBudget:
    granted, unit = money(request.amount, "amount")
    if not granted:
        raise InvalidField("amount.amount", "must be above 0")
    return GrantBudget(
        caller,
        identifier(request.idempotency_key, "idempotency_key"),
        identifier(request.budget_id, "budget_id"),
        granted,
        unit,
        identifier(request.reference, "reference"),
    )


def put_price_card(request: price_pb2.PutPriceCardRequest, caller: Caller) -> PutPriceCard:
    key = identifier(request.idempotency_key, "idempotency_key")
    with under("card"):
        return PutPriceCard(caller, key, read_card(request.card, caller.tenant))
