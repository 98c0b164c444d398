"""Requests about budgets and price cards, to commands."""

from ledger.domain.cards import GROUP_OF_BUCKET, MAX_QUANTITY, STANDARD_TIER, PriceCard, Rate
from ledger.domain.commands import CreateBudget, GrantBudget, PutPriceCard
from ledger.domain.model import Caller
from ledger.service.translate.fields import (
    InvalidField,
    amount,
    currency,
    empty_or_identifier,
    identifier,
    instant,
    money,
    optional_identifier,
    price,
    quantity,
    text,
    under,
)
from ledger.v1 import budget_pb2, price_pb2

MAX_RATES = 256
MAX_ALIASES = 64
PER_MILLION = 1_000_000


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
        return PutPriceCard(caller, key, _card(request.card, caller.tenant))


def _card(message: price_pb2.PriceCard, tenant: str) -> PriceCard:
    if message.version or message.digest:
        raise InvalidField("version" if message.version else "digest", "is given by the server: leave it out")
    aliases = tuple(message.aliases)
    if len(aliases) > MAX_ALIASES or len(set(aliases)) != len(aliases):
        raise InvalidField("aliases", f"must be at most {MAX_ALIASES}, each once")
    if not 1 <= len(message.rates) <= MAX_RATES:
        raise InvalidField("rates", f"must be 1 to {MAX_RATES}")
    rates = tuple(_rate(rate, f"rates[{i}]") for i, rate in enumerate(message.rates))
    if len({(r.bucket, r.service_tier, r.above) for r in rates}) != len(rates):
        raise InvalidField("rates", "must not price one bucket, tier and threshold twice")
    valid_from = instant(message.valid_from, "valid_from") if message.HasField("valid_from") else None
    valid_until = instant(message.valid_until, "valid_until") if message.HasField("valid_until") else None
    if valid_from is not None and valid_until is not None and valid_until <= valid_from:
        raise InvalidField("valid_until", "must be after valid_from")
    return PriceCard(
        tenant,
        identifier(message.card_id, "card_id"),
        0,
        identifier(message.provider, "provider"),
        identifier(message.model, "model"),
        tuple(identifier(alias, "aliases") for alias in aliases),
        currency(message.currency, "currency"),
        rates,
        quantity(message.max_input_tokens, "max_input_tokens") or None,
        quantity(message.max_output_tokens, "max_output_tokens") or None,
        valid_from,
        valid_until,
    )


def _rate(message: price_pb2.Rate, path: str) -> Rate:
    if message.bucket not in GROUP_OF_BUCKET:
        raise InvalidField(f"{path}.bucket", f"must be one of {', '.join(GROUP_OF_BUCKET)}")
    if not 0 <= message.per <= MAX_QUANTITY:
        raise InvalidField(f"{path}.per", f"must be 0 (which is {PER_MILLION}) to {MAX_QUANTITY}")
    return Rate(
        message.bucket,
        empty_or_identifier(message.service_tier, f"{path}.service_tier") or STANDARD_TIER,
        quantity(message.above_input_tokens, f"{path}.above_input_tokens"),
        price(message.price, f"{path}.price"),
        message.per or PER_MILLION,
    )
