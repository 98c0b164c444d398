"""The catalogue of genai-prices: the installed one, or its JSON form. Rates stay exact decimals, read as text.

With the prices come the extractors: how the usage of each API of a provider is read.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any, TypeAlias

from genai_prices.data import providers
from genai_prices.types import (
    ArrayMatch,
    ClauseOr,
    ConditionalPrice,
    MatchLogic,
    ModelInfo,
    ModelPrice,
    PriceVariant,
    Provider,
    StartDateConstraint,
    Tier,
    TieredPrices,
    TimeOfDateConstraint,
    UsageExtractor,
    UsageExtractorMapping,
)
from pydantic import TypeAdapter, ValidationError

from ledger.domain.money import NotMoney, parse_price

Catalogue: TypeAlias = Mapping[str, Provider]

_match = TypeAdapter(ClauseOr)


class CatalogueError(ValueError):
    """The catalogue cannot be read; the message begins with the path of what is wrong."""


def installed_catalogue() -> Catalogue:
    """The catalogue that comes with the installed genai-prices, by provider id."""
    return {provider.id: provider for provider in providers}


def read_catalogue(text: str, only: Iterable[str] | None = None, refused: dict[str, str] | None = None) -> Catalogue:
    """Reads the JSON form of a catalogue, by provider id; `only` some providers if given. Prices are read as text.

    Raises CatalogueError if the text is not such a catalogue, or a price in it is not an exact number. With `refused` a model
    with such a price is left out, and put there by "provider/model" with what is wrong.
    """
    try:
        document = json.loads(text, parse_float=Decimal)
        return {
            entry["id"]: Provider(
                id=entry["id"],
                name=entry["name"],
                api_pattern=entry["api_pattern"],
                extractors=[_extractor(e, f"{entry['id']}/extractors") for e in entry.get("extractors") or ()],
                fallback_model_providers=entry.get("fallback_model_providers"),
                models=list(_models(entry, refused)),
            )
            for entry in document
            if only is None or entry["id"] in only
        }
    except CatalogueError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CatalogueError(f"the catalogue is not in the form of genai-prices: {error!r}") from error


def _extractor(entry: Mapping[str, Any], path: str) -> UsageExtractor:
    return UsageExtractor(
        root=_path(entry["root"], path),
        mappings=[UsageExtractorMapping(_path(m["path"], path), m["dest"], m["required"]) for m in entry["mappings"]],
        api_flavor=entry["api_flavor"],
        model_path=_path(entry.get("model_path", "model"), path),
    )


def _path(steps: str | list[Any], path: str) -> str | list[str | ArrayMatch]:
    if isinstance(steps, str):
        return steps
    return [
        step if isinstance(step, str) else ArrayMatch(step["type"], step["field"], _matching(step["match"], path))
        for step in steps
    ]


def _models(provider: Mapping[str, Any], refused: dict[str, str] | None) -> Iterator[ModelInfo]:
    for entry in provider["models"]:
        path = f"{provider['id']}/{entry['id']}"
        try:
            yield _model(entry, path)
        except CatalogueError as error:
            if refused is None:
                raise
            refused[path] = str(error)


def _model(entry: Mapping[str, Any], path: str) -> ModelInfo:
    prices = entry["prices"]
    return ModelInfo(
        id=entry["id"],
        match=_matching(entry["match"], path),
        name=entry.get("name"),
        context_window=entry.get("context_window"),
        prices=(
            [
                ConditionalPrice(
                    _constraint(p.get("constraint"), path), prices=_prices(p["prices"], f"{path}/prices[{i}]")
                )
                for i, p in enumerate(prices)
            ]
            if isinstance(prices, list)
            else _prices(prices, f"{path}/prices")
        ),
        price_variants=[
            PriceVariant(
                v["when"], _prices(v["prices"], f"{path}/variants[{i}]"), _constraint(v.get("constraint"), path)
            )
            for i, v in enumerate(entry.get("price_variants") or ())
        ],
    )


def _matching(clause: object, path: str) -> MatchLogic:
    try:
        return _match.validate_python({"or": [clause]}).or_[0]
    except (ValidationError, AssertionError) as error:
        raise CatalogueError(f"{path}/match is not a match rule") from error


def _constraint(entry: Mapping[str, str] | None, path: str) -> StartDateConstraint | TimeOfDateConstraint | None:
    if entry is None:
        return None
    if "start_date" in entry:
        return StartDateConstraint(date.fromisoformat(entry["start_date"]))
    if "start_time" in entry:
        return TimeOfDateConstraint(time.fromisoformat(entry["start_time"]), time.fromisoformat(entry["end_time"]))
    raise CatalogueError(f"{path}: the constraint {sorted(entry)} is not known")


def _prices(entry: Mapping[str, Any], path: str) -> ModelPrice:
    return ModelPrice(**{key: _price(value, f"{path}/{key}") for key, value in entry.items() if value is not None})


def _price(value: object, path: str) -> Decimal | TieredPrices:
    if isinstance(value, dict):
        return TieredPrices(
            exact_price(value["base"], f"{path}/base"),
            [
                Tier(tier["start"], exact_price(tier["price"], f"{path}/tiers[{i}]"))
                for i, tier in enumerate(value["tiers"])
            ],
        )
    return exact_price(value, path)


def exact_price(value: object, path: str) -> Decimal:
    """A price as it is written: a JSON number, or text. NaN, a comma, a blank, a sign are refused with the path."""
    written = str(value) if isinstance(value, int | Decimal | str) and not isinstance(value, bool) else repr(value)
    try:
        return parse_price(written)
    except NotMoney as error:
        raise CatalogueError(f"{path} {error}, not {written[:40]!r}") from error
