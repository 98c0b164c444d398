"""Requests about budgets and price cards, to commands."""

from ledger.domain.commands import CreateBudget, GrantBudget, PutPriceCard
from ledger.domain.model import Caller
from ledger.service.translate.cards import read_card
from ledger.service.translate.fields import (
    InvalidField,
    amount,
    currency,
    identifier,
    money,
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
