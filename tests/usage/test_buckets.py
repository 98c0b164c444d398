"""Totals that contain each other, taken apart."""

from genai_prices.data_units import unit_data
from genai_prices.decompose import compute_leaf_values
from genai_prices.types import Usage
from genai_prices.units import UnitRegistry
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.domain.cards import GROUP_OF_BUCKET, INPUT_GROUP, OUTPUT_GROUP
from ledger.usage.buckets import EVERY_KIND, Untold, disjoint, parts_above_the_whole

KINDS = sorted(EVERY_KIND & unit_data.keys() - {"requests"})
COUNTS = st.dictionaries(st.sampled_from(KINDS), st.integers(0, 50), max_size=8).flatmap(
    lambda parts: st.tuples(st.just(parts), st.integers(0, 300), st.integers(0, 300))
)


@settings(max_examples=500, deadline=None)
@given(COUNTS, st.sets(st.sampled_from(KINDS)))
def test_buckets_add_up_to_the_totals_whatever_is_told_apart(
    counts: tuple[dict[str, int], int, int], apart: set[str]
) -> None:
    parts, inputs, outputs = counts
    given = parts | {"input_tokens": inputs, "output_tokens": outputs}
    try:
        buckets = disjoint(given, apart)
    except Untold:
        return
    for group, whole in ((INPUT_GROUP, inputs), (OUTPUT_GROUP, outputs)):
        assert sum(q for bucket, q in buckets.items() if GROUP_OF_BUCKET[bucket] == group) == whole
    assert all(quantity for bucket, quantity in buckets.items() if bucket not in (INPUT_GROUP, OUTPUT_GROUP))


# What a catalogue may price apart, so that each of its units has a price for whatever is of two kinds at once.
PRICED = [
    {"input_tokens", "output_tokens"},
    {"input_tokens", "cache_read_tokens", "output_tokens"},
    {
        "input_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "cache_write_1h_tokens",
        "output_tokens",
        "output_reasoning_tokens",
    },
    {
        "input_tokens",
        "cache_read_tokens",
        "input_audio_tokens",
        "cache_audio_read_tokens",
        "output_tokens",
        "output_audio_tokens",
    },
    {
        "input_tokens",
        "input_image_tokens",
        "input_audio_tokens",
        "output_tokens",
        "output_image_tokens",
        "output_citation_tokens",
    },
]


@settings(max_examples=500, deadline=None)
@given(COUNTS, st.sampled_from(PRICED))
def test_the_library_takes_the_same_counts_apart_in_the_same_way(
    counts: tuple[dict[str, int], int, int], apart: set[str]
) -> None:
    parts, inputs, outputs = counts
    given = parts | {"input_tokens": inputs, "output_tokens": outputs}
    units = UnitRegistry(unit_data).units
    try:
        theirs = compute_leaf_values(apart, Usage(**given), units)
    except ValueError:
        theirs = None
    try:
        ours = disjoint(given, apart)
    except Untold:
        assert theirs is None
        return
    if theirs is None:
        # Of two counts that overlap it infers nothing, even where one of them is all of the other.
        return
    assert parts_above_the_whole(ours) == ()
    assert {key: q for key, q in theirs.items() if q} == {b: q for b, q in ours.items() if q and b in apart}
