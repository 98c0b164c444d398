"""Requests about budgets and price cards, to commands."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from ledger.domain.budget_commands import CloseBudget, MoveBudget, UpdateBudget
from ledger.domain.commands import CreateBudget, GrantBudget
from ledger.domain.document_commands import PutPriceCard
from ledger.domain.model import Caller
from ledger.domain.money import ZERO
from ledger.domain.periods import NO_PERIODS, NO_ROLLOVER
from ledger.domain.thresholds import NO_THRESHOLDS
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
from ledger.service.translate.periods import rollover, schedule
from ledger.service.translate.thresholds import thresholds
from ledger.v1 import budget_pb2, price_pb2


def create_budget(request: budget_pb2.CreateBudgetRequest, caller: Caller) -> CreateBudget:
    return CreateBudget(
        caller,
        identifier(request.idempotency_key, "idempotency_key"),
        identifier(request.budget_id, "budget_id"),
        optional_identifier(request.parent_id, "parent_id"),
        currency(request.currency, "currency"),
        text(request.display_name, "display_name"),
        **_settings(request, (field for field in CHANGEABLE if field != "display_name" and _is_set(request, field))),
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
        tuple(CHANGEABLE[field].name for field in mask),
        **_settings(request, mask),
    )


class _Setting(NamedTuple):
    """How the domain names a field, how it is read, and what it is if it is absent."""

    name: str
    read: Callable[[Any, str], Any]
    absent: Any = None


# What UpdateBudget can change.
CHANGEABLE: Final[Mapping[Any, _Setting]] = {
    "limit": _Setting("limit", amount),
    "credit_line": _Setting("credit_line", amount, ZERO),
    "display_name": _Setting("display_name", text, ""),
    "period": _Setting("schedule", schedule, NO_PERIODS),
    "rollover": _Setting("rollover", rollover, NO_ROLLOVER),
    "thresholds": _Setting("thresholds", thresholds, NO_THRESHOLDS),
    "max_hold": _Setting("max_hold", amount),
    "max_open_holds": _Setting("max_open_holds", lambda value, path: number(value, path, 0, MAX_INT32)),
}


def _is_set(request: budget_pb2.CreateBudgetRequest, field: Any) -> bool:
    """Not so for thresholds that are absent: a budget that is made has the usual ones then."""
    return field != "thresholds" or request.HasField(field)


def _settings(
    request: budget_pb2.CreateBudgetRequest | budget_pb2.UpdateBudgetRequest, names: Iterable[Any]
) -> dict[str, Any]:
    """Changeable fields in the domain's names and types."""
    chosen = {field: CHANGEABLE[field] for field in names}
    return {
        name: read(getattr(request, field), field) if request.HasField(field) else absent
        for field, (name, read, absent) in chosen.items()
    }


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
