"""Plain fields are read without the library's extractor: whatever they say, it would have read the same."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.usage import FLAVORS
from ledger.usage.extraction import Reader, Unreadable
from ledger.usage.fields import Path, at

VALUES = st.one_of(
    st.integers(0, 5),
    st.just(10**15),
    st.none(),
    st.sampled_from([-1, True, 1.5, "7", {}, [], 10**15 + 1, 5 * 10**14 + 1]),
)


def nested(values: dict[Path, Any], root: Path) -> dict[str, Any]:
    """A response with these values at their paths below the root."""
    body: dict[str, Any] = {}
    for path, value in values.items():
        holder = body
        for step in (*root, *path)[:-1]:
            holder = holder.setdefault(step, {})
        holder[path[-1]] = value
    return body


@pytest.mark.parametrize("reader", {id(flavor.reader): flavor.reader for flavor in FLAVORS.values()}.values())
@given(data=st.data())
def test_plain_fields_are_read_as_the_library_reads_them(reader: Reader, data: st.DataObject) -> None:
    paths = sorted(path for path in reader.mapped if not any(step.startswith("[") for step in path))
    values = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(paths, VALUES)))
    body = nested(values, reader.root)
    counts = reader.whole_counts(at(body, *reader.root) or {})
    if counts is not None:
        assert counts == reader.extracted(body, ())


def test_whole_numbers_are_read_without_it() -> None:
    chat = FLAVORS["openai.chat"].reader
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}
    assert chat.whole_counts(usage) == {"input_tokens": 7, "output_tokens": 2, "cache_read_tokens": 3}
    for changed in ({"prompt_tokens": None}, {"prompt_tokens": 7.0}, {"prompt_tokens_details": "none"}):
        assert chat.whole_counts(usage | changed) is None
    with pytest.raises(Unreadable):
        chat.extracted({"usage": {}}, ())
