"""Reads one usage object: into disjoint billable buckets, or into the reasons why it cannot be priced."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from genai_prices.data import providers
from genai_prices.types import Usage

from ledger.domain.cards import GROUP_OF_BUCKET, MAX_QUANTITY
from ledger.usage.shapes import FLAVORS, Count, Object, Shape, at

_NAME = re.compile(r"[!-~]{1,256}", re.ASCII)
_TIER = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
# Counts of genai-prices that our buckets are made of, or that are inside one of them.
_READ = frozenset(
    {
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "cache_write_5m_tokens",
        "cache_write_1h_tokens",
        "output_reasoning_tokens",
        "web_searches",
    }
)
_PROVIDERS = {provider.id: provider for provider in providers}


@dataclass(frozen=True, slots=True)
class Normalized:
    """A usage object as the rules can price it.

    `buckets` are disjoint and hold whole numbers from zero upwards; input_tokens and output_tokens are always there,
    other buckets if they are not zero. With `defects` (sentences, each with the path that it is about) nothing can be
    priced and `buckets` is empty. `model` and `service_tier` are what the provider says that it served, '' if it does
    not.
    """

    buckets: tuple[tuple[str, int], ...] = ()
    model: str = ""
    service_tier: str = ""
    defects: tuple[str, ...] = ()

    @property
    def totals(self) -> dict[str, int]:
        """The quantities by the group whose ceiling bounds them."""
        totals: dict[str, int] = {}
        for bucket, quantity in self.buckets:
            group = GROUP_OF_BUCKET[bucket]
            totals[group] = totals.get(group, 0) + quantity
        return totals


def normalize(flavor: str, text: str) -> Normalized:
    """Reads `{"model": …, "usage": {…}}` of one of FLAVORS. Never raises: what is wrong is in `defects`."""
    shape = FLAVORS.get(flavor)
    if shape is None:
        return Normalized(defects=(f"api_flavor is not one of {', '.join(FLAVORS)}",))
    try:
        body = json.loads(
            text, parse_float=Decimal, parse_constant=_not_a_number, object_pairs_hook=_object_without_repeats
        )
    except (ValueError, RecursionError, ArithmeticError) as error:
        reason = str(error) if isinstance(error, _AmbiguousError) else "it cannot be read"
        return Normalized(defects=(f"the document is not JSON: {reason}",))
    if not isinstance(body, dict):
        return Normalized(defects=("the document is not a JSON object",))
    model, defects = _word(body.get("model"), _NAME, "model")
    usage = body.get("usage")
    if not isinstance(usage, dict):
        defects.append("usage is absent" if usage is None else "usage is not an object")
        return Normalized(model=model, defects=tuple(defects))
    tier, wrong = _word(shape.tier(body, usage), _TIER, "service_tier")
    defects += wrong
    counts = [*_count_defects(usage, shape.counts)]
    defects += counts or shape.disagreements(usage)
    buckets = () if defects else _extract(shape, body, defects)
    return Normalized((), model, tier, tuple(defects)) if defects else Normalized(buckets, model, tier)


def _extract(shape: Shape, body: dict[str, Any], defects: list[str]) -> tuple[tuple[str, int], ...]:
    """The buckets of a usage object whose counts are well formed; `defects` gets what the library cannot make of it."""
    try:
        _, usage = _PROVIDERS[shape.provider].extract_usage(body, api_flavor=shape.extractor)
        buckets = _disjoint(usage)
    except (ValueError, TypeError, KeyError) as error:
        defects.append(f"usage cannot be extracted: {type(error).__name__}")
        return ()
    unread = [key for key, value in vars(usage).items() if value and key not in _READ]
    defects.extend(f"usage reports {key}, and there is no bucket for it" for key in sorted(unread))
    defects.extend(f"usage gives {bucket} a negative quantity ({q})" for bucket, q in buckets.items() if q < 0)
    totals = ("input_tokens", "output_tokens")
    return tuple((bucket, quantity) for bucket, quantity in buckets.items() if quantity or bucket in totals)


def _disjoint(usage: Usage) -> dict[str, int]:
    """The library's totals, which contain each other, taken apart. Reasoning stays inside the output."""
    read = _whole(usage, "cache_read_tokens")
    written = _whole(usage, "cache_write_tokens")
    for_an_hour = _whole(usage, "cache_write_1h_tokens")
    return {
        "input_tokens": _whole(usage, "input_tokens") - read - written,
        "cache_read_tokens": read,
        "cache_write_tokens": written - for_an_hour,
        "cache_write_1h_tokens": for_an_hour,
        "output_tokens": _whole(usage, "output_tokens"),
        "web_searches": _whole(usage, "web_searches"),
    }


def _whole(usage: Usage, key: str) -> int:
    value = usage.reported_value(key)
    if not isinstance(value, int):
        raise TypeError(key)
    return value


def _count_defects(usage: Object, counts: tuple[Count, ...]) -> Iterator[str]:
    blocked = set()
    for count in counts:
        path = "usage." + ".".join(count.path)
        holder = at(usage, *count.path[:-1])
        if len(count.path) > 1 and holder is not None and not isinstance(holder, Mapping):
            if count.path[:-1] not in blocked:
                blocked.add(count.path[:-1])
                yield f"usage.{'.'.join(count.path[:-1])} is not an object"
            continue
        value = at(usage, *count.path)
        if value is None:
            if count.required:
                yield f"{path} is absent"
        elif type(value) is not int:
            yield f"{path} is not a whole number"
        elif value < 0:
            yield f"{path} is negative"
        elif value > MAX_QUANTITY:
            yield f"{path} is above {MAX_QUANTITY}"
        elif value and not count.billed:
            yield f"{path} is not zero, and there is no bucket for it"


def _word(value: object, pattern: re.Pattern[str], name: str) -> tuple[str, list[str]]:
    if value is None or value == "":
        return "", []
    if isinstance(value, str) and pattern.fullmatch(value):
        return value, []
    return "", [f"{name} is not a plain name"]


class _AmbiguousError(ValueError):
    """One object says two things under one name, or a number is none."""


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _AmbiguousError("an object has the same name twice")
    return found


def _not_a_number(_text: str) -> None:
    raise _AmbiguousError("NaN and Infinity are not numbers")
