"""Reads a provider's response by an extractor of genai-prices, and says whatever that library passes over in silence.

The library leaves out a count of another type, and every field that it has no mapping for. Left out is not zero: each becomes a
doubt, a sentence with the path that it is about.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from genai_prices.types import ArrayMatch, UsageExtractor

from ledger.domain.cards import GROUP_OF_BUCKET, MAX_QUANTITY
from ledger.usage.fields import Object, Path, at, doubts_of, steps


class Unreadable(ValueError):
    """The response holds no usage that the extractor can read; `reasons` are sentences about what is missing."""

    def __init__(self, *reasons: str) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class Reading(NamedTuple):
    """What an extractor makes of a response.

    `counts` are the library's: totals that contain each other. A key that is not there was not reported. `costs` is what the
    provider says that it charges, by path: it is kept beside our own price, and never in its place.
    """

    model: str
    counts: Mapping[str, int]
    costs: Mapping[str, Decimal]
    doubts: tuple[str, ...]


class Reader:
    """An extractor of the library, and what is worked out of it once."""

    def __init__(self, extractor: UsageExtractor) -> None:
        self._extractor = extractor
        self.root: Path = steps(extractor.root)
        self.model_path: Path = steps(extractor.model_path)
        self.mapped = frozenset(steps(mapping.path) for mapping in extractor.mappings)
        self.counted = frozenset(mapping.dest for mapping in extractor.mappings)
        required = {steps(mapping.path) for mapping in extractor.mappings if mapping.required}
        # Items of lists are looked at afterwards, with the fields that nothing reads.
        plain = sorted(path for path in self.mapped if not any(step.startswith("[") for step in path))
        self._checked = tuple((path, path in required, ".".join((*self.root, *path))) for path in plain)
        self._holders = tuple(sorted({path[:-1] for path in plain if len(path) > 1}))
        # Of each: where it is, whether it must be there, and the count that it adds to.
        self._fields = tuple((steps(m.path), m.required, m.dest) for m in extractor.mappings)
        self._all_plain = len(plain) == len(self.mapped)
        self._listed_by = frozenset(
            step.field
            for mapping in extractor.mappings
            if not isinstance(mapping.path, str)
            for step in mapping.path
            if isinstance(step, ArrayMatch)
        )

    def read(self, body: object) -> Reading:
        """The counts of a response. Raises Unreadable."""
        usage, name = at(body, *self.root), ".".join(self.root)
        if not isinstance(usage, Mapping):
            raise Unreadable(f"{name} is absent" if usage is None else f"{name} is not an object")
        malformed: tuple[str, ...] = ()
        counts = self.whole_counts(usage)
        if counts is None:
            malformed = tuple(self._malformed(usage, name))
            counts = self.extracted(body, malformed)
        if ("inputTokens",) in self.mapped and _cached_inside(usage):
            counts["input_tokens"] = usage["inputTokens"]
        costs: dict[str, Decimal] = {}
        doubts = (*malformed, *doubts_of(usage, name, self.mapped, self._listed_by, counts, costs))
        model = at(body, *self.model_path)
        return Reading(model if isinstance(model, str) else "", counts, costs, tuple(dict.fromkeys(doubts)))

    def whole_counts(self, usage: Object) -> dict[str, int] | None:
        """What the library makes of whole numbers in plain fields, in a fifth of its time. None: it has to look itself."""
        if not self._all_plain:
            return None
        counts: dict[str, int] = {}
        for path, required, count in self._fields:
            value: Any = usage
            for step in path:
                if type(value) is not dict:
                    return None
                value = value.get(step)
                if value is None:
                    break
            if value is None and not required:
                continue
            if type(value) is not int or not 0 <= value <= MAX_QUANTITY:
                return None
            counts[count] = counts.get(count, 0) + value
        return counts if counts and max(counts.values()) <= MAX_QUANTITY else None

    def extracted(self, body: object, malformed: tuple[str, ...]) -> dict[str, int]:
        """What the library makes of a response. Raises Unreadable."""
        try:
            _, found = self._extractor.extract(body)
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
            raise Unreadable(*malformed or (str(error).replace("`", ""),)) from error
        counts: dict[str, int] = {}
        for key, value in vars(found).items():
            whole = int(value)
            if whole == value and whole <= MAX_QUANTITY:
                counts[key] = whole
            elif key in GROUP_OF_BUCKET:
                # Several fields may add up to one count.
                raise Unreadable(*malformed or (f"{key} is not a whole number up to {MAX_QUANTITY}",))
        return counts

    def _malformed(self, usage: Object, name: str) -> Iterator[str]:
        """What is wrong with the fields that the extractor reads."""
        for path in self._holders:
            holder = at(usage, *path)
            if holder is not None and not isinstance(holder, Mapping):
                yield ".".join((name, *path)) + " is not an object"
        for path, required, where in self._checked:
            value = at(usage, *path)
            if value is None:
                if required:
                    yield f"{where} is absent"
            elif type(value) is not int:
                yield f"{where} is not a whole number"
            elif value < 0:
                yield f"{where} is negative"
            elif value > MAX_QUANTITY:
                yield f"{where} is above {MAX_QUANTITY}"


def _cached_inside(usage: Object) -> bool:
    """True if Bedrock counts what was cached inside inputTokens, and not beside them: models differ, and the total tells."""
    keys = ("inputTokens", "outputTokens", "totalTokens", "cacheReadInputTokens", "cacheWriteInputTokens")
    plain, output, total, *cached = (value if type(value := usage.get(key)) is int else 0 for key in keys)
    return total == plain + output and 0 < sum(cached) <= plain
