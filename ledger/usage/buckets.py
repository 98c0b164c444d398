"""Takes the counts of genai-prices apart: totals that contain each other, into disjoint buckets.

A token can be of two kinds at once (audio, and read from a cache). Where a response does not say how many are both, the buckets
cannot be told: that is said, and nothing is guessed.
"""

from collections.abc import Collection, Mapping

from ledger.domain.cards import GROUP_OF_BUCKET, REASONING, TOKEN_GROUPS

# Of each modality: its input, and what of it was read from a cache and written to one.
_MODALITIES = tuple(
    (f"input_{kind}_tokens", f"cache_{kind}_read_tokens", f"cache_{kind}_write_tokens")
    for kind in ("audio", "image", "video")
)
_OUTPUTS = (
    REASONING, "output_audio_tokens", "output_image_tokens", "output_video_tokens", "output_citation_tokens",
)  # fmt: skip
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

    told = {bucket: quantity for bucket, quantity in counts.items() if quantity and bucket in apart}
    read, written, for_an_hour = (
        told.get(bucket, 0) for bucket in ("cache_read_tokens", "cache_write_tokens", "cache_write_1h_tokens")
    )
    if for_an_hour and "cache_write_tokens" not in counts:
        raise Untold("cache_write_1h_tokens is reported, but cache_write_tokens is not")
    buckets = {bucket: told[bucket] for bucket in _OUTPUTS if bucket in told}
    buckets |= {bucket: counts[bucket] for bucket in _COUNTED if bucket in counts}
    of_outputs = sum(buckets.get(bucket, 0) for bucket in _OUTPUTS)
    cached = kept = beside = 0
    for whole, reads, writes in _MODALITIES:
        of_kind, of_cache, of_writes = told.get(whole, 0), told.get(reads, 0), told.get(writes, 0)
        if not (of_kind or of_cache or of_writes):
            continue
        for both, other in ((reads, read), (writes, written)):
            if of_kind and other and both in apart and both not in counts:
                raise Untold(f"it is not reported how many of the {whole} are {both}")
        buckets |= {reads: of_cache, writes: of_writes, whole: of_kind - of_cache - of_writes}
        cached, kept, beside = cached + of_cache, kept + of_writes, beside + of_kind
    buckets |= {
        "cache_read_tokens": read - cached,
        "cache_write_1h_tokens": for_an_hour,
        "cache_write_tokens": written - for_an_hour - kept,
    }
    plain = counts.get("input_tokens", 0) - (read - cached) - (written - kept) - beside
    totals = {"input_tokens": plain, "output_tokens": counts.get("output_tokens", 0) - of_outputs}
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
