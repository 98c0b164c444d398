"""The fields of a usage object that no extractor reads: which of them repeat what was read, and which may carry a price."""

from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

from genai_prices.types import ArrayMatch

Object: TypeAlias = Mapping[str, Any]
Path: TypeAlias = tuple[str, ...]

# What a field repeats of the counts that were read, by its name: the sum of these, less those with a minus.
_REPEATS: Mapping[str, tuple[str, ...]] = {
    "total_tokens": ("input_tokens", "output_tokens"),
    "totalTokens": ("input_tokens", "output_tokens"),
    "totalTokenCount": ("input_tokens", "output_tokens"),
    "prompt_cache_hit_tokens": ("cache_read_tokens",),
    "prompt_cache_miss_tokens": ("input_tokens", "-cache_read_tokens"),
    "num_cached_tokens": ("cache_read_tokens",),
    "cached_tokens": ("cache_read_tokens",),
    "cacheReadInputTokenCount": ("cache_read_tokens",),
    "cacheWriteInputTokenCount": ("cache_write_tokens",),
    "ephemeral_5m_input_tokens": ("cache_write_tokens", "-cache_write_1h_tokens"),
    "reasoning_tokens": ("output_reasoning_tokens",),
    "thinking_tokens": ("output_reasoning_tokens",),
}
# Counts that are inside another one at its price, or that have no fee.
_FREE = frozenset({"text_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens", "web_fetch_requests"})
_NESTED = (dict, list)
_DURATIONS = ("_time", "_ms", "_duration", "latency")


def at(data: object, *path: str) -> Any:
    """The value at a path, None if it is absent, null, or below something that is not an object."""
    for step in path:
        # What came from JSON is a dict, and asking for a Mapping is slow.
        if type(data) is not dict and not isinstance(data, Mapping):
            return None
        data = data.get(step)
    return data


def steps(path: Any) -> Path:
    """The steps of a path of the library; an item of a list is `[value]` by the value that it is found by."""
    if isinstance(path, str):
        return (path,)
    return tuple(step if isinstance(step, str) else f"[{_found_by(step)}]" for step in path)


def _found_by(step: ArrayMatch) -> str:
    return str(getattr(step.match, "equals", step.match)).lower()


def doubts_of(
    usage: Object,
    name: str,
    mapped: Collection[Path],
    by: Collection[str],
    counts: Mapping[str, int],
    costs: dict[str, Decimal],
) -> Iterator[str]:
    """Sentences about fields that do not fit what was read, or that nothing reads. `costs` gets what the provider charges.

    `mapped` are the paths that were read; an item of a list in one goes by the value of one of the fields `by`.
    """
    for path, value in _leaves(usage, (), by):
        last = path[-1]
        if path in mapped:
            # Those that are in no list were looked at before the extractor did.
            if type(value) is not int and any(step.startswith("[") for step in path):
                yield f"{_where(name, path)} is not a whole number"
        elif not _is_number(value) or not value or last in _FREE or last.endswith(_DURATIONS):
            continue
        elif "cost" in last or path[0].startswith("cost"):
            costs[_where(name, path)] = Decimal(str(value))
        elif last in _REPEATS:
            parts = _REPEATS[last]
            together = sum(-counts.get(p[1:], 0) if p[0] == "-" else counts.get(p, 0) for p in parts)
            if together != value:
                where = _where(name, path)
                yield f"{where} is {value}, but {' and '.join(parts).replace(' and -', ' less ')} come to {together}"
        else:
            yield f"{_where(name, path)} is not zero ({value}), and nothing is known to count it"
    yield from _cache_writes(counts)
    yield from _turns(usage, name)


def _where(name: str, path: Path) -> str:
    return ".".join((name, *path)).replace(".[", "[")[:200]


def _cache_writes(counts: Mapping[str, int]) -> Iterator[str]:
    """The lifetimes of what was written to a cache are all of it."""
    lifetimes = [counts[key] for key in ("cache_write_5m_tokens", "cache_write_1h_tokens") if key in counts]
    if lifetimes and sum(lifetimes) != counts.get("cache_write_tokens", 0):
        written = counts.get("cache_write_tokens", "no")
        yield f"usage has {written} cache_write_tokens, but those by their lifetime add up to {sum(lifetimes)}"


def _turns(usage: Object, name: str) -> Iterator[str]:
    """Turns of another model, or that compacted the context, are billed beside the totals: their price would be short."""
    turns = usage.get("iterations")
    if turns is not None and not isinstance(turns, list):
        yield f"{name}.iterations is not a list"
    elif turns:
        for key in ("input_tokens", "output_tokens"):
            said = [at(turn, key) for turn in turns]
            together = sum(turn for turn in said if type(turn) is int)
            if together != usage.get(key):
                yield f"{name}.{key} is {usage.get(key)}, but {name}.iterations adds up to {together}"


def _is_number(value: object) -> bool:
    return type(value) in (int, float, Decimal)


def _leaves(data: object, path: Path, by: Collection[str]) -> Iterator[tuple[Path, Any]]:
    """Every value in an object that is no object or list itself, null left out. Turns (`iterations`) are not looked into.

    An item of a list goes by the value of one of the fields `by`, so the second of that value stands out as unknown.
    """
    if isinstance(data, dict):
        for key, value in data.items():
            here = (*path, key if key.isascii() and key.isprintable() else ascii(key)[1:-1])
            if isinstance(value, _NESTED):
                if key != "iterations":
                    yield from _leaves(value, here, by)
            elif value is not None:
                yield here, value
    elif isinstance(data, list):
        seen: set[str] = set()
        for number, item in enumerate(data):
            named = next((str(item[f]).lower() for f in by if isinstance(item, dict) and f in item), "")
            known = named and named not in seen
            seen.add(named)
            yield from _leaves(item, (*path, f"[{ascii(named)[1:-1]}]" if known else f"[{number}]"), by)
    elif data is not None and path:
        yield path, data
