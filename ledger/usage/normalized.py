"""Reads one usage object: into disjoint billable buckets, or into the reasons why it cannot be priced."""

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ledger.domain.cards import GROUP_OF_BUCKET, INPUT_GROUP, OUTPUT_GROUP
from ledger.usage.buckets import Untold, disjoint, parts_above_the_whole, without_bucket
from ledger.usage.extraction import Reader, Reading, Unreadable
from ledger.usage.fields import at
from ledger.usage.shapes import FLAVORS

_NAME = re.compile(r"[!-~]{1,256}", re.ASCII)
_TIER = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
# Python refuses to write integers of more than 4,300 digits, and a sum may have one more than what was read.
_MOST_DIGITS = 40


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
    """Reads the `usage_document` of one of FLAVORS. Never raises: what is wrong is in `defects`."""
    shape = FLAVORS.get(flavor)
    if shape is None:
        return Normalized(
            defects=("api_flavor is not known: such as openai.chat, anthropic.messages, gemini.generate_content",)
        )
    try:
        body = _decode(text)
    except (ValueError, RecursionError, ArithmeticError) as error:
        reason = str(error) if isinstance(error, _AmbiguousError) else "it cannot be read"
        return Normalized(defects=(f"the document is not JSON: {reason}",))
    if not isinstance(body, dict):
        return Normalized(defects=("the document is not a JSON object",))
    model, defects = _word(at(body, *shape.reader.model_path), _NAME, "model")
    usage = at(body, *shape.reader.root)
    tier = ""
    if isinstance(usage, dict):
        tier, wrong = _word(shape.tier(body, usage), _TIER, "service_tier")
        defects += wrong
    buckets = {} if defects else _extract(shape.reader, body, defects)
    return Normalized(() if defects else tuple(buckets.items()), model, tier, tuple(defects))


def _extract(reader: Reader, body: dict[str, Any], defects: list[str]) -> dict[str, int]:
    """The buckets of a response; `defects` gets whatever speaks against settling on them."""
    try:
        reading = reader.read(body)
        buckets = disjoint(reading.counts)
    except Unreadable as error:
        defects += error.reasons
        return {}
    except Untold as error:
        defects.append(str(error))
        return {}
    defects += [*reading.doubts, *without_bucket(reading.counts), *parts_above_the_whole(buckets)]
    defects += _absent(reader, body, reading)
    return buckets


def _absent(reader: Reader, body: dict[str, Any], reading: Reading) -> list[str]:
    """Absent is not zero, but for a provider that leaves out zeros and gives a total that proves it."""
    usage = at(body, *reader.root)
    if type(usage.get("totalTokenCount")) is int:
        return []
    totals = [total for total in (INPUT_GROUP, OUTPUT_GROUP) if total in reader.counted]
    return [f"{total} is absent" for total in totals if total not in reading.counts]


def _word(value: object, pattern: re.Pattern[str], name: str) -> tuple[str, list[str]]:
    if value is None or value == "":
        return "", []
    if isinstance(value, str) and pattern.fullmatch(value):
        return value, []
    return "", [f"{name} is not a plain name"]


class _AmbiguousError(ValueError):
    """One object says two things under one name, or a number is none, or no count of anything."""


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _AmbiguousError("an object has the same name twice")
    return found


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise _AmbiguousError(f"a number has more than {_MOST_DIGITS} digits")
    return int(text)


def _not_a_number(_text: str) -> None:
    raise _AmbiguousError("NaN and Infinity are not numbers")


# Made once: json.loads makes a decoder for each text, which costs as much as reading one.
_decode = json.JSONDecoder(
    parse_int=_integer,
    parse_float=Decimal,
    parse_constant=_not_a_number,
    object_pairs_hook=_object_without_repeats,
).decode
