"""Takes the counts of genai-prices apart: totals that contain each other, into disjoint buckets.

A token can be of two kinds at once (audio, and read from a cache). Where a response does not say how many are both, the buckets
cannot be told: that is said, and nothing is guessed.
"""

from collections.abc import Collection, Mapping

from ledger.domain.cards import GROUP_OF_BUCKET, REASONING, TOKEN_GROUPS

_MODALITIES = ("audio", "image", "video")
_OUTPUTS = (REASONING, *(f"output_{kind}_tokens" for kind in _MODALITIES), "output_citation_tokens")
# Buckets that are a count of their own.
_COUNTED = tuple(bucket for bucket, group in GROUP_OF_BUCKET.items() if group not in (*TOKEN_GROUPS, "requests"))
EVERY_KIND = frozenset(GROUP_OF_BUCKET)
# Counts that are inside a bucket, at its price.
_INSIDE = ("_text_", "_tool_", "cache_write_5m_tokens")


class Untold(ValueError):
    """The counts do not tell how much is in a bucket."""


def disjoint(counts: Mapping[str, int], apart: Collection[str] = EVERY_KIND) -> dict[str, int]:
    """The buckets of some counts; those of input and output are always there, others if they are not zero.

    Only the kinds that are in `apart` are told apart: a catalogue that has one price for several need not know. A bucket
    is negative if the parts are more than the whole. Raises Untold.
    """

    def of(bucket: str) -> int:
        return counts.get(bucket, 0) if bucket in apart else 0

    read, written, for_an_hour = of("cache_read_tokens"), of("cache_write_tokens"), of("cache_write_1h_tokens")
    if for_an_hour and "cache_write_tokens" not in counts:
        raise Untold("cache_write_1h_tokens is reported, but cache_write_tokens is not")
    buckets = {bucket: of(bucket) for bucket in _OUTPUTS} | {bucket: counts.get(bucket, 0) for bucket in _COUNTED}
    for kind in _MODALITIES:
        of_kind, cached, kept = f"input_{kind}_tokens", f"cache_{kind}_read_tokens", f"cache_{kind}_write_tokens"
        for both, other in ((cached, read), (kept, written)):
            if of(of_kind) and other and both in apart and both not in counts:
                raise Untold(f"it is not reported how many of the {of_kind} are {both}")
        buckets[cached] = of(cached)
        if kept in EVERY_KIND:
            buckets[kept] = of(kept)
        buckets[of_kind] = of(of_kind) - of(cached) - of(kept) if of_kind in apart else 0
    buckets["cache_read_tokens"] = read - sum(buckets[f"cache_{kind}_read_tokens"] for kind in _MODALITIES)
    buckets["cache_write_1h_tokens"] = for_an_hour
    buckets["cache_write_tokens"] = written - for_an_hour - buckets["cache_audio_write_tokens"]
    beside = sum(buckets[bucket] for bucket in buckets if GROUP_OF_BUCKET[bucket] == "input_tokens")
    totals = {
        "input_tokens": counts.get("input_tokens", 0) - beside,
        "output_tokens": counts.get("output_tokens", 0) - sum(buckets[bucket] for bucket in _OUTPUTS),
    }
    return totals | {bucket: quantity for bucket, quantity in buckets.items() if quantity}


def without_bucket(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Sentences about counts that are in none of the buckets."""
    return tuple(
        f"usage reports {key}, and there is no bucket for it"
        for key, quantity in sorted(counts.items())
        if quantity and key not in EVERY_KIND and not any(part in key for part in _INSIDE)
    )


def parts_above_the_whole(buckets: Mapping[str, int]) -> tuple[str, ...]:
    """Sentences about negative buckets: what is left of a total when its parts are taken away."""
    return tuple(f"{bucket} comes to {q}: its parts are more than the whole" for bucket, q in buckets.items() if q < 0)
