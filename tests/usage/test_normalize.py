"""What a usage object is read as, and what keeps it from being priced."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.usage import FLAVORS, normalize


def openai(**usage: Any) -> str:
    return json.dumps({"model": "gpt-5", "usage": {"prompt_tokens": 10, "completion_tokens": 2} | usage})


def anthropic(**usage: Any) -> str:
    return json.dumps({"model": "claude-sonnet-4-5", "usage": {"input_tokens": 10, "output_tokens": 2} | usage})


# usage object | buckets. Totals are taken apart, so that no token is in two of them.
READINGS = [
    ("openai.chat", openai(), {"input_tokens": 10, "output_tokens": 2}),
    ("openai.chat", openai(prompt_tokens=0, completion_tokens=0), {"input_tokens": 0, "output_tokens": 0}),
    (
        "openai.chat",
        openai(prompt_tokens=2006, completion_tokens=300, prompt_tokens_details={"cached_tokens": 1920}),
        {"input_tokens": 86, "cache_read_tokens": 1920, "output_tokens": 300},
    ),
    (
        "openai.chat",
        openai(prompt_tokens=2600, prompt_tokens_details={"cached_tokens": 2000, "cache_write_tokens": 400}),
        {"input_tokens": 200, "cache_read_tokens": 2000, "cache_write_tokens": 400, "output_tokens": 2},
    ),
    (
        "openai.chat",
        openai(prompt_tokens=14746, completion_tokens=1944, completion_tokens_details={"reasoning_tokens": 1360}),
        {"input_tokens": 14746, "output_tokens": 584, "output_reasoning_tokens": 1360},
    ),
    (
        "anthropic.messages",
        anthropic(input_tokens=3, cache_creation_input_tokens=12304, output_tokens=550),
        {"input_tokens": 3, "cache_write_tokens": 12304, "output_tokens": 550},
    ),
    (
        "anthropic.messages",
        anthropic(
            cache_read_input_tokens=7,
            cache_creation_input_tokens=30,
            cache_creation={"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10},
            server_tool_use={"web_search_requests": 3, "web_fetch_requests": 5},
        ),
        {
            "input_tokens": 10,
            "cache_read_tokens": 7,
            "cache_write_tokens": 20,
            "cache_write_1h_tokens": 10,
            "output_tokens": 2,
            "web_searches": 3,
        },
    ),
    # A search tool that was declared but not used has no calls, and so no bucket.
    (
        "anthropic.messages",
        anthropic(server_tool_use={"web_search_requests": 0}),
        {"input_tokens": 10, "output_tokens": 2},
    ),
    ("anthropic.messages", anthropic(cache_creation_input_tokens=None), {"input_tokens": 10, "output_tokens": 2}),
]


@pytest.mark.parametrize(("flavor", "text", "buckets"), READINGS)
def test_totals_become_disjoint_buckets(flavor: str, text: str, buckets: dict[str, int]) -> None:
    read = normalize(flavor, text)
    assert (dict(read.buckets), read.defects) == (buckets, ())


# flavour | document | the sentence about it
DEFECTS = [
    ("openai.chat", "", "the document is not JSON"),
    ("openai.chat", '{"usage": ', "the document is not JSON"),
    ("openai.chat", "[" * 8000, "the document is not JSON"),
    ("openai.chat", '{"usage": {"prompt_tokens": NaN}}', "NaN and Infinity are not numbers"),
    # The sum of these has 4,301 digits, which Python refuses to write.
    (
        "anthropic.messages",
        '{"usage": {"input_tokens": 1, "output_tokens": 1, "iterations": [{"input_tokens": %s}, {"input_tokens": 1}]}}'
        % ("9" * 4300),
        "a number has more than 40 digits",
    ),
    ("openai.chat", '{"usage": {"prompt_tokens": 1, "prompt_tokens": 2}}', "an object has the same name twice"),
    ("openai.chat", '{"usage": {"prompt_tokens": ' + "9" * 5000 + "}}", "the document is not JSON"),
    ("openai.chat", "[]", "the document is not a JSON object"),
    ("openai.chat", "{}", "usage is absent"),
    ("openai.chat", '{"usage": null}', "usage is absent"),
    ("openai.chat", '{"usage": 3}', "usage is not an object"),
    ("openai.chat", '{"usage": {}}', "usage.prompt_tokens is absent"),
    ("openai.chat", '{"usage": {"prompt_tokens": 1}}', "usage.completion_tokens is absent"),
    ("openai.chat", openai(completion_tokens=None), "usage.completion_tokens is absent"),
    ("openai.chat", openai(completion_tokens=-1), "usage.completion_tokens is negative"),
    ("openai.chat", openai(completion_tokens=1.0), "usage.completion_tokens is not a whole number"),
    ("openai.chat", openai(completion_tokens=True), "usage.completion_tokens is not a whole number"),
    ("openai.chat", openai(prompt_tokens="10"), "usage.prompt_tokens is not a whole number"),
    ("openai.chat", openai(prompt_tokens=10**15 + 1), "usage.prompt_tokens is above 1000000000000000"),
    ("openai.chat", openai(prompt_tokens_details=[1]), "usage.prompt_tokens_details is not an object"),
    # The library would leave this out, and every token would be priced as if none had come from the cache.
    ("openai.chat", openai(prompt_tokens_details={"cached_tokens": "5"}), "cached_tokens is not a whole number"),
    (
        "openai.chat",
        openai(prompt_tokens_details={"cached_tokens": 11}),
        "input_tokens comes to -1: its parts are more than the whole",
    ),
    (
        "openai.chat",
        openai(completion_tokens_details={"reasoning_tokens": 3}),
        "output_tokens comes to -1: its parts are more than the whole",
    ),
    ("openai.chat", openai(total_tokens=13), "usage.total_tokens is 13"),
    (
        "openai.chat",
        openai(completion_tokens_details={"smell_tokens": 1}),
        "usage.completion_tokens_details.smell_tokens is not zero (1), and nothing is known to count it",
    ),
    ("anthropic.messages", '{"usage": {"output_tokens": 1}}', "usage.input_tokens is absent"),
    ("anthropic.messages", anthropic(cache_read_input_tokens=-5), "usage.cache_read_input_tokens is negative"),
    (
        "anthropic.messages",
        anthropic(cache_creation_input_tokens=30, cache_creation={"ephemeral_1h_input_tokens": 10}),
        "usage has 30 cache_write_tokens, but those by their lifetime add up to 10",
    ),
    (
        "anthropic.messages",
        anthropic(cache_creation={"ephemeral_5m_input_tokens": 10}),
        "usage has no cache_write_tokens, but those by their lifetime add up to 10",
    ),
    (
        "anthropic.messages",
        anthropic(iterations=[{"input_tokens": 10, "output_tokens": 2}, {"input_tokens": 4, "output_tokens": 0}]),
        "usage.input_tokens is 10, but usage.iterations adds up to 14",
    ),
    ("anthropic.messages", anthropic(server_tool_use={"x\u0000y": 1}), r"usage.server_tool_use.x\x00y is not zero"),
    ("anthropic.messages", anthropic(service_tier=7), "service_tier is not a plain name"),
    (
        "anthropic.messages",
        '{"model": "a\\u0000b", "usage": {"input_tokens": 1, "output_tokens": 1}}',
        "model is not a plain",
    ),
    ("unheard.of", openai(), "api_flavor is not known: such as openai.chat, anthropic.messages"),
]


@pytest.mark.parametrize(("flavor", "text", "sentence"), DEFECTS)
def test_a_defect_names_the_path_and_leaves_nothing_to_price(flavor: str, text: str, sentence: str) -> None:
    read = normalize(flavor, text)
    assert read.buckets == ()
    assert any(sentence in defect for defect in read.defects), read.defects


@pytest.mark.parametrize(
    ("flavor", "text", "tier"),
    [
        ("openai.chat", openai(), ""),
        (
            "openai.chat",
            '{"service_tier": "default", "usage": {"prompt_tokens": 1, "completion_tokens": 1}}',
            "standard",
        ),
        (
            "openai.chat",
            '{"service_tier": "priority", "usage": {"prompt_tokens": 1, "completion_tokens": 1}}',
            "priority",
        ),
        ("anthropic.messages", anthropic(service_tier="batch"), "batch"),
        ("anthropic.messages", anthropic(service_tier="standard", inference_geo="global"), "standard"),
        ("anthropic.messages", anthropic(service_tier="standard", speed="fast"), "standard-fast"),
        ("anthropic.messages", anthropic(inference_geo="us"), "standard-us"),
    ],
)
def test_the_served_tier_is_said_in_the_words_of_price_cards(flavor: str, text: str, tier: str) -> None:
    read = normalize(flavor, text)
    assert (read.service_tier, read.defects) == (tier, ())


def test_a_group_is_the_sum_of_its_buckets() -> None:
    read = normalize(
        "openai.chat",
        openai(prompt_tokens=2600, prompt_tokens_details={"cached_tokens": 2000, "cache_write_tokens": 400}),
    )
    assert read.totals == {"input_tokens": 2600, "output_tokens": 2}


def test_the_served_model_is_given_even_if_the_usage_is_defective() -> None:
    assert normalize("openai.chat", '{"model": "gpt-5-2025-08-07"}').model == "gpt-5-2025-08-07"


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
names = ["model", "usage", "service_tier", "speed", "iterations", "server_tool_use", "x"]
paths = sorted({step for shape in FLAVORS.values() for path in shape.reader.mapped for step in path})
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*names, *paths]), inner, max_size=6),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(FLAVORS)), documents | st.fixed_dictionaries({"usage": documents}))
def test_any_document_is_read_or_has_defects(flavor: str, document: Any) -> None:
    read = normalize(flavor, json.dumps(document))
    assert bool(read.buckets) != bool(read.defects)
    assert all(type(quantity) is int and quantity >= 0 for _, quantity in read.buckets)
    for text in (read.model, read.service_tier, *read.defects):
        assert "\x00" not in text
        text.encode()


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(FLAVORS)), st.text(max_size=40))
def test_any_text_is_read_or_has_defects(flavor: str, text: str) -> None:
    assert normalize(flavor, text).defects
