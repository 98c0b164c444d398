"""Price cards out of the catalogue of genai-prices.

A card says less than the catalogue can: what it cannot say is returned beside it, sentence by sentence.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import NamedTuple, TypeAlias

from genai_prices.data_units import unit_data
from genai_prices.types import (
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    PriceVariant,
    StartDateConstraint,
    TieredPrices,
    TimeOfDateConstraint,
)

from ledger.domain.cards import GROUP_OF_BUCKET, STANDARD_TIER, PriceCard, Rate, covers
from ledger.usage.catalogue import exact_price
from ledger.usage.names import aliases

Prices: TypeAlias = Mapping[str, Decimal | TieredPrices]

CURRENCY = "USD"
# Which of our buckets a price of the catalogue is for, and of how many units it is the price. Without a bucket of its own
# a cache write of five minutes is the one that is not for an hour.
_BUCKETS: Mapping[str, tuple[str, int]] = {
    unit.get("price_key", key): (bucket, unit["per"])
    for key, unit in unit_data.items()
    for bucket in ["cache_write_tokens" if key == "cache_write_5m_tokens" else key]
    if bucket in GROUP_OF_BUCKET
}
# A kind of input without a price of its own costs what it is a kind of, in this order: so the catalogues price it.
KIND_OF = (
    ("cache_read_tokens", "input_tokens"),
    ("cache_write_tokens", "input_tokens"),
    ("cache_write_1h_tokens", "cache_write_tokens"),
    *((f"input_{kind}_tokens", "input_tokens") for kind in ("audio", "image", "video")),
    *((f"cache_{kind}_read_tokens", "cache_read_tokens") for kind in ("audio", "image", "video")),
    ("cache_audio_write_tokens", "cache_write_tokens"),
)
_TIERS = {("processing", "batch"): "batch", ("speed", "fast"): f"{STANDARD_TIER}-fast"}


class Made(NamedTuple):
    """A card, if the model's prices fit one; the buckets that the catalogue prices apart; and what the card cannot say."""

    card: PriceCard | None
    apart: frozenset[str]
    unsaid: tuple[str, ...]


def price_card(
    model: ModelInfo,
    provider: str,
    at: datetime,
    *,
    tenant: str,
    card_id: str,
    served: Iterable[str] = (),
    others: Iterable[ModelInfo] = (),
) -> Made:
    """The card of a model as its provider prices it at a time (timezone-aware).

    `served` are names under which the provider is known to serve the model; a name that the catalogue does not match to it
    is left out and said. `others` are the models before it in the catalogue: a name that is theirs is not its own. The
    version is 0: the ledger gives one.
    """
    unsaid: list[str] = []
    names = set(aliases(model, others, unsaid))
    for name in served:
        if model.is_match(name):
            names.add(name)
        else:
            unsaid.append(f"{name} is not a name of {model.id} in the catalogue")
    rates: list[Rate] = []
    for window, tiers in _windows(model, at, unsaid).items():
        for tier, prices in tiers.items():
            rates += _rates(prices, tier, window, f"{tier} tier", unsaid)
    apart = frozenset(rate.bucket for rate in rates)
    said = tuple(dict.fromkeys(unsaid))
    if not rates:
        return Made(None, apart, (*said, f"{model.id} has no price that fits a card"))
    valid_from, valid_until = _validity(model, at)
    card = PriceCard(
        tenant=tenant,
        card_id=card_id,
        version=0,
        provider=provider,
        model=model.id,
        aliases=tuple(sorted(names - {model.id})),
        currency=CURRENCY,
        rates=tuple(sorted(with_kinds(rates))),
        max_input_tokens=model.context_window,
        valid_from=valid_from,
        valid_until=valid_until,
    )
    return Made(card, apart, said)


def with_kinds(rates: Sequence[Rate]) -> list[Rate]:
    """The rates, and for each kind of input without one of its own those of what it is a kind of, tier by tier."""
    found: dict[tuple[str, str], dict[str, list[Rate]]] = {}
    for rate in rates:
        found.setdefault((rate.service_tier, rate.window), {}).setdefault(rate.bucket, []).append(rate)
    for by_bucket in found.values():
        for kind, general in KIND_OF:
            if kind not in by_bucket and general in by_bucket:
                by_bucket[kind] = [rate._replace(bucket=kind) for rate in by_bucket[general]]
    return [rate for by_bucket in found.values() for rates in by_bucket.values() for rate in rates]


def _windows(model: ModelInfo, at: datetime, unsaid: list[str]) -> dict[str, dict[str, Prices]]:
    """The complete prices of each tier by the time of the day at which they apply; "" where nothing else does."""
    if isinstance(model.prices, ModelPrice):
        return {"": _tiers(model, model.prices, at, unsaid)}
    windows: dict[str, ModelPrice] = {}
    # The last one that is active wins.
    for entry in reversed(model.prices):
        if isinstance(entry.constraint, TimeOfDateConstraint):
            window = _window(entry.constraint)
            if window is None or _overlap(window, windows):
                unsaid.append(
                    f"its prices from {entry.constraint.start_time} to {entry.constraint.end_time} have no window"
                )
            else:
                windows[window] = entry.prices
        elif entry.constraint is None or entry.constraint.active(at):
            windows[""] = entry.prices
            break
    if "" not in windows and model.prices:
        windows[""] = model.prices[0].prices
    return {window: _tiers(model, prices, at, unsaid) for window, prices in windows.items()}


def _window(constraint: TimeOfDateConstraint) -> str | None:
    begin, end = ends(constraint)
    if begin == end or any(moment.second or moment.microsecond for moment in (begin, end)):
        return None
    return f"{begin:%H:%M}-{end:%H:%M}"


def ends(constraint: TimeOfDateConstraint) -> tuple[time, time]:
    """When a window of the day begins and ends, in UTC."""
    return _utc(constraint.start_time), _utc(constraint.end_time)


def _utc(moment: time) -> time:
    """A time of the day in UTC; one without a zone is."""
    if moment.tzinfo is None:
        return moment
    return datetime.combine(datetime(2000, 1, 1, tzinfo=UTC).date(), moment).astimezone(UTC).time()


def _overlap(window: str, others: Iterable[str]) -> bool:
    return any(covers(window, m) and covers(other, m) for other in others for m in range(24 * 60))


def _tiers(model: ModelInfo, prices: ModelPrice, at: datetime, unsaid: list[str]) -> dict[str, Prices]:
    """The complete prices of each service tier: the standard ones, with what a tier overrides."""
    overrides: dict[str, dict[str, Decimal | TieredPrices]] = {STANDARD_TIER: {}}
    for variant in model.price_variants or ():
        condition = tuple(variant.when.items())
        tier = _tier(condition)
        if tier is None or isinstance(variant.constraint, TimeOfDateConstraint):
            unsaid.append(f"prices under {dict(condition)} have no tier")
        elif variant.constraint is None or variant.constraint.active(at):
            # The first variant that gives a price wins.
            overrides[tier] = _given(variant.prices) | overrides.get(tier, {})
    standard = _given(prices) | overrides[STANDARD_TIER]
    return {tier: standard | changed for tier, changed in overrides.items()}


def _tier(condition: tuple[tuple[str, str], ...]) -> str | None:
    if len(condition) != 1:
        return None
    (name, value) = condition[0]
    if name == "service_tier":
        return STANDARD_TIER if value == "default" else value
    return _TIERS.get((name, value))


def _given(prices: ModelPrice) -> dict[str, Decimal | TieredPrices]:
    return {key: value for key, value in vars(prices).items() if value is not None}


def _rates(prices: Prices, tier: str, window: str, where: str, unsaid: list[str]) -> list[Rate]:
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
            Rate(bucket, tier, above, exact_price(amount, f"{where}/{key}"), per, window=window)
            for above, amount in steps
        ]
    return [rate for rates in by_bucket.values() for rate in rates]


def changes(model: ModelInfo) -> list[datetime]:
    """The dates at which a price of the model changes, in order."""
    dated: list[ConditionalPrice | PriceVariant] = [*(model.prices if isinstance(model.prices, list) else ())]
    dated += model.price_variants or ()
    return sorted(
        {
            datetime.combine(entry.constraint.start_date, time(), UTC)
            for entry in dated
            if isinstance(entry.constraint, StartDateConstraint)
        }
    )


def _validity(model: ModelInfo, at: datetime) -> tuple[datetime | None, datetime | None]:
    """From the last to the next date at which any price of the model changes."""
    dates = changes(model)
    return (
        max((change for change in dates if change <= at), default=None),
        min((change for change in dates if change > at), default=None),
    )
