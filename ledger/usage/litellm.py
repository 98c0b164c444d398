"""Price cards out of LiteLLM's price map: one flat object for each model, with a field for each price."""

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from ledger.domain.cards import STANDARD_TIER, PriceCard, Rate
from ledger.domain.money import CONTEXT
from ledger.usage.cards import CURRENCY, with_kinds
from ledger.usage.catalogue import CatalogueError
from ledger.usage.imports import NO_PRICE, Entry

PER_MILLION = 1_000_000

# The field of a price, without threshold and tier, and the bucket that it is for.
_FIELDS: Mapping[str, str] = {
    "input_cost_per_token": "input_tokens",
    "output_cost_per_token": "output_tokens",
    "cache_read_input_token_cost": "cache_read_tokens",
    "cache_creation_input_token_cost": "cache_write_tokens",
    "cache_creation_input_token_cost_above_1hr": "cache_write_1h_tokens",
    "input_cost_per_audio_token": "input_audio_tokens",
    "output_cost_per_audio_token": "output_audio_tokens",
    "cache_read_input_audio_token_cost": "cache_audio_read_tokens",
    "cache_creation_input_audio_token_cost": "cache_audio_write_tokens",
    "input_cost_per_image_token": "input_image_tokens",
    "output_cost_per_image_token": "output_image_tokens",
    "cache_read_input_image_token_cost": "cache_image_read_tokens",
    "input_cost_per_video_token": "input_video_tokens",
    "output_cost_per_video_token": "output_video_tokens",
    "output_cost_per_reasoning_token": "output_reasoning_tokens",
    "citation_cost_per_token": "output_citation_tokens",
    "input_cost_per_request": "requests",
    "input_cost_per_character": "input_characters",
    "output_cost_per_character": "output_characters",
    "input_cost_per_image": "input_images",
    "output_cost_per_image": "output_images",
    "ocr_cost_per_page": "input_document_pages",
    "annotation_cost_per_page": "input_annotated_document_pages",
    "google_maps_grounding_cost_per_query": "map_searches",
}
# A query is what the kind of model sells.
_QUERIES = {"rerank": "rerank_searches", "search": "web_searches"}
_FIELD = re.compile(
    r"(?P<base>.+?)(?:_above_(?P<above>\d+)k_tokens)?(?:_(?P<tier>batches|priority|flex|balanced|ultrafast|decisions))?",
    re.ASCII,
)
_TIERS = {None: STANDARD_TIER, "batches": "batch"}
_REGIONS = {
    "regional_processing_uplift_multiplier_eu": "eu",
    "regional_processing_uplift_multiplier_us": "us",
}
_MONEY = ("cost", "price", "pricing", "multiplier", "free", "billing", "specific")


class _UnbelievableError(ValueError):
    """A field cannot be what it says; the message names it."""


class _Price(NamedTuple):
    bucket: str
    tier: str
    above: int
    amount: Decimal


def read_litellm(text: str) -> Mapping[str, Any]:
    """The entries of a price map, by model; numbers as they are written. Raises CatalogueError if it is not one."""
    try:
        document = json.loads(text, parse_float=Decimal, parse_constant=Decimal)
    except (ValueError, RecursionError, ArithmeticError) as error:
        raise CatalogueError(f"the price map is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise CatalogueError("the price map is not an object of models")
    return document


def litellm_entries(document: Mapping[str, Any]) -> Iterator[Entry]:
    """Each entry of a price map, in its order."""
    for name, fields in document.items():
        try:
            yield _entry(name, fields)
        except _UnbelievableError as error:
            yield Entry(name, None).refused(str(error))
        except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError) as error:
            yield Entry(name, None).refused(f"its fields are in another form: {error!r}"[:200])


def _entry(name: str, fields: Any) -> Entry:
    provider = fields.get("litellm_provider") if isinstance(fields, Mapping) else None
    if not isinstance(provider, str):
        raise _UnbelievableError("it names no provider")
    unsaid: list[str] = []
    limits = [_limit(fields, key) for key in ("max_input_tokens", "max_output_tokens")]
    prices = [*_flat(fields, unsaid), *_ranged(fields, unsaid)]
    regions = _regions(fields, unsaid)
    if not prices:
        return Entry(name, None, unsaid=tuple(unsaid)).refused(NO_PRICE)
    model, served = name.removeprefix(f"{provider}/"), name
    if not model[:1].isalnum():
        # As Cloudflare's do. A model of the ledger begins with a letter or digit; what it is served as may be any text.
        model, served = name, f"*{model}"
    card = PriceCard(
        tenant="",
        card_id=name if name.startswith(f"{provider}/") else f"{provider}/{name}",
        version=0,
        provider=provider,
        model=model,
        aliases=(served,) if served != model else (),
        currency=CURRENCY,
        rates=tuple(sorted(with_kinds(_with_standard([_rate(price) for price in prices])))),
        max_input_tokens=limits[0],
        max_output_tokens=limits[1],
        regions=regions,
    )
    return Entry(name, card, unsaid=tuple(unsaid))


def _flat(fields: Mapping[str, Any], unsaid: list[str]) -> Iterator[_Price]:
    for key, value in fields.items():
        if key in _REGIONS or key in ("provider_specific_entry", "tiered_pricing") or not any(w in key for w in _MONEY):
            continue
        bucket, tier, above = _place(key, fields)
        if key == "search_context_cost_per_query" and isinstance(value, Mapping):
            sizes = set(value.values())
            if len(sizes) == 1:
                yield _Price("web_searches", STANDARD_TIER, 0, _amount(key, sizes.pop()))
            else:
                unsaid.append(f"{key} depends on the size of the context: searches have no price on the card")
        elif key == "file_search_cost_per_1k_calls":
            yield _Price("storage_searches", STANDARD_TIER, 0, CONTEXT.divide(_amount(key, value), Decimal(1000)))
        elif key == "input_cost_per_token_cache_hit" and "cache_read_input_token_cost" in fields:
            if value != fields["cache_read_input_token_cost"]:
                unsaid.append(f"{key} is not cache_read_input_token_cost, which is on the card")
        elif bucket is None:
            unsaid.append(f"{key} has no place on a card")
        else:
            yield _Price(bucket, tier, above, _amount(key, value))


def _place(key: str, fields: Mapping[str, Any]) -> tuple[str | None, str, int]:
    """The bucket, tier and threshold of a field; no bucket if it has none of ours."""
    if key == "input_cost_per_token_cache_hit":
        return "cache_read_tokens", STANDARD_TIER, 0
    if key == "input_cost_per_query":
        return _QUERIES.get(str(fields.get("mode"))), STANDARD_TIER, 0
    found = _FIELD.fullmatch(key)
    assert found is not None, "the expression fits any name"
    tier = found["tier"]
    return _FIELDS.get(found["base"]), _TIERS.get(tier, tier), 1000 * int(found["above"] or 0)


def _ranged(fields: Mapping[str, Any], unsaid: list[str]) -> Iterator[_Price]:
    """Prices by the length of the prompt, for the whole request."""
    for tier in fields.get("tiered_pricing") or ():
        begin = tier.get("range", [None])[0]
        for key, value in tier.items():
            bucket = _FIELDS.get(key)
            if bucket is not None and begin is not None:
                yield _Price(bucket, STANDARD_TIER, int(begin), _amount(f"tiered_pricing.{key}", value))
            elif key != "range":
                unsaid.append(f"tiered_pricing.{key} has no place on a card")


def _regions(fields: Mapping[str, Any], unsaid: list[str]) -> tuple[tuple[str, Decimal], ...]:
    found = {region: _amount(key, fields[key]) for key, region in _REGIONS.items() if key in fields}
    for key, value in (fields.get("provider_specific_entry") or {}).items():
        if key == "us":
            found[key] = _amount(f"provider_specific_entry.{key}", value)
        elif _is_number(value):
            unsaid.append(f"provider_specific_entry.{key} has no place on a card")
    return tuple(sorted(found.items()))


def _amount(key: str, value: Any) -> Decimal:
    """A price or factor as it is written. Raises _UnbelievableError if it is none."""
    if not _is_number(value) or value < 0:
        raise _UnbelievableError(f"{key} is {str(value)[:40]!r}, which is not a price")
    return Decimal(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool) and Decimal(value).is_finite()


def _limit(fields: Mapping[str, Any], key: str) -> int | None:
    value = fields.get(key)
    if value is None:
        return None
    if not _is_number(value) or value % 1 or value < 0:
        raise _UnbelievableError(f"{key} is {str(value)[:40]!r}, which is not a number of tokens")
    return int(value) or None


def _rate(price: _Price) -> Rate:
    """A price of one as the price of a million, so that no digit of it is lost."""
    return Rate(
        price.bucket, price.tier, price.above, CONTEXT.multiply(price.amount, Decimal(PER_MILLION)), PER_MILLION
    )


def _with_standard(rates: list[Rate]) -> list[Rate]:
    """The rates, and in each tier the standard ones of the buckets that it has none for."""
    tiers = {rate.service_tier for rate in rates} - {STANDARD_TIER}
    there = {(rate.bucket, rate.service_tier) for rate in rates}
    return rates + [
        rate._replace(service_tier=tier)
        for tier in sorted(tiers)
        for rate in rates
        if rate.service_tier == STANDARD_TIER and (rate.bucket, tier) not in there
    ]
