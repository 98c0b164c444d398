"""Price cards out of the catalogue of genai-prices.

A card says less than the catalogue can: what it cannot say is returned beside it, sentence by sentence.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import TypeAlias

from genai_prices.types import (
    ClauseEquals,
    ClauseOr,
    ConditionalPrice,
    MatchLogic,
    ModelInfo,
    ModelPrice,
    PriceVariant,
    StartDateConstraint,
    TieredPrices,
    TimeOfDateConstraint,
)

from ledger.domain.cards import STANDARD_TIER, PriceCard, Rate
from ledger.usage.catalogue import exact_price

Prices: TypeAlias = Mapping[str, Decimal | TieredPrices]

CURRENCY = "USD"
# Which of our buckets a price of the catalogue is for, and of how many units it is the price.
_BUCKETS: Mapping[str, tuple[str, int]] = {
    "input_mtok": ("input_tokens", 1_000_000),
    "cache_read_mtok": ("cache_read_tokens", 1_000_000),
    "cache_write_mtok": ("cache_write_tokens", 1_000_000),
    "cache_write_5m_mtok": ("cache_write_tokens", 1_000_000),
    "cache_write_1h_mtok": ("cache_write_1h_tokens", 1_000_000),
    "output_mtok": ("output_tokens", 1_000_000),
    "requests_kcount": ("requests", 1_000),
    "web_searches_kcount": ("web_searches", 1_000),
}
# A kind of input without a price of its own costs what it is a kind of, in this order: so the catalogue prices it.
_KIND_OF = (
    ("cache_read_tokens", "input_tokens"),
    ("cache_write_tokens", "input_tokens"),
    ("cache_write_1h_tokens", "cache_write_tokens"),
)
_TIERS = {("processing", "batch"): "batch", ("speed", "fast"): f"{STANDARD_TIER}-fast"}


def price_card(
    model: ModelInfo, provider: str, at: datetime, *, tenant: str, card_id: str, served: Iterable[str] = ()
) -> tuple[PriceCard | None, tuple[str, ...]]:
    """The card of a model as its provider prices it at a time (timezone-aware), and what the card cannot say.

    `served` are names under which the provider is known to serve the model; a name that the catalogue does not match to it
    is left out and said. None if nothing of the model's price fits a card. The version is 0: the ledger gives one.
    """
    unsaid: list[str] = []
    aliases = {clause.equals for clause in _clauses(model.match) if isinstance(clause, ClauseEquals)}
    if any(not isinstance(clause, ClauseEquals) for clause in _clauses(model.match)):
        unsaid.append("the catalogue matches more names than can be listed: only those given as served are on the card")
    for name in served:
        if model.is_match(name):
            aliases.add(name)
        else:
            unsaid.append(f"{name} is not a name of {model.id} in the catalogue")
    rates = [
        rate
        for tier, prices in _tiers(model, at, unsaid).items()
        for rate in _rates(prices, tier, f"{tier} tier", unsaid)
    ]
    if not rates:
        return None, (*unsaid, f"{model.id} has no price that fits a card")
    valid_from, valid_until = _validity(model, at)
    card = PriceCard(
        tenant=tenant,
        card_id=card_id,
        version=0,
        provider=provider,
        model=model.id,
        aliases=tuple(sorted(aliases - {model.id})),
        currency=CURRENCY,
        rates=tuple(sorted(rates)),
        max_input_tokens=model.context_window,
        valid_from=valid_from,
        valid_until=valid_until,
    )
    return card, tuple(dict.fromkeys(unsaid))


def _clauses(match: MatchLogic) -> tuple[MatchLogic, ...]:
    return tuple(match.or_) if isinstance(match, ClauseOr) else (match,)


def _tiers(model: ModelInfo, at: datetime, unsaid: list[str]) -> dict[str, Prices]:
    """The complete prices of each service tier: the standard ones, with what a tier overrides."""
    if isinstance(model.prices, list) and any(isinstance(p.constraint, TimeOfDateConstraint) for p in model.prices):
        unsaid.append("its prices change with the time of day: it has no card")
        return {}
    if not model.prices:
        return {}
    overrides: dict[str, dict[str, Decimal | TieredPrices]] = {STANDARD_TIER: {}}
    for variant in model.price_variants or ():
        condition = tuple(variant.when.items())
        tier = _tier(condition)
        if tier is None or isinstance(variant.constraint, TimeOfDateConstraint):
            unsaid.append(f"prices under {dict(condition)} have no tier")
        elif variant.constraint is None or variant.constraint.active(at):
            # The first variant that gives a price wins.
            overrides[tier] = _given(variant.prices) | overrides.get(tier, {})
    standard = _given(model.get_prices(at)) | overrides[STANDARD_TIER]
    return {tier: standard | prices for tier, prices in overrides.items()}


def _tier(condition: tuple[tuple[str, str], ...]) -> str | None:
    if len(condition) != 1:
        return None
    (name, value) = condition[0]
    if name == "service_tier":
        return STANDARD_TIER if value == "default" else value
    return _TIERS.get((name, value))


def _given(prices: ModelPrice) -> dict[str, Decimal | TieredPrices]:
    return {key: value for key, value in vars(prices).items() if value is not None}


def _rates(prices: Prices, tier: str, where: str, unsaid: list[str]) -> list[Rate]:
    by_bucket: dict[str, list[Rate]] = {}
    unsaid.extend(f"{where}: {key} has no bucket" for key in sorted(prices.keys() - _BUCKETS.keys()))
    # In the order of _BUCKETS, so that the price for five minutes replaces the one for any cache write.
    for key, (bucket, per) in _BUCKETS.items():
        price = prices.get(key)
        if price is None:
            continue
        steps = (
            [(0, price)]
            if isinstance(price, Decimal)
            else [(0, price.base), *((t.start, t.price) for t in price.tiers)]
        )
        if len({above for above, _ in steps}) < len(steps):
            unsaid.append(f"{where}: {key} has two prices from one threshold on")
            continue
        by_bucket[bucket] = [
            Rate(bucket, tier, above, exact_price(amount, f"{where}/{key}"), per) for above, amount in steps
        ]
    for kind, general in _KIND_OF:
        if kind not in by_bucket and general in by_bucket:
            by_bucket[kind] = [rate._replace(bucket=kind) for rate in by_bucket[general]]
    return [rate for rates in by_bucket.values() for rate in rates]


def _validity(model: ModelInfo, at: datetime) -> tuple[datetime | None, datetime | None]:
    """From the last to the next date at which any price of the model changes."""
    dated: list[ConditionalPrice | PriceVariant] = [*(model.prices if isinstance(model.prices, list) else ())]
    dated += model.price_variants or ()
    changes = sorted(
        datetime.combine(entry.constraint.start_date, time(), UTC)
        for entry in dated
        if isinstance(entry.constraint, StartDateConstraint)
    )
    return (
        max((change for change in changes if change <= at), default=None),
        min((change for change in changes if change > at), default=None),
    )
